"""One environment on the local AWS, deployed by the real CDK CLI: what the demo and the e2e tests drive."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from localaws.hub import COMMIT, Hub
from localaws.session import CdkResult, LocalAws
from semif.archive import read_archive, upload
from tests.standins.images import stand_ins
from tests.standins.storage import has_buildah
from tools.setup import MODEL_FILE, MODEL_SHA256, MODELS, ROOT

UNATTENDED: Final = ("--require-approval", "never")
READY_BUCKET: Final = "semif-ready-models"
HUB_REPOSITORY: Final = "semif/small-model"
BINDINGS: Final = "requirements-bindings-cuda.txt"
# SageMaker's container listens on 8080 of its own network and finds the model in /opt/ml/model. Here it is a
# process beside others, so the local hosting tells it both by the server's own variables.
BIND: Final = {"host": "SEMIF_HOST", "port": "SEMIF_PORT", "model_dir": "SEMIF_MODEL_DIR"}


class DeploymentError(Exception):
    """The CDK CLI ended with an error; the message holds its last lines."""


@dataclass(frozen=True)
class Pool:
    """Settings of the decision endpoint that the demo and the tests vary."""

    instance_types: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """Where an environment's model and image come from: the settings `model`, `build` and `image`."""

    model: Mapping[str, Any]
    build: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] | None = None


def ready_sources(aws: LocalAws) -> Sources:
    """Bring your own: the small model in a bucket and the server as an image, both there before any stack.

    The image stands for one that was built before: its server is a process of this Python.
    """
    repository = aws.client("ecr").create_repository(repositoryName="semif-ready")["repository"]
    image_uri = aws.push_image(
        f"{repository['repositoryUri']}:ready",
        command=[sys.executable, "-m", "semif_server"],
        environment={"OMP_WAIT_POLICY": "passive"},
        bind=BIND,
    )
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=READY_BUCKET)
    model_uri = upload(s3, READY_BUCKET, read_archive(MODELS / MODEL_FILE))
    return Sources(
        model={"s3_uri": model_uri, "file": MODEL_FILE, "sha256": MODEL_SHA256}, image={"uri": image_uri}
    )


def built_sources(hub: Hub) -> Sources:
    """What the deployment builds both from: the hub's model, and stand-ins for the images to build on.

    The stand-ins hold the llama.cpp that the CUDA flavour's bindings are made for, whatever the flavour.
    Without buildah their references are never resolved, and the local AWS says what that does not prove.
    """
    build = {"hub": hub.url, "bindings_cpu": BINDINGS, "bindings_gpu": BINDINGS}
    if has_buildah():
        images = stand_ins()
        build |= {
            "base_image_cpu": images.base,
            "base_image_gpu": images.base,
            "python_image": images.python,
        }
    source = {"repository": HUB_REPOSITORY, "revision": COMMIT}
    return Sources(
        model={"source": source, "file": MODEL_FILE, "sha256": MODEL_SHA256, "license": "apache-2.0"},
        build=build,
    )


def small_hub(folder: Path) -> Hub:
    """A hub on this machine that has the small model; `folder` is for what it serves."""
    model = folder / HUB_REPOSITORY / MODEL_FILE
    model.parent.mkdir(parents=True)
    model.symlink_to(MODELS / MODEL_FILE)
    return Hub(folder, licenses={HUB_REPOSITORY: "apache-2.0"})


class LocalEnvironment:
    """Environment `name` on a running local AWS, with the small model instead of the production one.

    Settings are synthesized once, into `folder`; every command then works on that cloud assembly, as a
    rollout promotes one assembly from wave to wave. `others` are endpoints beside `decisions`; `project` is
    the working copy whose app is synthesized.
    """

    def __init__(
        self,
        aws: LocalAws,
        name: str,
        folder: Path,
        sources: Sources,
        *,
        others: Mapping[str, Pool] | None = None,
        project: Path = ROOT,
    ) -> None:
        self.aws = aws
        self.name = name
        self._folder = folder
        self._sources = sources
        self._others = others or {}
        self._project = project
        self._assemblies: dict[str, Path] = {}

    def stack(self, kind: str) -> str:
        """CloudFormation's name of a stack of this environment, such as `artifacts`."""
        return f"semif-{self.name}-{kind}"

    def synthesize(self, pool: Pool) -> Path:
        """The cloud assembly for these settings, which replace cdk.json's environments."""
        image = {} if self._sources.image is None else {"image": self._sources.image}
        endpoints = {
            key: {"pool": list(one.instance_types), **image, **one.settings}
            for key, one in {"decisions": pool, **self._others}.items()
        }
        environment = {
            "name": self.name,
            "region": self.aws.region,
            "model": self._sources.model,
            "build": self._sources.build,
            "endpoints": endpoints,
        }
        context = json.dumps([environment])
        if context not in self._assemblies:
            assembly = self._folder / f"cdk.out-{len(self._assemblies)}"
            result = self.aws.run_cdk(
                *("synth", "--quiet", "-o", str(assembly), "-c", f"environments={context}"), cwd=self._project
            )
            _check("synth", result)
            self._assemblies[context] = assembly
        return self._assemblies[context]

    def cdk(self, *arguments: str, pool: Pool) -> CdkResult:
        """Run the CDK CLI on this environment; the result says how it ended."""
        return self.aws.run_cdk(*arguments, "--app", str(self.synthesize(pool)))

    def bootstrap(self, pool: Pool) -> None:
        """Make the CDK CLI's own bucket and roles in the account."""
        _check("bootstrap", self.cdk("bootstrap", pool=pool))

    def deploy(self, pool: Pool, stacks: str = "*", *arguments: str) -> CdkResult:
        """Deploy the environment's stacks in order. The result may be a failure: its caller judges."""
        return self.cdk("deploy", f"{self.name}/{stacks}", *UNATTENDED, *arguments, pool=pool)

    def destroy(self, pool: Pool, stacks: str = "*") -> None:
        """Destroy the environment's stacks."""
        _check("destroy", self.cdk("destroy", f"{self.name}/{stacks}", "--force", pool=pool))

    def outputs(self, kind: str) -> dict[str, str]:
        """Outputs of a deployed stack."""
        stacks = self.aws.client("cloudformation").describe_stacks(StackName=self.stack(kind))["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", [])}

    def status(self, kind: str) -> str | None:
        """CloudFormation's status of a stack, or None if it does not exist."""
        stacks = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        found = [stack["StackStatus"] for stack in stacks if stack["StackName"] == self.stack(kind)]
        return found[0] if found else None


def _check(command: str, result: CdkResult) -> None:
    if result.returncode != 0:
        tail = "\n".join(result.output.splitlines()[-30:])
        raise DeploymentError(f"cdk {command} ended with exit code {result.returncode}:\n{tail}")
