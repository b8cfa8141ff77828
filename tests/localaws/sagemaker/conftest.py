"""A server with moto's services and our SageMaker, and a tiny real container to host on it."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.iam.models import get_account_id_from
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from localaws import protocol
from localaws.protocol import Scope
from localaws.registry import ecr_gaps
from localaws.registry.faults import RegistryFaults
from localaws.sagemaker.backend import SageMakerBackend
from localaws.sagemaker.hosting import HostingSettings

REGION = "eu-central-1"
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/semif-execution"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/semif:cpu-1"
SETTINGS = HostingSettings(
    ping_interval_s=0.05, ping_timeout_s=1, stop_grace_s=1.5, startup_cap_s=2.5, invocation_limit_s=30.0
)

CONTAINER = """
import http.server, json, os, signal, sys, time
from pathlib import Path

behaviour = os.environ.get("BEHAVIOUR", "serve")
print("container says", behaviour, sys.argv[1:], flush=True)
if behaviour == "exit":
    sys.exit("no such model")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: print("ignoring SIGTERM", flush=True))
if behaviour == "chatty":
    for number in range(5000):
        print(f"line {number}", "x" * 100)
    print("all said", flush=True)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.reply(503 if behaviour == "unhealthy" else 200, b"")
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        wanted = json.loads(body) if self.headers.get("Content-Type") == "application/json" else {}
        print("invoked", flush=True)
        if wanted.get("die"):
            os._exit(3)
        time.sleep(wanted.get("sleep", 0))
        if "drip" in wanted:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            for _ in range(wanted["drip"]):
                self.wfile.write(b".")
                time.sleep(0.2)
            if wanted.get("then") == "die":
                os._exit(3)
            return
        folder = Path(os.environ["MODEL_DIR"])
        report = {
            "argv": sys.argv[1:], "pid": os.getpid(), "ppid": os.getppid(), "cwd": os.getcwd(),
            "environment": dict(os.environ), "headers": {k.lower(): v for k, v in self.headers.items()},
            "body": body[:1000].decode("latin-1"), "path": self.path,
            "files": {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()},
            "modes": sorted({oct(p.stat().st_mode & 0o777) for p in folder.rglob("*") if p.is_file()}),
        }
        answer = wanted.get("answer", json.dumps(report))
        self.reply(wanted.get("status", 200), answer.encode() * wanted.get("times", 1))
    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "7")
        self.send_header("X-Internal", "secret")
        self.send_header("X-Amzn-SageMaker-Custom-Attributes", "trace=1")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

address = (os.environ["BIND_HOST"], int(os.environ["BIND_PORT"]))
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""


@dataclass
class Server:
    """moto's server with a SageMaker backend that each test replaces."""

    url: str = ""
    backend: SageMakerBackend | None = None
    clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        request = Request(environ)
        credential = re.search(r"Credential=(\w+)/\d+/([\w-]+)/", request.headers.get("Authorization", ""))
        if credential and self.backend:
            scope = Scope(get_account_id_from(credential[1]), credential[2])
            if request.headers.get("X-Amz-Target", "").startswith("SageMaker."):
                return self._control(scope, request)(environ, start)
            if invoked := re.fullmatch(r"/endpoints/([^/]+)/invocations", request.path):
                headers = dict(request.headers)
                answer = self.backend.invoke_endpoint(scope, invoked[1], headers, request.get_data())
                return Response(answer[2], answer[0], answer[1])(environ, start)
        return self._moto(environ, start)

    def _control(self, scope: Scope, request: Request) -> Response:
        asked = protocol.HttpRequest(
            request.method,
            request.path,
            request.query_string.decode(),
            request.headers,
            request.get_data(),
        )
        answer = protocol.answer("sagemaker", self.backend, scope, asked)
        return Response(answer.body, answer.status, dict(answer.headers))

    def __post_init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    ecr_gaps.fill(RegistryFaults())
    app = Server()
    listening = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    app.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield app
    for client in app.clients.values():
        client.close()
    listening.shutdown()
    listening.server_close()
    thread.join()


