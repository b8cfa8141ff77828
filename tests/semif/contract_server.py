"""A server that keeps the decision contract without a model; also a program, as a container's process.

`python contract_server.py serve` listens on $CONTRACT_HOST and $CONTRACT_PORT.
"""

import json
import os
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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


def http_server(contract: ContractServer, host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200 if self.path == "/ping" else 404, b"{}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self._answer(*contract.respond(self.path, body))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep the test's output clean."""

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer((host, port), Handler)


if __name__ == "__main__":
    http_server(
        ContractServer(), os.environ["CONTRACT_HOST"], int(os.environ["CONTRACT_PORT"])
    ).serve_forever()
