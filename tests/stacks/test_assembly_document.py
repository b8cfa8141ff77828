"""semif.json: what the operator's commands read of a synth."""

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly_document import DOCUMENT, assembly_document, write_document
from stacks.prices import load_prices
from stacks.settings import parse_environments

HUB = {"repository": "owner/Model-GGUF", "revision": "0" * 40}


def document(*environments: dict[str, Any]) -> dict[str, Any]:
    settings = parse_environments(list(environments), {})
    found = assembly_document(settings, {item.name: 6 for item in settings}, load_prices())
    return dict(json.loads(json.dumps(found)))


def test_an_environment_in_full(environment: dict[str, Any]) -> None:
    small = {"s3_uri": "s3://models/small/", "file": "Small.gguf", "sha256": "1" * 64}
    endpoints = {
        "decisions": {
            "pool": ["ml.g5.xlarge", "ml.g4dn.xlarge"],
            "instance_count": 2,
            "update": {"type": "canary", "wait_s": 180},
            "last_resort": {"pool": ["ml.c6i.2xlarge"], "model": small, "instance_count": 3},
        },
        "chat": {"engine": "llama-cpp", "name": "my-chat", "pool": ["ml.m5.xlarge", "ml.m5.large"]},
    }
    settings = environment | {"name": "prod", "account": "111122223333", "region": "us-east-1"}
    found = document(settings | {"endpoints": endpoints}, environment)
    assert found["version"] == 1
    assert list(found["environments"]) == ["prod", "dev"]
    assert found["environments"]["prod"] == {
        "account": "111122223333",
        "region": "us-east-1",
        "protect": True,
        "stacks": [f"semif-prod-{key}" for key in ("artifacts", "builds", "decisions", "chat")],
        "bootstrap_version": 6,
        "tags": {"team": "decisions"},
        "builds": ["semif-prod-archive", "semif-prod-image-cpu", "semif-prod-image-cuda"],
        "model": {
            "kind": "hub",
            "url": "https://huggingface.co/owner/Model-GGUF/resolve/"
            + "0123456789" * 4
            + "/Model-Q4_K_M.gguf",
            "hub": None,
            "token_secret": None,
        },
        "endpoints": {
            "decisions": {
                "name": "semif-prod-decisions",
                "stack": "semif-prod-decisions",
                "engine": "semif",
                "instance_count": 2,
                "update": "canary",
                "strategy": "native",
                "rounds": [["ml.g5.xlarge", "ml.g4dn.xlarge"]],
                "last_resort": ["ml.c6i.2xlarge"],
                "last_resort_instance_count": 3,
                "last_resort_model": {"kind": "s3", "uri": "s3://models/small/"},
                "left_out": {},
                "worst_case_s": 1200 + 900 + 600 + 180 + 120,
                "hourly_usd": {"ml.g5.xlarge": None, "ml.g4dn.xlarge": None, "ml.c6i.2xlarge": None},
            },
            "chat": {
                "name": "my-chat",
                "stack": "semif-prod-chat",
                "engine": "llama-cpp",
                "instance_count": 1,
                "update": "all-at-once",
                "strategy": "native",
                "rounds": [["ml.m5.xlarge", "ml.m5.large"]],
                "last_resort": [],
                "last_resort_instance_count": 0,
                "last_resort_model": None,
                "left_out": {},
                "worst_case_s": 1620,
                "hourly_usd": {
                    "ml.m5.xlarge": load_prices().hourly_usd("us-east-1", "ml.m5.xlarge"),
                    "ml.m5.large": None,
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            {"source": HUB, "file": "X.gguf", "quantize": "Q4_K_M", "token_secret": "hub"},
            {
                "kind": "hub",
                "url": f"https://hub.example/owner/Model-GGUF/resolve/{'0' * 40}/config.json",
                "hub": "https://hub.example/",
                "token_secret": "hub",
            },
        ),
        (
            {"source": {"uri": "https://host.example/X.gguf"}, "file": "X.gguf", "sha256": "0" * 64},
            {"kind": "uri", "url": "https://host.example/X.gguf"},
        ),
        (
            {"source": {"uri": "s3://models/X.gguf"}, "file": "X.gguf", "sha256": "0" * 64},
            {"kind": "s3", "uri": "s3://models/X.gguf"},
        ),
        (
            {"s3_uri": "s3://models/x/", "file": "X.gguf", "sha256": "0" * 64},
            {"kind": "s3", "uri": "s3://models/x/"},
        ),
    ],
)
def test_models(environment: dict[str, Any], model: dict[str, Any], expected: dict[str, Any]) -> None:
    found = document(environment | {"model": model, "build": {"hub": "https://hub.example/"}})
    assert found["environments"]["dev"]["model"] == expected


def test_the_document_lies_in_the_assembly_and_names_its_stacks(
    tmp_path: Path, brought: dict[str, Any], environment: dict[str, Any]
) -> None:
    import aws_cdk as cdk  # noqa: PLC0415 - jsii starts a node process

    from stacks.stage import EnvironmentStage  # noqa: PLC0415

    environments = parse_environments([brought | {"name": "two"}, environment], {})
    app = cdk.App(outdir=str(tmp_path))
    for settings in environments:
        EnvironmentStage(app, settings)
    assembly = app.synth()
    write_document(assembly, environments)
    found = json.loads((tmp_path / DOCUMENT).read_text())["environments"]
    for nested in assembly.nested_assemblies:
        described = found[nested.display_name]
        in_order = [stack.stack_name for stack in nested.nested_assembly.stacks]
        assert described["stacks"] == in_order
        assert described["bootstrap_version"] >= 6
    assert found["two"]["builds"] == []
