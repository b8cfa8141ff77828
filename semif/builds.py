"""One build of CodeBuild as `semif watch` follows it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

CONTENT_HASH = "SEMIF_CONTENT_HASH"  # set on each build by the custom resource that starts it
WAITING_PHASES = frozenset({"SUBMITTED", "QUEUED"})
BAD_ENDS = frozenset({"FAILED", "FAULT", "STOPPED", "TIMED_OUT"})
AGENT = "[Container]"  # what CodeBuild's own lines of a log begin with


@dataclass(frozen=True)
class Build:
    """One build; `status` and `phase` are CodeBuild's.

    `phase` is the current one, or the one that ended badly; `phase_since` its beginning; `context` what
    CodeBuild says of a bad end. `ahead`: how many builds of the project that began before still run. `log`:
    the last lines of one that failed.
    """

    id: str
    status: str
    phase: str
    phase_since: datetime
    started_at: datetime
    ended_at: datetime | None
    content_hash: str
    context: str = ""
    ahead: int = 0
    log: tuple[str, ...] = ()
    link: str = ""

    @property
    def project(self) -> str:
        """Name of its project."""
        return self.id.partition(":")[0]

    @property
    def bad(self) -> bool:
        """True once it has ended without success."""
        return self.status in BAD_ENDS

    @property
    def waiting(self) -> bool:
        """True while no machine works on it."""
        return self.ended_at is None and self.phase in WAITING_PHASES


def read_build(found: Mapping[str, Any]) -> Build:
    """Read one build of BatchGetBuilds."""
    started_at = found["startTime"]
    status = found["buildStatus"]
    phases = [phase for phase in found.get("phases", []) if "startTime" in phase]
    bad = [phase for phase in phases if phase.get("phaseStatus") in BAD_ENDS]
    shown = bad[0] if bad else (phases[-1] if phases else {})
    contexts = shown.get("contexts", []) if bad else []
    variables = found.get("environment", {}).get("environmentVariables", [])
    return Build(
        id=found["id"],
        status=status,
        phase=shown["phaseType"] if bad else found.get("currentPhase", "SUBMITTED"),
        phase_since=shown.get("startTime", started_at),
        started_at=started_at,
        ended_at=found.get("endTime", started_at) if status != "IN_PROGRESS" else None,
        content_hash=next((v["value"] for v in variables if v["name"] == CONTENT_HASH), ""),
        context="; ".join(
            ": ".join(text for text in (c.get("statusCode", ""), c.get("message", "")) if text)
            for c in contexts
        ),
        link=found.get("logs", {}).get("deepLink", "") if "streamName" in found.get("logs", {}) else "",
    )


def program_lines(lines: Iterable[str]) -> list[str]:
    """What the build's own programs printed, without CodeBuild's words about them and empty lines."""
    return [line for line in lines if line.strip() and not line.startswith(AGENT)]
