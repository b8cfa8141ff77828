"""Synthesizes the app once for the tests that look at its templates."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# jsii starts the node of this environment; the built-in validator takes seconds and has its own test.
os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))
os.environ["CDK_VALIDATION"] = "false"

ENVIRONMENT: dict[str, Any] = {
    "name": "dev",
    "region": "eu-central-1",
    "tags": {"team": "decisions"},
    "model": {
        "source": {"repository": "owner/Model-GGUF", "revision": "0123456789" * 4},
        "file": "Model-Q4_K_M.gguf",
        "sha256": "ab" * 32,
    },
    "endpoints": {"decisions": {"pool": ["ml.c7i.2xlarge", "ml.c6i.2xlarge"]}},
}
GPU: dict[str, Any] = ENVIRONMENT | {"endpoints": {"decisions": {"pool": ["ml.g6e.xlarge", "ml.g5.xlarge"]}}}
BROUGHT: dict[str, Any] = ENVIRONMENT | {
    "model": {"s3_uri": "s3://my-models/qwen/v1/", "file": "Mine.gguf", "sha256": "cd" * 32},
    "endpoints": {
        "decisions": {
            "pool": ["ml.g6e.xlarge", "ml.c6i.2xlarge"],
            "image": {"uri": f"999988887777.dkr.ecr.eu-central-1.amazonaws.com/team/image@sha256:{'e' * 64}"},
        }
    },
}

Templates = dict[str, dict[str, Any]]
Synthesize = Callable[..., Templates]


def _assemble(*environments: dict[str, Any]) -> dict[str, Any]:
    import aws_cdk as cdk  # noqa: PLC0415 - after JSII_NODE is set

    from stacks.settings import parse_environments  # noqa: PLC0415
    from stacks.stage import EnvironmentStage  # noqa: PLC0415

    context = json.loads((Path(__file__).parents[2] / "cdk.json").read_text())["context"]
    app = cdk.App(context={key: value for key, value in context.items() if key != "environments"})
    for settings in parse_environments(list(environments), {}):
        EnvironmentStage(app, settings)
    assembly = app.synth()
    return {
        artifact.stack_name: artifact
        for nested in assembly.nested_assemblies
        for artifact in nested.nested_assembly.stacks
    }


def _synthesize(*environments: dict[str, Any]) -> Templates:
    return {name: artifact.template for name, artifact in _assemble(*environments).items()}


@pytest.fixture(scope="session")
def environment() -> dict[str, Any]:
    """A valid environment to start from."""
    return ENVIRONMENT


@pytest.fixture(scope="session")
def synthesize() -> Synthesize:
    """Templates by stack name, of the environments given."""
    return _synthesize


@pytest.fixture(scope="session")
def assemble() -> Callable[..., dict[str, Any]]:
    """Artifacts by stack name, which know more than templates: account, protection, messages."""
    return _assemble


@pytest.fixture(scope="session")
def templates() -> Templates:
    """Templates of ENVIRONMENT, which builds an archive and a CPU image."""
    return _synthesize(ENVIRONMENT)


@pytest.fixture(scope="session")
def gpu_templates() -> Templates:
    """Templates of an environment with GPU instances."""
    return _synthesize(GPU)


@pytest.fixture(scope="session")
def brought() -> dict[str, Any]:
    """A valid environment whose model and image are somebody else's."""
    return BROUGHT


@pytest.fixture(scope="session")
def brought_templates() -> Templates:
    """Templates of an environment that builds nothing."""
    return _synthesize(BROUGHT)
