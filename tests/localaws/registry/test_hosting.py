"""Endpoints that run pushed images."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from localaws.registry.buildah import NOT_PROVEN
from localaws.session import LocalAws
from tests.localaws.registry.conftest import Docker, Host
from tests.standins.images import stand_ins

SERVER = """
import http.server, json, os, pathlib, signal, sys

def refused(path):
    try:
        pathlib.Path(path).write_text("x")
    except OSError as error:
        return error.strerror
    return None

folder = pathlib.Path(os.environ.get("SEMIF_MODEL_DIR", "/opt/ml/model"))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(b"")
    def do_POST(self):
        self.reply(json.dumps({
            "arguments": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid(),
            "model": (folder / "model.gguf").read_text(),
            "written": [refused("/new"), refused("/opt/ml/model/new")],
        }).encode())
    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass

def stop(*_):
    print("asked to stop", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
print("server starts", flush=True)
address = (os.environ["SEMIF_HOST"], int(os.environ["SEMIF_PORT"]))
http.server.HTTPServer(address, Handler).serve_forever()
"""


def invoke(aws: LocalAws, name: str) -> dict[str, Any]:
    body = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, Body=b"{}")["Body"]
    answer: dict[str, Any] = json.load(body)
    return answer


def messages(aws: LocalAws, endpoint: str, wanted: str) -> str:
    """The endpoint's log once it holds a text."""
    logs, group = aws.client("logs"), f"/aws/sagemaker/Endpoints/{endpoint}"
    deadline = time.monotonic() + 30
    text = ""
    while wanted not in text and time.monotonic() < deadline:
        time.sleep(0.1)
        events = logs.filter_log_events(logGroupName=group)["events"]
        text = "\n".join(event["message"] for event in events)
    return text


@pytest.fixture(scope="module")
def image(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server on the stand-in with Python, pushed; by digest."""
    context = tmp_path_factory.mktemp("server")
    (context / "server.py").write_text(SERVER)
    lines = [
        f"FROM {stand_ins().base}",
        "COPY server.py /opt/server.py",
        "ENV GREETING=hello",
        'ENTRYPOINT ["python3.11", "-u", "/opt/server.py"]',
    ]
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")
    repository = docker.repository("hosting/server")
    docker("build", "-t", f"{repository}:1", ".", cwd=context)
    docker("push", f"{repository}:1")
    (found,) = docker.aws.client("ecr").describe_images(repositoryName="hosting/server")["imageDetails"]
    return f"{repository}@{found['imageDigest']}"


def test_a_pushed_image_serves_alone_with_its_variables_and_the_model(
    aws: LocalAws, image: str, host: Host
) -> None:
    started = host("real-one", image, {"LIMIT": "7"})
    assert started["EndpointStatus"] == "InService", started.get("FailureReason")
    described = host("real-two", image.partition("@")[0] + ":1")
    assert described["EndpointStatus"] == "InService"
    deployed = described["ProductionVariants"][0]["DeployedImages"][0]
    assert deployed["ResolvedImage"] == image
    one, two = invoke(aws, "real-one"), invoke(aws, "real-two")
    assert one["arguments"] == ["serve"]
    assert one["model"] == "weights"
    assert one["written"] == ["Read-only file system", "Read-only file system"]
    port = one["environment"].pop("SEMIF_PORT")
    assert port != two["environment"]["SEMIF_PORT"]
    # LC_CTYPE is set by Python itself where no language is.
    one["environment"].pop("LC_CTYPE", None)
    assert one["environment"] == {
        "PATH": "/var/lang/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/root",
        "GREETING": "hello",
        "LIMIT": "7",
        "SEMIF_HOST": "127.0.0.1",
    }
    assert "server starts" in messages(aws, "real-one", "server starts")
    aws.client("sagemaker").delete_endpoint(EndpointName="real-one")
    assert "asked to stop" in messages(aws, "real-one", "asked to stop")
    assert not Path(f"/proc/{one['pid']}").exists()
    assert invoke(aws, "real-two")["pid"] == two["pid"]


def test_an_image_whose_program_is_missing_cannot_start(docker: Docker, context: Path, host: Host) -> None:
    repository = docker.repository("hosting/broken")
    (context / "Dockerfile.broken").write_text('FROM scratch\nCOPY root /\nENTRYPOINT ["/no/program"]\n')
    docker("build", "-f", "Dockerfile.broken", "-t", f"{repository}:1", ".", cwd=context)
    docker("push", f"{repository}:1")
    failed = host("real-broken", f"{repository}:1")
    assert failed["EndpointStatus"] == "Failed"
    assert "CannotStartContainerError" in failed["FailureReason"]


def test_without_buildah_the_builds_content_serves_and_every_build_says_so(
    unproven_docker: Docker, host: Host, tmp_path: Path
) -> None:
    docker = unproven_docker
    package = tmp_path / "content" / "semif_server"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SERVER)
    (tmp_path / "content" / "Dockerfile").write_text("FROM elsewhere\n")
    reference = f"{docker.repository('hosting/unproven')}:1"
    assert docker.run("image", "inspect", "elsewhere").returncode == 0
    printed = docker("build", "-t", reference, ".", cwd=tmp_path / "content")
    assert NOT_PROVEN in printed
    described = json.loads(docker("image", "inspect", "--format", "{{json .}}", reference))
    assert len(described["RootFS"]["Layers"]) == 1
    sbom = json.loads(docker("run", "--rm", "--entrypoint", "cat", reference, "/opt/semif/sbom.cdx.json"))
    assert sbom["bomFormat"] == "CycloneDX"
    assert sbom["components"]
    docker("push", reference)
    (found,) = docker.aws.client("ecr").describe_images(repositoryName="hosting/unproven")["imageDetails"]
    image = f"{reference.removesuffix(':1')}@{found['imageDigest']}"
    started = host("unproven", image, {"LIMIT": "7"})
    assert started["EndpointStatus"] == "InService", started.get("FailureReason")
    answer = invoke(docker.aws, "unproven")
    assert (answer["arguments"], answer["model"]) == (["serve"], "weights")
    assert answer["environment"]["LIMIT"] == "7"
