"""A child process that answers JSON lines with JSON lines."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_STOP_S: Final = 20.0


def plain_environment(**changes: str) -> dict[str, str]:
    """This process's environment without SEMIF_* and OMP_*: each side runs with its own defaults."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("SEMIF_", "OMP_", "GOMP_"))
    }
    return kept | changes


class LineChild:
    """One running child. What it writes to stderr goes to the file `log`."""

    def __init__(self, command: Sequence[str | Path], log: Path, **environment: str) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=plain_environment(**environment),
            )

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """One request and its answer. Raises RuntimeError with the child's last words if it ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the child has no pipes")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            last = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the child {self._process.args!r} ended:\n{last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
