"""The servers that are measured, each a process of its own on 127.0.0.1."""

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.child import plain_environment
from bench.client import Answer, Caller
from bench.rows import Mode
from bench.workload import Decision
from tools.setup import ROOT

THREADS: Final = 2
_START_S: Final = 120.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.005


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


class Server:
    """A running server. start_s: from the start of its process to the first 200 of its probe."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, *, port: int, probe: str, **environment: str
    ) -> None:
        self._log = log
        self.port = port
        with log.open("wb") as file:
            begun_s = time.perf_counter()
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=plain_environment(**environment),
                cwd=ROOT,
            )
        try:
            self._wait_ready(probe)
            self.start_s = time.perf_counter() - begun_s
        except BaseException:
            self.stop()
            raise
        self.caller = Caller(port)

    def _wait_ready(self, probe: str) -> None:
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args!r} ended:\n{self.log()[-3000:]}")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", probe)
                if connection.getresponse().status == http.client.OK:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(_POLL_S)
        raise RuntimeError(f"{self.process.args!r} was not ready in {_START_S:.0f} s:\n{self.log()[-3000:]}")

    def log(self) -> str:
        """Everything it wrote."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End it, gently first."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.caller.close()
        self.stop()


class SemifServer(Server):
    """This project's server, as a container starts it, in one mode."""

    def __init__(self, folder: Path, gguf: Path, mode: Mode, **settings: str) -> None:
        port = _free_port()
        super().__init__(
            [sys.executable, "-m", "semif_server"],
            folder / f"semif-{mode}-{port}.log",
            port=port,
            probe="/ping",
            PYTHONPATH=str(ROOT / "container"),
            SEMIF_MODEL_DIR=str(gguf.parent),
            SEMIF_GGUF_PATH=str(gguf),
            SEMIF_PORT=str(port),
            SEMIF_THREADS=str(THREADS),
            SEMIF_BATCHING=mode,
            **settings,
        )

    def decide(self, decision: Decision) -> Answer:
        """One decision, alone in its request."""
        return self.caller.expect("/invocations", {"decision": decision.as_semif()})

    def decide_shared(self, decisions: Sequence[Decision]) -> Answer:
        """Several decisions over one state, in one request."""
        body = {"decisions": [decision.as_semif() for decision in decisions]}
        return self.caller.expect("/invocations", body)


def new_tokens(answer: Answer) -> int:
    """Tokens that were decoded for an answer."""
    results: list[dict[str, Any]] = answer.body.get("results") or [answer.body["result"]]
    return sum(result["input_tokens"] - result["cached_tokens"] for result in results)


class CalloServer(Server):
    """callo in front of a llama-server that it starts itself, both with their own defaults."""

    def __init__(self, folder: Path, gguf: Path, python: Path, llama_server: Path) -> None:
        port = _free_port()
        threads = ("-t", str(THREADS), "-tb", str(THREADS))
        super().__init__(
            [
                *(python, "-m", "callo", "serve", "--model", gguf, "--port", str(port)),
                *("--llama-server", llama_server, "--cache-dir", folder / "callo"),
                *("--", *threads, "--host", "127.0.0.1"),
            ],
            folder / f"callo-{port}.log",
            port=port,
            probe="/callo/stats",
            LD_LIBRARY_PATH=str(llama_server.parent),
        )

    def decide(self, decisions: Sequence[Decision]) -> Answer:
        """Questions over one state, in one System One request."""
        questions = {decision.id: decision.as_systemone() for decision in decisions}
        return self.caller.expect("/v1/systemone", {"state": decisions[0].state, "questions": questions})
