"""The server as a process: `python -m semif_server`, as a container starts it, on a free port."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

START_S: Final = 60.0
_CONTAINER: Final = Path(__file__).parents[1] / "container"
_RUN: Final = "import sys; from semif_server.__main__ import main; sys.exit(main())"


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with only the given SEMIF_* variables."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith("SEMIF_")}
    return inherited | {"PYTHONPATH": str(_CONTAINER), "OMP_WAIT_POLICY": "passive"} | settings


class ServerProcess:
    """A running server. Raises RuntimeError with its output when it does not become ready.

    output: the file that takes its stdout and stderr. prelude: Python to run in its process before the
    server, to make a part of it misbehave. settings: SEMIF_* variables.
    """

    def __init__(self, output: Path, *arguments: str, prelude: str = "", **settings: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._output = output
        how = ["-c", f"{prelude}\n{_RUN}"] if prelude else ["-m", "semif_server"]
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *how, *arguments],
                env=environment(SEMIF_PORT=str(self.port), **settings),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                if self.request("GET", "/ping")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}: {self.output()}")
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the server is not ready after {START_S:.0f} s: {self.output()}")
            time.sleep(0.05)

    def output(self) -> str:
        """Everything on stdout and stderr so far."""
        return self._output.read_text(encoding="utf-8")

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        # The last line may be half written.
        complete = self.output().rpartition("\n")[0].splitlines()
        lines = [json.loads(line) for line in complete]
        return [line for line in lines if line["event"] == event]

    def rss_bytes(self) -> int:
        """Its resident memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"the server has ended: {self.output()[-2000:]}")

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """One request on a connection of its own: status and body. bytes go as they are, the rest as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, content, headers or {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def post(self, body: Any, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """POST /invocations."""
        return self.request("POST", "/invocations", body, headers)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
