"""Faults that a test or a demo injects into builds, by project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PREFIX = "codebuild:"
"""Keys of the fault table that are CodeBuild's: `codebuild:PROJECT`, or `codebuild:*` for every project."""

PHASES = (
    "QUEUED",
    "PROVISIONING",
    "DOWNLOAD_SOURCE",
    "INSTALL",
    "PRE_BUILD",
    "BUILD",
    "POST_BUILD",
    "UPLOAD_ARTIFACTS",
)
_CODES = {
    "PROVISIONING": "BUILD_CONTAINER_UNABLE_TO_PULL_IMAGE",
    "DOWNLOAD_SOURCE": "CLIENT_ERROR",
    "UPLOAD_ARTIFACTS": "CLIENT_ERROR",
}


class FaultMode(StrEnum):
    """What goes wrong in a phase."""

    DELAY = "delay"
    """The phase takes `seconds` longer."""
    FAIL = "fail"
    """The phase fails after `seconds`, before it has done anything."""
    FAULT = "fault"
    """CodeBuild itself fails: the build ends with the status FAULT."""
    TIMEOUT = "timeout"
    """The build's time (in QUEUED: its time in the queue) is over `seconds` after the phase began."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the table."""

    mode: FaultMode
    phase: str
    seconds: float = 0.0
    message: str | None = None

    @property
    def context(self) -> tuple[str, str]:
        """Return the phase's context: status code and message."""
        if self.mode is FaultMode.FAULT:
            return "INTERNAL_SERVICE_ERROR", self.message or "CodeBuild is experiencing issues"
        code = _CODES.get(self.phase, "COMMAND_EXECUTION_ERROR")
        return code, self.message or f"The phase {self.phase} fails by a fault of the local AWS"


class FaultTableError(ValueError):
    """A fault table that cannot be read. The text names the entry and what is allowed."""


def parse_faults(mapping: Mapping[str, Any]) -> dict[str, Fault]:
    """Read `{"codebuild:PROJECT": {"mode": "fail", "phase": "PROVISIONING", "message": "…"}}`.

    Raises:
        FaultTableError: naming the entry, what is wrong and what is allowed.
    """
    return {key.removeprefix(PREFIX): _parse(key, entry) for key, entry in mapping.items()}


def render_faults(faults: Mapping[str, Fault]) -> dict[str, dict[str, Any]]:
    """Return the table as `parse_faults` reads it."""
    return {
        f"{PREFIX}{project}": {"mode": fault.mode.value, "phase": fault.phase, "seconds": fault.seconds}
        | ({} if fault.message is None else {"message": fault.message})
        for project, fault in faults.items()
    }


def _parse(key: str, entry: Any) -> Fault:
    allowed = {"mode", "phase", "seconds", "message"}
    if not isinstance(entry, Mapping):
        raise FaultTableError(f'{key}: must be an object such as {{"mode": "fail", "phase": "BUILD"}}.')
    unknown = sorted(set(entry) - allowed)
    if unknown:
        raise FaultTableError(f"{key}.{unknown[0]}: unknown key; allowed: {', '.join(sorted(allowed))}.")
    modes = ", ".join(FaultMode)
    try:
        mode = FaultMode(str(entry.get("mode")))
    except ValueError as error:
        raise FaultTableError(f"{key}.mode: {entry.get('mode')!r} is none of: {modes}.") from error
    phase, seconds, message = entry.get("phase"), entry.get("seconds", 0.0), entry.get("message")
    if phase not in PHASES:
        raise FaultTableError(f"{key}.phase: {phase!r} is none of: {', '.join(PHASES)}.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
        raise FaultTableError(f"{key}.seconds: {seconds!r} is not a number from 0 to 3600.")
    if message is not None and not isinstance(message, str):
        raise FaultTableError(f"{key}.message: {message!r} is no text.")
    return Fault(mode, phase, float(seconds), message)
