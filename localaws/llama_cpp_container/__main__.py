"""The container's process 1: start llama-server, then be its nginx until a signal."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from types import FrameType

from localaws.llama_cpp_container.entry_point import plan
from localaws.llama_cpp_container.nginx import HOST, Proxy

_UPSTREAM_PORTS = range(12_000, 20_000)
"""Beside those of the containers, and below the range of outgoing connections."""
_STOP_S = 10.0


def _free_port() -> int:
    while True:
        port = secrets.choice(_UPSTREAM_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def main() -> None:
    """Serve. As in the container, nginx goes on answering when llama-server has ended."""
    planned = plan(os.environ)
    upstream_port = planned.upstream_port or _free_port()
    for line in planned.lines:
        print(line)
    print(f"Starting llama-server on {HOST}:{upstream_port}", flush=True)
    program = [sys.executable, "-m", "localaws.llama_cpp_container.llama_server"]
    server = subprocess.Popen([*program, "--host", HOST, "--port", str(upstream_port), *planned.flags])

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"Starting nginx SageMaker proxy on {HOST}:{planned.port}", flush=True)
    Proxy(planned.port, upstream_port).serve_forever()


if __name__ == "__main__":
    main()
