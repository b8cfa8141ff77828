"""One moto server for ECR and S3, and a workshop: a repository, a bucket and a docker of a test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from tests.image_build.workshop import Workshop


@pytest.fixture(scope="session")
def aws_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def workshop(aws_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in [name for name in os.environ if name.startswith(("AWS_", "SEMIF_", "CODEBUILD_"))]:
        monkeypatch.delenv(name)
    made = Workshop(tmp_path, aws_url)
    for name, value in made.process_environment.items():
        monkeypatch.setenv(name, value)
    made.create()
    monkeypatch.chdir(made.context)
    return made
