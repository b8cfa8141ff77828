"""`semif dlc latest` against a registry that keeps the HTTP API v2 with anonymous tokens."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from semif.cli import app
from semif.dlc_pins import read_pins
from stacks.dlc import DIGESTS, PUBLIC_REPOSITORY, TAGS

ROOT = Path(__file__).parents[2]
REPOSITORY = "deep-learning-containers/llama-cpp"
MANIFEST = json.dumps({"schemaVersion": 2, "layers": []}).encode()
MANIFEST_DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"


@dataclass
class RegistryServer:
    """`manifests` by tag, `siblings` by path of another repository.

    `status` replaces the answer, `digest_header` what it says of the manifest.
    """

    host: str = ""
    manifests: dict[str, bytes] = field(default_factory=dict)
    status: int | None = None
    digest_header: str | None = None
    challenge: str | None = None
    token_body: bytes = b'{"token": "anonymous-1"}'
    token_requests: list[dict[str, list[str]]] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)

    siblings: dict[str, bytes] = field(default_factory=dict)

    def answer(self, path: str, authorization: str, accept: str) -> tuple[int, dict[str, str], bytes]:
        address = urlsplit(path)
        if address.path == "/token/":
            self.token_requests.append(parse_qs(address.query))
            return 200, {}, self.token_body
        if authorization != "Bearer anonymous-1":
            challenge = self.challenge
            if challenge is None:
                scope = f"repository:{REPOSITORY}:pull"
                challenge = f'Bearer realm="http://{self.host}/token/",service="{self.host}",scope="{scope}"'
            return 401, {"WWW-Authenticate": challenge}, b""
        if self.status is not None:
            return self.status, {}, b"no"
        self.accepted.append(accept)
        if address.path in self.siblings:
            return 200, {}, self.siblings[address.path]
        tag = address.path.removeprefix(f"/v2/{REPOSITORY}/manifests/")
        if tag not in self.manifests:
            return 404, {}, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'
        body = self.manifests[tag]
        digest = self.digest_header or f"sha256:{hashlib.sha256(body).hexdigest()}"
        return 200, {"Docker-Content-Digest": digest}, body


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    server = RegistryServer(manifests=dict.fromkeys(TAGS.values(), MANIFEST))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = self.headers
            status, answers, body = server.answer(
                self.path, headers.get("authorization", ""), headers.get("accept", "")
            )
            self.send_response(status)
            for name, value in {**answers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.host = f"127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def pins_file(folder: Path, host: str, cuda: str = MANIFEST_DIGEST) -> Path:
    """A copy of the project's file with another host, and with a CUDA pin of our own."""
    text = (ROOT / "stacks/dlc.py").read_text()
    file = folder / "dlc.py"
    file.write_text(text.replace("public.ecr.aws", host).replace(DIGESTS["cuda"], cuda))
    return file


def latest(pins: Path) -> Result:
    return CliRunner().invoke(app, ["dlc", "latest", "--pins", str(pins)])


