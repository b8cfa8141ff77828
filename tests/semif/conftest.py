"""A real HTTP server that keeps the decision contract, and AWS settings that reach nobody."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class ContractServer:
    """`answer` replaces the next answers when set; `bodies` are the requests as they came."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answer: tuple[int, bytes] | None = None

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.paths.append(path)
        self.bodies.append(body)
        if self.answer:
            return self.answer
        if path != "/invocations":
            return 404, b'{"detail": "Not Found"}'
        request = json.loads(body)
        if ("decision" in request) == ("decisions" in request):
            return 400, error_body(
                "invalid_request", "give exactly one of decision and decisions", "decision"
            )
        if "decision" in request:
            return 200, json.dumps({"result": decide(request["decision"])}).encode()
        return 200, json.dumps({"results": [decide(d) for d in request["decisions"]]}).encode()


def error_body(
    code: str,
    message: str,
    field_name: str | None = None,
    *,
    retryable: bool = False,
    after_s: float | None = None,
) -> bytes:
    error = {
        "code": code,
        "message": message,
        "field": field_name,
        "retryable": retryable,
        "retry_after_s": after_s,
    }
    return json.dumps({"error": error}).encode()


def decide(decision: dict[str, object]) -> dict[str, object]:
    """Probabilities by the length of the description, so that a lost or swapped option shows."""
    options = decision["options"]
    assert isinstance(options, list)
    lengths = [len(option["description"]) for option in options]
    return {
        "id": decision["id"],
        "option_ids": [option["id"] for option in options],
        "probabilities": [length / sum(lengths) for length in lengths],
    }


@pytest.fixture
def server() -> Iterator[ContractServer]:
    contract = ContractServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, answer = contract.respond(self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        contract.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield contract
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def aws_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a region of nobody's; no metadata service, no profile of the machine's user."""
    for name in (
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_SESSION_TOKEN",
        "AWS_CA_BUNDLE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
