"""The benchmark's result file: what ran, what it gave, what failed. Standard library only."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

PUBLISHED: Final[dict[str, Any]] = {
    "what": "Qwen3.5-4B Q4_K_M on AWS's sample for decision models, 231 public tasks; as reference only:"
    " other tasks, real weights, whole requests over the network of one endpoint",
    "machine": "ml.g6e.xlarge, one NVIDIA L40S",
    "p50_s": 0.352,
    "p95_s": 0.599,
}

_Value = TypeVar("_Value")


class OutOfTimeError(Exception):
    """The time for the whole run is over before this part could begin."""


class Report:
    """Collects results and writes them to a file after each part, so that an early end loses nothing.

    limit_s: time for the whole run, from the making of the report on.
    """

    def __init__(self, path: Path, *, command: list[str], limit_s: float) -> None:
        self._path = path
        self._ends_s = time.monotonic() + limit_s
        self.parts: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.measures: list[dict[str, Any]] = []
        self._head = {
            "command": command,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "limit_s": limit_s,
        }

    @property
    def failed(self) -> list[str]:
        """The names of the parts that failed, in order."""
        return [part["part"] for part in self.parts if part["outcome"] == "failed"]

    def remaining_s(self) -> float:
        """Seconds left for the whole run."""
        return self._ends_s - time.monotonic()

    def run(self, name: str, part: Callable[[], _Value]) -> _Value | None:
        """Run one part and note how it ended; gives its value, None if it failed."""
        begun_s = time.monotonic()
        value: _Value | None = None
        entry: dict[str, Any] = {"part": name, "outcome": "ok"}
        print(f"bench: {name} …", flush=True)
        try:
            if self.remaining_s() <= 0:
                raise OutOfTimeError(f"OUT_OF_TIME: no time was left for {name}")
            value = part()
        except Exception as error:  # one part's fault must not cost the others' results
            entry |= {"outcome": "failed", "error": f"{type(error).__name__}: {error}"}
            entry["frames"] = [
                f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        entry["seconds"] = round(time.monotonic() - begun_s, 1)
        self.parts.append(entry)
        print(f"bench: {name}: {entry['outcome']}, {entry['seconds']} s {entry.get('error', '')}", flush=True)
        self.write()
        return value

    def skip(self, name: str, reason: str) -> None:
        """Note that a part is left out on purpose."""
        self.parts.append({"part": name, "outcome": "skipped", "reason": reason, "seconds": 0.0})
        print(f"bench: {name}: skipped, {reason}", flush=True)
        self.write()

    def write(self) -> None:
        """Write what is known so far; the file is whole at any time."""
        document = {
            **self._head,
            "complete": False,
            "failed": self.failed,
            "published": PUBLISHED,
            "facts": self.facts,
            "parts": self.parts,
            "measures": self.measures,
        }
        self._replace(document)

    def finish(self) -> int:
        """Write the last state; gives the exit code, 0 if nothing failed."""
        self.write()
        document = json.loads(self._path.read_text(encoding="utf-8"))
        self._replace({**document, "complete": True})
        return 1 if self.failed else 0

    def _replace(self, document: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(self._path.name + ".part")
        draft.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self._path)
