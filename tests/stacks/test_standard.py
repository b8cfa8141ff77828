"""Stacks of endpoints that run AWS's containers as they are: one synth, each kind of endpoint once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stacks.dlc import DIGESTS
from stacks.standard_endpoint import EXAMPLE_CHAT
from tests.stacks.template_reader import flat, of_type, statements, the_only

ROOT = Path(__file__).parents[2]
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
REPOSITORY_ARN = "arn:aws:ecr:us-east-1:763104351884:repository"
VLLM = f"{REGISTRY}/vllm@sha256:{'a' * 64}"
DECIDER = f"{REGISTRY}/strands-decider@sha256:{'b' * 64}"
HUB_FILE = {"repository": "owner/Small-GGUF", "file": "Small-Q4.gguf"}
CALLERS = {"principals": ["111122223333"]}


@dataclass(frozen=True)
class Synthesis:
    folder: Path
    templates: dict[str, dict[str, Any]]
    messages: list[tuple[str, str, str]]

    def containers(self, key: str) -> list[dict[str, Any]]:
        models = of_type(self.templates[f"semif-dev-{key}"], "AWS::SageMaker::Model").values()
        return [flat(model["Properties"]["PrimaryContainer"]) for model in models]

    def said(self, key: str, level: str) -> list[str]:
        return [text for found, path, text in self.messages if found == level and path == f"/dev/{key}"]


@pytest.fixture(scope="module")
def synthesis(environment: dict[str, Any]) -> Synthesis:
    import aws_cdk as cdk  # noqa: PLC0415 - after JSII_NODE is set

    from stacks.settings import parse_environments  # noqa: PLC0415
    from stacks.stage import EnvironmentStage  # noqa: PLC0415

    endpoints = {
        "chat": {
            "engine": "llama-cpp",
            "pool": ["ml.g6e.2xlarge", "ml.g5.2xlarge"],
            "max_hourly_usd": 3,
            "instance_count": 2,
            "callers": CALLERS,
            "last_resort": {"pool": ["ml.m5.2xlarge"], "context_tokens": 2048, "threads": 8},
        },
        "hub": {"engine": "llama-cpp", "pool": ["ml.m5.2xlarge"], "download_at_start": HUB_FILE},
        "vllm": {"engine": "vllm", "pool": ["ml.g5.2xlarge"], "image": {"uri": VLLM}},
        "decider": {"engine": "strands-decider", "pool": ["ml.g5.2xlarge"], "image": {"uri": DECIDER}},
        "decisions": {"pool": ["ml.m5.2xlarge"], "callers": CALLERS},
    }
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context={key: value for key, value in context.items() if key != "environments"})
    value = environment | {"region": "us-east-1", "endpoints": endpoints}
    for settings in parse_environments([value], {}):
        EnvironmentStage(app, settings)
    assembly = app.synth()
    stacks = [artifact for nested in assembly.nested_assemblies for artifact in nested.nested_assembly.stacks]
    return Synthesis(
        Path(assembly.directory),
        {stack.stack_name: stack.template for stack in stacks},
        [
            (message.level.name.lower(), message.id, str(message.entry.data))
            for stack in stacks
            for message in stack.messages
        ],
    )


def test_only_the_archive_and_the_decision_endpoints_image_are_built(synthesis: Synthesis) -> None:
    kinds = {
        key: sorted(
            run["Properties"]["Kind"]
            for run in of_type(synthesis.templates[f"semif-dev-{key}"], "Custom::BuildRun").values()
        )
        for key in ("chat", "hub", "vllm", "decider", "decisions")
    }
    assert kinds == {
        "chat": ["archive"],
        "hub": [],
        "vllm": ["archive"],
        "decider": ["archive"],
        "decisions": ["archive", "image"],
    }


def test_the_container_as_it_is_on_the_environments_model(synthesis: Synthesis) -> None:
    first, last = synthesis.containers("chat")
    assert first["Image"] == f"{REGISTRY}/llama-cpp@{DIGESTS['cuda']}"
    assert last["Image"] == f"{REGISTRY}/llama-cpp@{DIGESTS['cpu']}"
    for container in (first, last):
        source = container["ModelDataSource"]["S3DataSource"]
        assert source == {
            "CompressionType": "None",
            "S3DataType": "S3Prefix",
            "S3Uri": synthesis.containers("decisions")[0]["ModelDataSource"]["S3DataSource"]["S3Uri"],
        }
    (archive,) = of_type(synthesis.templates["semif-dev-chat"], "Custom::BuildRun")
    assert first["Environment"] == {
        "SM_LLAMA_CPP_MODEL": f"/opt/ml/model/<{archive}.File>",
        "SM_LLAMA_CPP_CTX_SIZE": "8192",
        "SM_LLAMA_CPP_PARALLEL": "1",
        "SM_LLAMA_CPP_N_GPU_LAYERS": "999",
    }
    assert last["Environment"] == {
        "SM_LLAMA_CPP_MODEL": f"/opt/ml/model/<{archive}.File>",
        "SM_LLAMA_CPP_CTX_SIZE": "2048",
        "SM_LLAMA_CPP_PARALLEL": "1",
        "SM_LLAMA_CPP_THREADS": "8",
    }


@pytest.mark.parametrize(
    ("key", "repositories"), [("chat", ["llama-cpp"]), ("vllm", ["vllm"]), ("decider", ["strands-decider"])]
)
def test_the_role_pulls_from_awss_repository_alone(
    synthesis: Synthesis, key: str, repositories: list[str]
) -> None:
    template = synthesis.templates[f"semif-dev-{key}"]
    (image,) = (s for s in statements(template, "ExecutionRole") if s.get("Sid") == "Image")
    resources = image["Resource"] if isinstance(image["Resource"], list) else [image["Resource"]]
    assert resources == [f"{REPOSITORY_ARN}/{name}" for name in repositories]


def test_a_model_from_the_hub_has_no_archive_and_no_isolation(synthesis: Synthesis) -> None:
    template = synthesis.templates["semif-dev-hub"]
    properties = the_only(template, "AWS::SageMaker::Model")["Properties"]
    assert properties["EnableNetworkIsolation"] is False
    (container,) = synthesis.containers("hub")
    assert "ModelDataSource" not in container
    assert container["Environment"]["SM_LLAMA_CPP_HF_REPO"] == HUB_FILE["repository"]
    assert not any("s3:GetObject" in s["Action"] for s in statements(template, "ExecutionRole"))
    assert {"ModelUri", "ModelSha256"}.isdisjoint(template["Outputs"])
    (warning,) = synthesis.said("hub", "warning")
    assert "NO network isolation" in warning
    for key in ("chat", "vllm", "decider"):
        models = of_type(synthesis.templates[f"semif-dev-{key}"], "AWS::SageMaker::Model").values()
        assert {model["Properties"]["EnableNetworkIsolation"] for model in models} == {True}
        assert not any("isolation" in text for text in synthesis.said(key, "warning"))


def test_other_engines_say_that_they_were_not_run(synthesis: Synthesis) -> None:
    assert synthesis.containers("vllm")[0]["Image"] == VLLM
    assert synthesis.containers("decider")[0]["Image"] == DECIDER
    for key in ("vllm", "decider"):
        assert any("has not run it" in text for text in synthesis.said(key, "info"))
    for key in ("chat", "hub", "decisions"):
        assert not any("has not run it" in text for text in synthesis.said(key, "info"))


def test_a_limit_leaves_types_out_of_the_rounds_and_tells_the_walk_why(synthesis: Synthesis) -> None:
    properties = the_only(synthesis.templates["semif-dev-chat"], "Custom::InstancePoolEndpoint")["Properties"]
    assert {k: v for k, v in properties["Round1"].items() if k.startswith("Type")} == {
        "Type1": "ml.g6e.2xlarge"
    }
    assert list(properties["LeftOut"]) == ["ml.g5.2xlarge"]
    assert "unknown" in properties["LeftOut"]["ml.g5.2xlarge"]


def test_every_synth_says_what_an_endpoint_may_cost(synthesis: Synthesis) -> None:
    costs = {
        key: [text for text in synthesis.said(key, "info") if "Billed" in text]
        for key in ("chat", "hub", "vllm", "decider", "decisions")
    }
    assert [len(texts) for texts in costs.values()] == [1] * 5
    assert costs["chat"][0].startswith(
        "semif-dev-chat runs on the first to be had of 2 x ml.g6e.2xlarge, 2 x ml.m5.2xlarge."
        " Estimate: ml.g6e.2xlarge, the first choice and the dearest known, about 4,092 USD a month"
        " (2 x 2.8026 USD x 730 h; price of 2026-09-20)."
    )
    assert "ml.g5.2xlarge is never tried: its price in us-east-1 is unknown" in costs["chat"][0]
    assert "Price unknown in us-east-1: ml.g5.2xlarge" in costs["vllm"][0]
    assert "about 337 USD a month" in costs["decisions"][0]


def test_a_warning_does_not_hide_the_costs(synthesis: Synthesis) -> None:
    # The report would hold warnings and errors alone, and the CLI shows no others where it holds any.
    assert synthesis.said("hub", "warning")
    report = synthesis.folder / "validation-report.json"
    assert not report.exists() or json.loads(report.read_text())["pluginReports"] == []


def test_callers_get_a_role_and_a_policy(synthesis: Synthesis) -> None:
    actions = {}
    for key in ("chat", "decisions"):
        template = synthesis.templates[f"semif-dev-{key}"]
        assert {"InvokeRoleArn", "InvokePolicyArn"} <= set(template["Outputs"])
        policy = flat(the_only(template, "AWS::IAM::ManagedPolicy")["Properties"])
        assert policy["ManagedPolicyName"] == f"semif-dev-{key}-invoke-us-east-1"
        found = policy["PolicyDocument"]["Statement"]
        assert found[0]["Resource"] == f"arn:aws:sagemaker:us-east-1:ACCOUNT:endpoint/semif-dev-{key}"
        actions[key] = len(found)
    assert actions == {"chat": 2, "decisions": 1}  # a decision endpoint has no OpenAI path
    assert "InvokeRoleArn" not in synthesis.templates["semif-dev-hub"]["Outputs"]


def test_the_example_asks_for_a_chat(synthesis: Synthesis) -> None:
    command = synthesis.templates["semif-dev-chat"]["Outputs"]["ExampleCommand"]["Value"]
    assert "--endpoint-name semif-dev-chat" in command
    assert json.dumps(EXAMPLE_CHAT) in command
    assert "request.json" in synthesis.templates["semif-dev-decider"]["Outputs"]["ExampleCommand"]["Value"]