@dataclass
class Lab:
    """Clients and short ways to the things a test needs."""

    url: str
    backend: SageMakerBackend
    folder: Path
    bucket: str
    clients: dict[tuple[str, str], Any]

    def client(self, service: str, region: str = REGION) -> Any:
        if (service, region) not in self.clients:
            self.clients[service, region] = boto3.client(
                service,  # type: ignore[call-overload]
                region_name=region,
                endpoint_url=self.url,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"total_max_attempts": 1}, read_timeout=30, proxies={}),
            )
        return self.clients[service, region]

    @property
    def sagemaker(self) -> Any:
        return self.client("sagemaker")

    def push(self, uri: str = IMAGE, environment: Mapping[str, str] | None = None) -> None:
        script = self.folder / "container.py"
        script.write_text(textwrap.dedent(CONTAINER))
        self.backend.put_image(
            {
                "uri": uri,
                "command": [sys.executable, str(script)],
                "environment": dict(environment or {}),
                "bind": {"host": "BIND_HOST", "port": "BIND_PORT", "model_dir": "MODEL_DIR"},
            }
        )

    def model(
        self, name: str = "m", environment: Mapping[str, str] | None = None, **container: Any
    ) -> dict[str, Any]:
        primary = {"Image": IMAGE, "Environment": dict(environment or {}), **container}
        answer: dict[str, Any] = self.sagemaker.create_model(
            ModelName=name, PrimaryContainer=primary, ExecutionRoleArn=ROLE
        )
        return answer

    def config(
        self, name: str = "c", model: str = "m", instance_type: str | None = None, **more: Any
    ) -> dict[str, Any]:
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": model,
            "InitialInstanceCount": 1,
            "InstanceType": instance_type or "ml.c6i.2xlarge",
            **more,
        }
        if "InstancePools" in more:
            del variant["InstanceType"]
        answer: dict[str, Any] = self.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant]
        )
        return answer

    def settled(self, name: str = "e") -> dict[str, Any]:
        """Wait until the endpoint's transition has ended."""
        settled: dict[str, Any] = wait_for(
            lambda: self.sagemaker.describe_endpoint(EndpointName=name),
            lambda seen: seen["EndpointStatus"] not in {"Creating", "Updating", "RollingBack", "Deleting"},
        )
        return settled

    def endpoint(self, name: str = "e", config: str = "c") -> dict[str, Any]:
        self.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=config)
        return self.settled(name)

    def invoke(self, name: str = "e", body: Any = None, **more: Any) -> Any:
        return self.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=name, ContentType="application/json", Body=json.dumps(body or {}), **more
        )

    def report(self, name: str = "e") -> dict[str, Any]:
        """Return what the container says about itself."""
        read: dict[str, Any] = json.load(self.invoke(name)["Body"])
        return read


def wait_for(look: Callable[[], Any], enough: Callable[[Any], bool], limit_s: float = 15) -> Any:
    deadline = time.monotonic() + limit_s
    while True:
        seen = look()
        if enough(seen):
            return seen
        assert time.monotonic() < deadline, f"still {seen!r} after {limit_s} s"
        time.sleep(0.05)


@pytest.fixture
def lab(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A fresh backend; an indirect parameter is its limit for one invocation, in seconds."""
    moto_api_backend.reset()
    limit_s: float = getattr(request, "param", SETTINGS.invocation_limit_s)
    settings = replace(SETTINGS, invocation_limit_s=limit_s)
    backend = SageMakerBackend(server.url, ready_s=0.1, settings=settings)
    server.backend = backend
    bucket = f"models-{uuid.uuid4().hex}"
    made = Lab(server.url, backend, tmp_path, bucket, server.clients)
    made.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    made.push()
    yield made
    backend.close()
    server.backend = None
