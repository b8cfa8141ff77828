"""Faults that a test or a demo injects into pushes and scans, by repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PREFIX = "ecr:"
"""Keys of the fault table that are ECR's: `ecr:REPOSITORY`, or `ecr:*` for every repository."""

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "UNDEFINED")
STATUSES = ("COMPLETE", "FAILED", "IN_PROGRESS", "PENDING", "UNSUPPORTED_IMAGE")


class FaultMode(StrEnum):
    """What goes wrong."""

    OCI = "oci"
    """`docker push` sends an OCI manifest."""
    DENIED = "denied"
    """`docker push` is refused."""
    SCAN = "scan"
    """Scans end with `status`, and find `findings`: {SEVERITY: how many}."""


_KEYS = {FaultMode.OCI: set[str](), FaultMode.DENIED: set[str](), FaultMode.SCAN: {"status", "findings"}}


class RegistryFaultError(ValueError):
    """An entry that cannot be read. The text names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How scans of a repository end."""

    status: str = "COMPLETE"
    findings: Mapping[str, int] | None = None


class RegistryFaults:
    """The table; it is replaced as a whole."""

    def __init__(self) -> None:
        self._table: Mapping[str, Mapping[str, Any]] = {}

    def put(self, table: Mapping[str, Any]) -> None:
        """Replace the table by one that `check` took."""
        self._table = dict(table)

    def render(self) -> dict[str, Any]:
        """Return the table as it was put."""
        return dict(self._table)

    def has(self, mode: FaultMode, repository: str) -> bool:
        """Say whether a repository has a fault."""
        return self._entry(mode, repository) is not None

    def scan(self, repository: str) -> Scan:
        """Return how scans of a repository end; without a fault, with no findings."""
        entry = self._entry(FaultMode.SCAN, repository) or {}
        return Scan(entry.get("status", "COMPLETE"), entry.get("findings") or {})

    def _entry(self, mode: FaultMode, repository: str) -> Mapping[str, Any] | None:
        for key in (f"{PREFIX}{repository}", f"{PREFIX}*"):
            entry = self._table.get(key)
            if entry is not None and entry["mode"] == mode:
                return entry
        return None


def check(table: Mapping[str, Any]) -> None:
    """Read a table.

    Raises:
        RegistryFaultError: an entry cannot be read.
    """
    for key, entry in table.items():
        _check(key, entry)


def _check(key: str, entry: Any) -> None:
    if not isinstance(entry, Mapping):
        raise RegistryFaultError(f"{key}: must be an object.")
    mode = entry.get("mode")
    if mode not in list(FaultMode):
        raise RegistryFaultError(f"{key}.mode: {mode!r} is none of: {', '.join(FaultMode)}.")
    allowed = {"mode", *_KEYS[FaultMode(mode)]}
    for name in sorted(set(entry) - allowed):
        raise RegistryFaultError(f"{key}.{name}: unknown key; allowed: {', '.join(sorted(allowed))}.")
    if entry.get("status", "COMPLETE") not in STATUSES:
        raise RegistryFaultError(f"{key}.status: {entry['status']!r} is none of: {', '.join(STATUSES)}.")
    findings = entry.get("findings", {})
    if not isinstance(findings, Mapping):
        raise RegistryFaultError(f"{key}.findings: must be an object of severities.")
    for severity, count in findings.items():
        if severity not in SEVERITIES:
            raise RegistryFaultError(f"{key}.findings.{severity}: is none of: {', '.join(SEVERITIES)}.")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise RegistryFaultError(f"{key}.findings.{severity}: {count!r} is not a number from 0.")
