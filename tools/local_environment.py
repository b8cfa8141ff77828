"""One environment on the local AWS, deployed by the real CDK CLI: what the demo and the e2e tests drive."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from localaws.session import CdkResult, LocalAws
from semif.archive import read_archive, upload
from tools.setup import MODEL_FILE, MODEL_SHA256, MODELS

UNATTENDED: Final = ("--require-approval", "never")
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


class LocalEnvironment:
    """Environment `name` on a running local AWS, with the small model instead of the production one.

    Settings are synthesized once, into `folder`; every command then works on that cloud assembly, as a
    rollout promotes one assembly from wave to wave.
    """

    def __init__(self, aws: LocalAws, name: str, folder: Path) -> None:
        self.aws = aws
        self.name = name
        self._folder = folder
        self._assemblies: dict[str, Path] = {}

    def stack(self, kind: str) -> str:
        """CloudFormation's name of a stack of this environment, such as `artifacts`."""
        return f"semif-{self.name}-{kind}"

    def synthesize(self, pool: Pool) -> Path:
        """The cloud assembly for these settings, which replace cdk.json's environments."""
        environment = {
            "name": self.name,
            "region": self.aws.region,
            "model": {"file": MODEL_FILE, "sha256": MODEL_SHA256},
            "endpoints": {"decisions": {"pool": list(pool.instance_types), **pool.settings}},
        }
        context = json.dumps([environment])
        if context not in self._assemblies:
            assembly = self._folder / f"cdk.out-{len(self._assemblies)}"
            _check(
                "synth",
                self.aws.run_cdk("synth", "--quiet", "-o", str(assembly), "-c", f"environments={context}"),
            )
            self._assemblies[context] = assembly
        return self._assemblies[context]

    def cdk(self, *arguments: str, pool: Pool) -> CdkResult:
        """Run the CDK CLI on this environment; the result says how it ended."""
        return self.aws.run_cdk(*arguments, "--app", str(self.synthesize(pool)))

    def deploy_artifacts(self, pool: Pool) -> None:
        """Bootstrap, deploy bucket and repository, and bring the model and the server's image there."""
        _check("bootstrap", self.cdk("bootstrap", pool=pool))
        _check("deploy", self.cdk("deploy", f"{self.name}/artifacts", *UNATTENDED, pool=pool))
        self.push_image()
        self.upload_model()

    def push_image(self) -> None:
        """Stand in for an image build: the server as a process of this Python, under the image's URI."""
        self.aws.push_image(
            self.outputs("artifacts")["ImageUri"],
            command=[sys.executable, "-m", "semif_server"],
            environment={"OMP_WAIT_POLICY": "passive"},
            bind=BIND,
        )

    def upload_model(self, model: Path = MODELS / MODEL_FILE) -> str:
        """Upload the model's archive; returns its S3 URI."""
        return upload(self.aws.client("s3"), self.outputs("artifacts")["BucketName"], read_archive(model))

    def deploy(self, pool: Pool) -> CdkResult:
        """Deploy the decision endpoint. The result may be a failure: its caller judges."""
        return self.cdk("deploy", f"{self.name}/decisions", "--exclusively", *UNATTENDED, pool=pool)

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
