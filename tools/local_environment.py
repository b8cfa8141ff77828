"""One environment on the local AWS, deployed by the real CDK CLI: what the demo and the e2e tests drive."""

import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from localaws.hub import COMMIT, Hub
from localaws.session import CdkResult, LocalAws
from semif.archive import read_archive, upload
from stacks.dlc import Flavour, base_image_uri
from tests.standins.images import stand_ins
from tests.standins.storage import has_buildah
from tools.setup import MODEL_FILE, MODEL_SHA256, MODELS, ROOT

Settings = Mapping[str, Any]
"""An environment as in cdk.json, less what LocalEnvironment adds: name, region, model and images."""

ACCOUNT: Final = "123456789012"
UNATTENDED: Final = ("--require-approval", "never")
READY_BUCKET: Final = "semif-ready-models"
HUB_REPOSITORY: Final = "semif/small-model"
_ANNOTATION: Final = re.compile(r"(?:INFO|WARNING) (.+?)(?: \(Construct Annotations\))?")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
FLAVOURS: Final[tuple[Flavour, ...]] = ("cpu", "cuda")
BINDINGS: Final = "requirements-bindings-cuda.txt"
# SageMaker's container listens on 8080 of its own network and finds the model in /opt/ml/model. Here it is a
# process beside others, so the local hosting tells it both by the server's own variables.
BIND: Final = {"host": "SEMIF_HOST", "port": "SEMIF_PORT", "model_dir": "SEMIF_MODEL_DIR"}


class DeploymentError(Exception):
    """The CDK CLI ended with an error; the message holds its last lines."""


@dataclass(frozen=True)
class Sources:
    """Where an environment's model and image come from: the settings `model`, `build` and `image`."""

    model: Mapping[str, Any]
    build: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] | None = None


def ready_sources(aws: LocalAws) -> Sources:
    """The small model in a bucket, the server as an image, and AWS's container, all there before any stack.

    The image stands for one that was built before: its server is a process of this Python. So is AWS's.
    """
    repository = aws.client("ecr").create_repository(repositoryName="semif-ready")["repository"]
    image_uri = aws.push_image(
        f"{repository['repositoryUri']}:ready",
        command=[sys.executable, "-m", "semif_server"],
        environment={"OMP_WAIT_POLICY": "passive"},
        bind=BIND,
    )
    for flavour in FLAVOURS:
        # AWS's own container, under the address that the standard endpoint pins.
        aws.push_llama_cpp_container(
            base_image_uri(aws.region, flavour, region_path="region", override_path="image.uri")
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
    return Sources(model=hub_model(), build=build)


def hub_model() -> Mapping[str, Any]:
    """The setting `model` for the small model in a hub, from which the deployment builds an archive."""
    source = {"repository": HUB_REPOSITORY, "revision": COMMIT}
    return {"source": source, "file": MODEL_FILE, "sha256": MODEL_SHA256, "license": "apache-2.0"}


def small_hub(folder: Path) -> Hub:
    """A hub on this machine that has the small model; `folder` is for what it serves."""
    model = folder / HUB_REPOSITORY / MODEL_FILE
    model.parent.mkdir(parents=True)
    model.symlink_to(MODELS / MODEL_FILE)
    return Hub(folder, licenses={HUB_REPOSITORY: "apache-2.0"})


def decisions(*pool: str, **settings: Any) -> Settings:
    """An environment of one endpoint, `decisions`, with this pool and these settings of the endpoint."""
    return {"endpoints": {"decisions": {"pool": list(pool), **settings}}}


def bootstrap(aws: LocalAws) -> None:
    """Make the CDK CLI's own bucket and roles in the default account and region; needs no app."""
    with tempfile.TemporaryDirectory() as nowhere:
        _check("bootstrap", aws.run_cdk("bootstrap", f"aws://{ACCOUNT}/{aws.region}", cwd=Path(nowhere)))


class LocalEnvironment:
    """Environment `name` on a running local AWS, with the small model instead of the production one.

    Settings are synthesized once, into `folder`; every command then works on that cloud assembly, as a
    rollout promotes one assembly from wave to wave. `project` is the working copy whose app is synthesized.
    """

    def __init__(
        self, aws: LocalAws, name: str, folder: Path, sources: Sources, *, project: Path = ROOT
    ) -> None:
        self.aws = aws
        self.name = name
        self._folder = folder
        self._sources = sources
        self._project = project
        self._assemblies: dict[str, Path] = {}
        self._said: dict[Path, str] = {}

    def stack(self, kind: str) -> str:
        """CloudFormation's name of a stack of this environment, such as `artifacts`."""
        return f"semif-{self.name}-{kind}"

    def synthesize(self, settings: Settings) -> Path:
        """The cloud assembly for these settings, which replace cdk.json's environments.

        The CDK's validator of templates takes most of a synth's time; `make check` runs it.
        """
        environment = {
            "name": self.name,
            "region": self.aws.region,
            "model": self._sources.model,
            "build": self._sources.build,
            **settings,
            "endpoints": {key: self._with_image(one) for key, one in settings["endpoints"].items()},
        }
        context = json.dumps([environment])
        if context not in self._assemblies:
            assembly = self._folder / f"cdk.out-{len(self._assemblies)}"
            result = self.aws.run_cdk(
                *("synth", "**", "--quiet", "-o", str(assembly), "-c", f"environments={context}"),
                cwd=self._project,
                environment={"CDK_VALIDATION": "false"},
            )
            _check("synth", result)
            self._assemblies[context] = assembly
            self._said[assembly] = result.output
        return self._assemblies[context]

    def annotations(self, settings: Settings) -> list[str]:
        """What the synth of these settings told: its infos and warnings, without the constructs' paths."""
        lines = self._said[self.synthesize(settings)].splitlines()
        marked = (_ANNOTATION.fullmatch(_COLOUR.sub("", line)) for line in lines)
        return list(dict.fromkeys(match[1] for match in marked if match is not None))

    def _with_image(self, endpoint: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._sources.image is None or endpoint.get("engine", "semif") != "semif":
            return endpoint
        return {"image": self._sources.image, **endpoint}

    def cdk(self, *arguments: str, settings: Settings) -> CdkResult:
        """Run the CDK CLI on this environment; the result says how it ended."""
        return self.aws.run_cdk(*arguments, "--app", str(self.synthesize(settings)))

    def deploy(self, settings: Settings, stacks: str = "*", *arguments: str) -> CdkResult:
        """Deploy the environment's stacks in order. The result may be a failure: its caller judges."""
        return self.cdk("deploy", f"{self.name}/{stacks}", *UNATTENDED, *arguments, settings=settings)

    def destroy(self, settings: Settings, stacks: str = "*") -> None:
        """Destroy the environment's stacks."""
        _check("destroy", self.cdk("destroy", f"{self.name}/{stacks}", "--force", settings=settings))

    def settle(self, kind: str) -> None:
        """Wait until CloudFormation has ended with a stack, whether or not the CDK CLI still watches it."""
        while (self.status(kind) or "").endswith("_IN_PROGRESS"):
            time.sleep(0.2)

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
