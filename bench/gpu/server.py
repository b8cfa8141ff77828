"""Our server as a process, as a container starts it, and a client of it. Standard library only."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_POLL_S: Final = 0.1
_STOP_S: Final = 30.0
_SHOWN_CHARS: Final = 2000


class ServerError(Exception):
    """The server did not start, or gave another answer than 200."""


class Server:
    """A running server on a free port of 127.0.0.1. ready: its start-up line."""

    def __init__(self, port: int, ready: Mapping[str, Any]) -> None:
        self.port = port
        self.ready = ready

    def client(self, timeout_s: float) -> Client:
        """A connection of its own."""
        return Client(self.port, timeout_s)


class Client:
    """One keep-alive connection; one thread uses it."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def ask(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """POST a decision; gives the answer and its seconds. Raises ServerError with status and code."""
        content = json.dumps(body).encode()
        begun_s = time.perf_counter()
        self._connection.request("POST", "/invocations", content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        elapsed_s = time.perf_counter() - begun_s
        if response.status != http.client.OK:
            raise ServerError(f"{response.status}: {data.decode(errors='replace')[:_SHOWN_CHARS]}")
        answer: dict[str, Any] = json.loads(data)
        return answer, elapsed_s

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def running(
    gguf: Path, log: Path, environment: Mapping[str, str], settings: Mapping[str, str], *, start_s: float
) -> Iterator[Server]:
    """A server of this model while the block runs. Raises ServerError when it isn't ready within start_s."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith("SEMIF_")}
    chosen = {"SEMIF_GGUF_PATH": str(gguf), "SEMIF_PORT": str(port), **settings}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "semif_server"],
            env={**inherited, **environment, **chosen},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        _wait_until_ready(process, port, log, start_s)
        yield Server(port, _ready_line(log))
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path, start_s: float) -> None:
    ends_s = time.monotonic() + start_s
    while process.poll() is None and time.monotonic() < ends_s:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/ping")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(_POLL_S)
    how = "was not ready in time" if process.poll() is None else f"ended with {process.returncode}"
    raise ServerError(f"SERVER_NOT_READY: it {how}; {log} ends: {_text(log)[-_SHOWN_CHARS:]}")


def _ready_line(log: Path) -> dict[str, Any]:
    for line in _text(log).splitlines():
        if line.startswith("{"):
            record: dict[str, Any] = json.loads(line)
            if record.get("event") == "ready":
                return record
    raise ServerError(f"READY_LINE_MISSING: {log} has no line with the event ready")


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
