"""One Lambda execution environment: a warm process that runs one invocation at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """What an invocation came to: the JSON payload, whether it is an error, and what was printed."""

    payload: str
    failed: bool
    printed: str
    seconds: float


class Environment:
    """A runner process. It is not safe for threads: whoever holds it calls it."""

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], root: Path, output: Path
    ) -> None:
        self._output = output
        self._seen_bytes = 0
        self.last_used = time.monotonic()
        answers, theirs = os.pipe()
        self._answers = answers
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=root,
                env={**variables, "LOCALAWS_ANSWERS": str(theirs)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        os.close(theirs)

    @property
    def alive(self) -> bool:
        """Tell whether it can take another invocation."""
        return self._process.poll() is None

    def invoke(self, request: Mapping[str, Any], timeout_s: float) -> Outcome:
        """Run one invocation; after a time-out or a crash the environment is gone."""
        started = time.monotonic()
        line: bytes | None = None
        try:
            assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._read_line(started + timeout_s)
            gone = line is None
        except BrokenPipeError:
            gone = True
        except TimeoutError:
            self.close()
            message = f"{request['request_id']} Task timed out after {timeout_s:.2f} seconds"
            payload = json.dumps({"errorMessage": message, "errorType": "Sandbox.Timedout"})
            return Outcome(payload, failed=True, printed=f"{self._printed()}{message}\n", seconds=timeout_s)
        seconds = time.monotonic() - started
        self.last_used = time.monotonic()
        if gone or line is None:
            code = self._process.wait()
            self.close()
            message = (
                f"RequestId: {request['request_id']} Error: Runtime exited with error: exit status {code}"
            )
            payload = json.dumps({"errorMessage": message, "errorType": "Runtime.ExitError"})
            return Outcome(payload, failed=True, printed=self._printed(), seconds=seconds)
        answer = json.loads(line)
        return Outcome(json.dumps(answer["payload"]), not answer["ok"], self._printed(), seconds)

    def close(self) -> None:
        """Stop the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1

    def _read_line(self, deadline: float) -> bytes | None:
        parts = []
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._answers], [], [], left_s)[0]:
                raise TimeoutError
            part = os.read(self._answers, _CHUNK_BYTES)
            if not part:
                return None
            parts.append(part)
            if part.endswith(b"\n"):
                return b"".join(parts)

    def _printed(self) -> str:
        with self._output.open("rb") as log:
            log.seek(self._seen_bytes)
            printed = log.read()
        self._seen_bytes += len(printed)
        return printed.decode("utf-8", "replace")
