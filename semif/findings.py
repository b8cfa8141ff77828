"""What a check found: subject, fact, next step. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from semif.terminal import printable


class Level(Enum):
    """How bad it is; an ERROR stops a deployment."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One line for the operator. `step` says what `command` does, or stands without one."""

    level: Level
    subject: str
    fact: str
    step: str = ""
    command: str = ""

    @property
    def text(self) -> str:
        """`subject: fact. step: command`, on one line and free of control characters."""
        parts = [f"{self.subject}: {self.fact.rstrip('.')}."]
        if self.command:
            parts.append(f"{self.step or 'Next step'}: {self.command}")
        elif self.step:
            parts.append(f"{self.step[0].upper()}{self.step[1:].rstrip('.')}.")
        return printable(" ".join(parts))


@dataclass(frozen=True)
class Unknown:
    """A look-up that failed. `action` is the permission it needs; `denied`: AWS refused it for its lack."""

    action: str
    reason: str
    denied: bool = False


def not_known(subject: str, looked: object, consequence: str = "") -> list[Finding]:
    """A warning if the look-up failed: `could not check …: needs servicequotas:ListServiceQuotas`."""
    if not isinstance(looked, Unknown):
        return []
    fact = f"{looked.reason}{f'; {consequence}' if consequence else ''}"
    step = f"allow {looked.action} to these credentials" if looked.denied else "run semif doctor again"
    return [Finding(Level.WARNING, f"could not check {subject}", f"needs {looked.action} ({fact})", step)]


def lines(findings: Iterable[Finding]) -> list[str]:
    """One line per finding, with its level."""
    return [f"{finding.level.value:<8} {finding.text}" for finding in findings]


def stops(findings: Iterable[Finding]) -> bool:
    """Whether one of them stops a deployment."""
    return any(finding.level is Level.ERROR for finding in findings)


def summary(findings: Sequence[Finding]) -> str:
    """How many of which level: `1 error, 2 warnings, 8 ok`."""
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    parts = [
        f"{counts[level]} {level.value}{'s' if counts[level] != 1 else ''}"
        for level in (Level.ERROR, Level.WARNING, Level.NOTE)
        if counts[level]
    ]
    return ", ".join([*parts, f"{counts[Level.OK]} ok"])
