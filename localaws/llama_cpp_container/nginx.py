"""The container's nginx: /ping and /invocations to llama-server, its answers unbuffered, all else 404."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socketserver
from collections.abc import Mapping
from typing import Any

HOST = "127.0.0.1"
BODY_LIMIT_BYTES = 25 * 1024 * 1024
READ_TIMEOUT_S = 3600.0
_PIECE_BYTES = 64 * 1024
ROUTES: Mapping[tuple[str, str], str] = {
    ("GET", "/ping"): "/health",
    ("POST", "/invocations"): "/v1/chat/completions",
    # SageMaker's OpenAI path asks the container for this one.
    ("POST", "/v1/chat/completions"): "/v1/chat/completions",
}
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "server")
)


class Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """nginx on 127.0.0.1:`port` before an upstream on `upstream_port` that may be absent (502)."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, upstream_port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.upstream_port = upstream_port

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is no error of ours."""
        del request, client_address


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "nginx", ""
    server: Proxy

    def do_GET(self) -> None:
        self._proxy()

    def do_POST(self) -> None:
        self._proxy()

    def _proxy(self) -> None:
        target = ROUTES.get((self.command, self.path.partition("?")[0]))
        if target is None:
            self._fail(404, "Not Found")
            return
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT_BYTES:
            self._fail(413, "Request Entity Too Large")
            return
        body = self.rfile.read(length)
        passed = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        upstream = http.client.HTTPConnection(HOST, self.server.upstream_port, timeout=READ_TIMEOUT_S)
        try:
            try:
                upstream.request(self.command, target, body or None, passed)
                answer = upstream.getresponse()
            except (OSError, http.client.HTTPException):
                self._fail(502, "Bad Gateway")
                return
            self._pass_on(answer)
        finally:
            upstream.close()

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        headers = [(key, value) for key, value in answer.getheaders() if key.lower() not in _HOP_BY_HOP]
        left = answer.length
        chunked = left is None
        for key, value in headers:
            self.send_header(key, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while piece := answer.read1(_PIECE_BYTES):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                left = None if left is None else left - len(piece)
        except (OSError, http.client.HTTPException):
            # The caller or llama-server is gone; without the last chunk the caller sees that it was cut.
            self.close_connection = True
            return
        if left:
            self.close_connection = True
        if chunked:
            with contextlib.suppress(OSError):
                self.wfile.write(b"0\r\n\r\n")

    def _fail(self, status: int, reason: str) -> None:
        body = f"<html><head><title>{status} {reason}</title></head><body></body></html>\r\n".encode()
        self.close_connection = True
        self.send_response(status, reason)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Requests are not logged one by one."""
