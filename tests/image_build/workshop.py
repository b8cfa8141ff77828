"""What a build needs around it, and what it leaves: for tests of whole builds."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3

from image_build.build import Edges, build_image
from image_build.docker_cli import LAST_LINES, DockerCli
from image_build.documents_api import DocumentsApi
from image_build.ecr_api import EcrApi, password
from image_build.settings import Registry, Settings, parse_settings
from tests.image_build import fake_docker

REGION = "eu-central-1"
ACCOUNT = "123456789012"
HOST = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
BASE_HOST = f"763104351884.dkr.ecr.{REGION}.amazonaws.com"
BASE = f"{BASE_HOST}/llama-cpp@sha256:{'b' * 64}"
PYTHON = f"public.ecr.aws/docker/library/python@sha256:{'c' * 64}"
TAG = "cpu-0123456789abcdef"
BASE_LAYERS = [fake_docker.layer("base 1", 3000), fake_docker.layer("base 2", 1000)]


@dataclass
class Clock:
    """Time that passes only when somebody sleeps."""

    slept_s: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_780_000_000 + sum(self.slept_s), UTC)


class InProcessDocker(DockerCli):
    """The edge with the fake docker called here: a process for each command would take most of the time."""

    def _run(self, *arguments: str, stdin: str = "") -> tuple[int, bytes, bytes]:
        code, out, err = fake_docker.call(arguments, stdin)
        return code, out.encode(), err.encode()

    def _stream(self, *arguments: str) -> tuple[int, Sequence[str]]:
        code, out, err = fake_docker.call(arguments, "")
        lines = (out + err).splitlines()
        for line in lines:
            self._say(line)
        return code, lines[-LAST_LINES:]


class Workshop:
    """A folder with a Dockerfile and a fake docker, a repository with immutable tags, and a bucket."""

    def __init__(self, folder: Path, url: str) -> None:
        self.docker_folder = folder / "docker"
        self.context = folder / "context"
        self._bin = folder / "bin"
        self.url = url
        self.repository = f"semif-{uuid.uuid4().hex[:12]}"
        self.bucket = f"models-of-{self.repository}"
        self.lines: list[str] = []
        self.clock = Clock()

    @property
    def process_environment(self) -> dict[str, str]:
        """Variables for docker and the SDK."""
        return {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "FAKE_DOCKER": str(self.docker_folder),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def build_environment(self) -> dict[str, str]:
        """Variables as StartBuild and CodeBuild give them; each reading is another build."""
        build = f"semif-test-image-cpu:{uuid.uuid4()}"
        return {
            "SEMIF_IMAGE_TAG": TAG,
            "SEMIF_REPOSITORY_URI": f"{HOST}/{self.repository}",
            "SEMIF_BASE_IMAGE": BASE,
            "SEMIF_PYTHON_IMAGE": PYTHON,
            "SEMIF_DOCKERFILE": "Dockerfile",
            "SEMIF_BUCKET": self.bucket,
            "SEMIF_SCAN_SEVERITY": "CRITICAL",
            "SEMIF_CONTENT_HASH": "d" * 64,
            "CODEBUILD_BUILD_ID": build,
            "CODEBUILD_BUILD_ARN": f"arn:aws:codebuild:{REGION}:{ACCOUNT}:build/{build}",
        }

    def create(self) -> None:
        self.docker_folder.mkdir()
        self.context.mkdir()
        self._bin.mkdir()
        (self.context / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n")
        program = self._bin / "docker"
        # -I -S: nothing of the virtual environment is read, so a call takes a few hundredths of a second.
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {fake_docker.__file__} "$@"\n')
        program.chmod(0o755)
        self._write("remote.json", {BASE: {"layers": BASE_LAYERS}, PYTHON: {"layers": BASE_LAYERS}})
        self.ecr.create_repository(
            repositoryName=self.repository,
            imageTagMutability="IMMUTABLE",
            imageScanningConfiguration={"scanOnPush": True},
        )
        self.s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})

    @property
    def ecr(self) -> Any:
        return _client("ecr", self.url)

    @property
    def s3(self) -> Any:
        return _client("s3", self.url)

    def behave(self, **behaviour: object) -> None:
        """Say how docker behaves from now on."""
        self._write("behaviour.json", behaviour)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        (self.docker_folder / name).write_text(json.dumps(document))

    def put_findings(
        self, counts: Mapping[str, int], *, status: str = "COMPLETE", enhanced: bool = False
    ) -> None:
        """Let ECR's scan of the next image find `counts`, as basic or as enhanced scanning says it.

        Without this, moto's scans find one HIGH.
        """
        named = [(f"CVE-2026-{n}", severity) for severity, count in counts.items() for n in range(count)]
        basic = [
            {"name": name, "severity": severity, "attributes": [{"key": "package_name", "value": "openssl"}]}
            for name, severity in named
        ]
        full = [
            {
                "severity": severity,
                "packageVulnerabilityDetails": {
                    "vulnerabilityId": name,
                    "vulnerablePackages": [{"name": "openssl", "version": "3.0.8"}],
                },
            }
            for name, severity in named
        ]
        found = {"enhancedFindings": full} if enhanced else {"findings": basic}
        result = {
            "imageScanFindings": {**found, "findingSeverityCounts": dict(counts)},
            "registryId": ACCOUNT,
            "repositoryName": self.repository,
            "imageId": {},
            "imageScanStatus": {"status": status, "description": "as the test says"},
        }
        body = json.dumps({"results": [result], "region": REGION, "account_id": ACCOUNT}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own URL
            f"{self.url}/moto-api/static/ecr/scan-finding-results",
            body,
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310

    def settings(self, **environment: str) -> Settings:
        return parse_settings({**self.build_environment, **environment}, now=self.clock.now())

    def edges(self, *, wrap: Callable[[Any], Any] = lambda edge: edge) -> Edges:
        """The real edges on the fake docker and moto; `wrap` may put something around each."""

        def read_password(_registry: Registry) -> str:
            return password(self.ecr)

        return Edges(
            docker=wrap(InProcessDocker(say=self.lines.append, sleep=self.clock.sleep)),
            ecr=wrap(EcrApi(self.ecr, ACCOUNT, self.repository)),
            documents=wrap(DocumentsApi(self.s3, self.bucket, TAG)),
            password=read_password,
            now=self.clock.now,
            sleep=self.clock.sleep,
            say=self.lines.append,
            folder=self.context,
        )

    def build(self, **environment: str) -> str:
        return build_image(self.settings(**environment), self.edges())

    def tags(self) -> dict[str, str]:
        """Every tag of the repository and its digest."""
        found = self.ecr.list_images(repositoryName=self.repository)["imageIds"]
        return {entry["imageTag"]: entry["imageDigest"] for entry in found if entry.get("imageTag")}

    def document(self, name: str, digest: str | None = None) -> Any:
        folder = f"{digest.partition(':')[2]}/" if digest else ""
        key = f"provenance/images/{TAG}/{folder}{name}"
        return json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def calls(self, command: str = "") -> list[str]:
        file = self.docker_folder / "calls"
        found = file.read_text().splitlines() if file.exists() else []
        return [call for call in found if call.startswith(command)]


_CLIENTS: dict[tuple[str, str], Any] = {}


def _client(service: str, url: str) -> Any:
    """A client is made once: botocore takes long to load its models."""
    if (service, url) not in _CLIENTS:
        make: Any = boto3.client
        _CLIENTS[service, url] = make(
            service,
            region_name=REGION,
            endpoint_url=url,
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )
    return _CLIENTS[service, url]
