"""Which findings of ECR's scan refuse an image, and when to stop waiting for them: pure decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from image_build.errors import BuildError, FindingsError

ASK_AFTER_S: Final = 10
"""Scan on push makes a scan by itself, a moment after the push; after this time one is asked for."""
SCAN_TIMEOUT_S: Final = 900
MAX_NAMED: Final = 10
DONE: Final = ("COMPLETE", "ACTIVE")
"""ACTIVE is what enhanced scanning says of an image that it has scanned and goes on watching."""
UNDER_WAY: Final = ("IN_PROGRESS", "PENDING")


class Severity(IntEnum):
    """What ECR rates, from the least; what nobody has rated yet counts as INFORMATIONAL."""

    INFORMATIONAL = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5


@dataclass(frozen=True)
class ScanReport:
    """ECR's answer. `status` None: there is no scan yet. `counts` maps ECR's severities to findings."""

    status: str | None
    description: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Finding:
    """One finding: a CVE's name, ECR's severity, the package in which it is ("" where ECR does not say)."""

    name: str
    severity: str
    package: str


class Next(IntEnum):
    """What to do about a scan."""

    WAIT = 0
    ASK = 1
    READ = 2


def threshold(name: str) -> Severity | None:
    """Read the setting; None for NONE. Raises `KeyError` for an unknown name."""
    return None if name == "NONE" else Severity[name]


def rated(severity: str) -> Severity:
    """Rank one of ECR's severities. A word that ECR did not have in 2026 is taken for the worst."""
    if severity in {"UNDEFINED", "UNTRIAGED"}:
        return Severity.INFORMATIONAL
    return Severity.__members__.get(severity, Severity.CRITICAL)


def next_step(report: ScanReport, *, waited_s: float, asked: bool) -> Next:
    """Say whether to wait, to ask for a scan or to read the findings.

    Raises:
        BuildError: there will be no findings, or not in time.
    """
    if report.status in DONE:
        return Next.READ
    if report.status is not None and report.status not in UNDER_WAY:
        raise BuildError(
            "scan_unavailable",
            f"ECR's scan ended as {report.status}"
            + (f": {report.description}" if report.description else ""),
            "run the build again, or set scan_severity to NONE to take images that no scan has seen",
        )
    if waited_s >= SCAN_TIMEOUT_S:
        raise BuildError(
            "scan_timeout",
            f"ECR's scan is {report.status or 'not begun'} after {SCAN_TIMEOUT_S} s",
            "see to the registry's scanning configuration (scan on push), then run the build again",
        )
    return Next.ASK if report.status is None and not asked and waited_s >= ASK_AFTER_S else Next.WAIT


def refused_count(counts: Mapping[str, int], severity: Severity) -> int:
    """How many findings are at or above `severity`."""
    return sum(count for name, count in counts.items() if rated(name) >= severity)


def refusal(
    counts: Mapping[str, int], findings: Sequence[Finding], severity: Severity, *, candidate: str
) -> FindingsError:
    """The error for an image whose scan counts findings at or above `severity`; names the worst of them."""
    total = refused_count(counts, severity)
    severe = sorted(
        (finding for finding in findings if rated(finding.severity) >= severity),
        key=lambda finding: (-rated(finding.severity), finding.name, finding.package),
    )
    named = [f"{f.name} {f.severity}" + (f" in {f.package}" if f.package else "") for f in severe[:MAX_NAMED]]
    if total > len(named):
        named.append(f"{total - len(named)} more in ECR")
    return FindingsError(
        "scan_findings",
        f"the scan has {total} finding(s) at or above {severity.name}: {', '.join(named)}",
        f"move to a base image without them, or raise scan_severity; the image stays as {candidate}",
    )


def summary(counts: Mapping[str, int]) -> str:
    """The counts in one line, the worst first."""
    ordered = sorted(counts.items(), key=lambda item: (-rated(item[0]), item[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered if count) or "none"