@contextmanager
def unused_port() -> Iterator[int]:
    """A port that nobody listens on while the block runs."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def test_the_projects_own_pins_are_read() -> None:
    pins = read_pins(ROOT / "stacks/dlc.py")
    assert pins.repository == PUBLIC_REPOSITORY == f"public.ecr.aws/{REPOSITORY}"
    assert {pin.flavour: (pin.tag, pin.digest) for pin in pins.pins} == {
        flavour: (TAGS[flavour], DIGESTS[flavour]) for flavour in TAGS
    }
    lines = (ROOT / "stacks/dlc.py").read_text().splitlines()
    for pin in pins.pins:
        assert pin.digest in lines[pin.line - 1]


def test_pinned_and_latest_are_shown_with_the_line_to_change(
    registry: RegistryServer, tmp_path: Path
) -> None:
    pins = pins_file(tmp_path, registry.host)
    result = latest(pins)
    assert result.exit_code == 0, result.output
    line = next(n for n, text in enumerate(pins.read_text().splitlines(), 1) if DIGESTS["cpu"] in text)
    shown = result.stdout.splitlines()
    assert shown[:4] == [
        f"cpu   {registry.host}/{REPOSITORY}:{TAGS['cpu']}",
        f"      pinned  {DIGESTS['cpu']}",
        f"      latest  {MANIFEST_DIGEST}",
        f'      change  {pins}:{line}  "cpu": "{MANIFEST_DIGEST}",',
    ]
    assert shown[4:7] == [
        f"cuda  {registry.host}/{REPOSITORY}:{TAGS['cuda']}",
        f"      pinned  {MANIFEST_DIGEST}",
        f"      latest  {MANIFEST_DIGEST}  (the same)",
    ]
    assert "self-test" in result.stdout
    assert registry.token_requests == [
        {"service": [registry.host], "scope": [f"repository:{REPOSITORY}:pull"]}
    ]  # once for both tags
    assert "application/vnd.docker.distribution.manifest.v2+json" in registry.accepted[0]


def test_nothing_is_to_change_where_all_is_the_same(registry: RegistryServer, tmp_path: Path) -> None:
    pins = pins_file(tmp_path, registry.host)
    pins.write_text(pins.read_text().replace(DIGESTS["cpu"], MANIFEST_DIGEST))
    result = latest(pins)
    assert result.exit_code == 0, result.output
    assert "change" not in result.stdout
    assert len(result.stdout.splitlines()) == 6


def test_other_tags_and_containers_are_asked_for_by_name(registry: RegistryServer, tmp_path: Path) -> None:
    vllm = b'{"schemaVersion": 2, "vllm": true}'
    registry.manifests["server-sagemaker-cpu-v2"] = MANIFEST
    registry.siblings["/v2/deep-learning-containers/vllm/manifests/server-sagemaker-cuda-v1"] = vllm
    pins = str(pins_file(tmp_path, registry.host))
    tags = ("--tag", "vllm:server-sagemaker-cuda-v1", "--tag", "server-sagemaker-cpu-v2")

    result = CliRunner().invoke(app, ["dlc", "latest", "--pins", pins, *tags])

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"{registry.host}/deep-learning-containers/vllm:server-sagemaker-cuda-v1"
        f"  sha256:{hashlib.sha256(vllm).hexdigest()}",
        f"{registry.host}/{REPOSITORY}:server-sagemaker-cpu-v2  {MANIFEST_DIGEST}",
    ]


@pytest.mark.parametrize("tag", ["", "a:b:c", "../secret:v1", "with space"])
def test_a_tag_that_is_none_is_a_usage_error(registry: RegistryServer, tmp_path: Path, tag: str) -> None:
    pins = str(pins_file(tmp_path, registry.host))
    result = CliRunner().invoke(app, ["dlc", "latest", "--pins", pins, "--tag", tag])
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (2, "bad_tag")
    assert registry.token_requests == []


def test_without_a_connection_it_says_so(tmp_path: Path) -> None:
    with unused_port() as port:
        result = latest(pins_file(tmp_path, f"127.0.0.1:{port}"))
    assert result.exit_code == 5
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: registry_unreachable: 127.0.0.1:{port}: ")
    assert "next: check the connection" in result.stderr


@pytest.mark.parametrize(
    ("change", "exit_code", "code"),
    [
        ({"manifests": {}}, 5, "no_such_tag"),
        ({"status": 429}, 4, "too_many_requests"),
        ({"status": 500}, 5, "registry_refused"),
        ({"digest_header": f"sha256:{'0' * 64}"}, 5, "digest_differs"),
        ({"challenge": 'Basic realm="x"'}, 5, "no_anonymous_read"),
        ({"token_body": b"[]"}, 5, "no_token"),
        ({"token_body": b'{"token": "of another"}'}, 5, "registry_refused"),
    ],
)
def test_what_the_registry_refuses(
    registry: RegistryServer, tmp_path: Path, change: dict[str, object], exit_code: int, code: str
) -> None:
    for name, value in change.items():
        setattr(registry, name, value)
    result = latest(pins_file(tmp_path, registry.host))
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (exit_code, code)
    assert "next: " in result.stderr


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "no_pins"),
        ("DIGESTS: dict = {}\n", "bad_pins"),
        ('PUBLIC_REPOSITORY: str = "a/b"\nTAGS: dict = {"cpu": 1}\nDIGESTS: dict = {}\n', "bad_pins"),
        ("def\n", "bad_pins"),
    ],
)
def test_a_file_without_pins(tmp_path: Path, text: str | None, code: str) -> None:
    file = tmp_path / "dlc.py"
    if text is not None:
        file.write_text(text)
    result = latest(file)
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (2, code)
    assert "--pins" in result.stderr
