"""The `docker` of builds on the session's local AWS, and contexts of small images."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localaws.clients import Clients
from localaws.registry import service as registry_service
from localaws.registry.buildah import NOT_PROVEN, can_build
from localaws.registry.faults import RegistryFaults
from localaws.registry.service import RegistryService
from localaws.session import LocalAws

ROLE = "arn:aws:iam::123456789012:role/execution"
PROGRAMS = ("dash", "cat", "env", "true")


@dataclass
class Docker:
    """The program as a build calls it, logged in; `home` is the build's."""

    aws: LocalAws
    program: Path
    home: Path

    def __call__(self, *arguments: str, cwd: Path | None = None, stdin: str = "") -> str:
        """Run a command that must work; return standard output."""
        done = self.run(*arguments, cwd=cwd, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(
        self, *arguments: str, cwd: Path | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        return subprocess.run(
            [self.program, *arguments],
            cwd=cwd or self.home,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def log_in(self) -> None:
        token = self.aws.client("ecr").get_authorization_token()["authorizationData"][0]
        password = base64.b64decode(token["authorizationToken"]).decode().partition(":")[2]
        host = token["proxyEndpoint"].removeprefix("https://")
        self("login", "--username", "AWS", "--password-stdin", host, stdin=password)

    def repository(self, name: str, **settings: Any) -> str:
        made = self.aws.client("ecr").create_repository(repositoryName=name, **settings)
        return str(made["repository"]["repositoryUri"])


@pytest.fixture(scope="session")
def buildah() -> None:
    """What a test that builds images needs."""
    if not can_build():
        if os.environ.get("CI") == "true":
            pytest.fail(NOT_PROVEN)
        pytest.skip(NOT_PROVEN)


@pytest.fixture(scope="session")
def docker(buildah: None, aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    yield from _docker(aws, tmp_path_factory.mktemp("docker"))


@pytest.fixture
def unproven_docker(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """The program where no image can be built."""
    monkeypatch.setattr(registry_service, "can_build", lambda: False)
    yield from _docker(aws, tmp_path)


def _docker(aws: LocalAws, home: Path) -> Iterator[Docker]:
    service = RegistryService(Clients(aws.url), RegistryFaults())
    docker = Docker(aws, service.docker_folder({}) / "docker", home)
    docker.log_in()
    yield docker
    aws.put_faults({})
    service.close()


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build context: a few of this machine's programs with their libraries, and a Dockerfile."""
    folder = tmp_path_factory.mktemp("context")
    for name in PROGRAMS:
        program = Path(shutil.which(name) or f"/bin/{name}")
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        words = [word for word in libraries.split() if word.startswith("/")]
        for path, inside in [(program, f"/bin/{name}"), *((Path(word), word) for word in words)]:
            target = folder / "root" / inside.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path.resolve(), target)
    lines = [
        "FROM scratch",
        "ARG WORD=none",
        "COPY root /",
        'ENV PATH=/bin GREETING="hello there"',
        'RUN ["/bin/dash", "-c", "echo built with $WORD > /built"]',
        'ENTRYPOINT ["/bin/dash", "-c"]',
    ]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    return folder


Host = Callable[..., dict[str, Any]]


@pytest.fixture
def host(aws: LocalAws) -> Iterator[Host]:
    """Bring an image up as an endpoint; returns its description when it is in service or has failed."""
    sagemaker, s3 = aws.client("sagemaker"), aws.client("s3")
    made: list[str] = []
    s3.create_bucket(Bucket="registry-models")
    s3.put_object(Bucket="registry-models", Key="x/model.gguf", Body=b"weights")

    def start(name: str, image: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
        source = {"S3Uri": "s3://registry-models/x/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        primary = {
            "Image": image,
            "ModelDataSource": {"S3DataSource": source},
            "Environment": environment or {},
        }
        sagemaker.create_model(ModelName=name, PrimaryContainer=primary, ExecutionRoleArn=ROLE)
        variant = {"VariantName": "V", "ModelName": name, "InstanceType": "ml.c6i.large"}
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant | {"InitialInstanceCount": 1}]
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        made.append(name)
        return settled(name)

    def settled(name: str) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
            if found["EndpointStatus"] != "Creating":
                return found
            time.sleep(0.1)
        raise AssertionError(f"{name} is still being created")

    yield start
    endpoints = sagemaker.list_endpoints()["Endpoints"]
    there = {one["EndpointName"] for one in endpoints if one["EndpointStatus"] != "Deleting"}
    for name in made:
        if name in there:
            sagemaker.delete_endpoint(EndpointName=name)
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
        sagemaker.delete_model(ModelName=name)
