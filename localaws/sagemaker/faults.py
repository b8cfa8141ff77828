"""Faults that a test or a demo injects, by instance type."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FaultMode(StrEnum):
    """What goes wrong with an instance type."""

    CAPACITY = "capacity"
    """No instances, or only `available` ones: the pool's next type is tried, or the transition fails."""
    CAPACITY_ERROR = "capacity-error"
    """The same in the words SageMaker used before."""
    QUOTA = "quota"
    """ResourceLimitExceeded at once, whatever Service Quotas says."""
    UNKNOWN_TYPE = "unknown-type"
    """The region does not offer the type: CreateEndpointConfig refuses it."""
    NVME_KEY = "nvme-key"
    """CreateEndpointConfig refuses a KmsKeyId with this type, as it once did for types with local disks."""
    SERVICE_FAILED = "service-failed"
    """`Request to service failed`."""
    HEALTH = "health"
    """The container never answers the ping."""
    START = "start"
    """The container cannot be started."""
    DOWNLOAD = "download"
    """The model data cannot be fetched."""
    IMAGE = "image"
    """The image cannot be pulled."""
    IMAGE_ACCESS = "image-access"
    """The execution role may not pull the image."""
    SLOW = "slow"
    """Instances come after `seconds`, then all is well."""
    SILENT_ROLLBACK = "silent-rollback"
    """An update ends InService on the old configuration, without a reason. A creation succeeds."""
    ROLLBACK_FAILED = "rollback-failed"
    """An update fails and so does going back: UpdateRollbackFailed. A creation is Failed."""


CAPACITY_MODES = frozenset({FaultMode.CAPACITY, FaultMode.CAPACITY_ERROR})


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the table."""

    mode: FaultMode
    seconds: float | None = None
    """How long SageMaker takes to find out; None: the usual time."""
    first: int | None = None
    """Strikes the first so many creations and updates that list the type; None: every one."""
    available: int = 0
    """Instances that a type short of capacity still has."""


class FaultTableError(ValueError):
    """A fault table that cannot be read. The text names the instance type and what is allowed."""


class FaultTable:
    """The faults in force. Safe for threads."""

    def __init__(self, faults: Mapping[str, Fault] | None = None) -> None:
        self._faults = dict(faults or {})
        self._struck: Counter[str] = Counter()
        self._lock = threading.Lock()

    def all(self) -> Mapping[str, Fault]:
        """Return every entry, used up or not."""
        return self._faults

    def take(self, instance_types: Iterable[str]) -> dict[str, Fault]:
        """Return what strikes a transition that lists these types; one strike of each is used up."""
        with self._lock:
            struck = {}
            for name in sorted(set(instance_types) & set(self._faults)):
                fault = self._faults[name]
                if fault.first is None or self._struck[name] < fault.first:
                    self._struck[name] += 1
                    struck[name] = fault
            return struck


def parse_faults(mapping: Mapping[str, Any]) -> dict[str, Fault]:
    """Read `{"ml.g6e.xlarge": {"mode": "capacity", "seconds": 3}}`.

    Raises:
        FaultTableError: naming the entry, what is wrong and what is allowed.
    """
    if not isinstance(mapping, Mapping):
        raise FaultTableError("The fault table must be an object from instance type to fault.")
    return {instance_type: _parse(instance_type, entry) for instance_type, entry in mapping.items()}


def render_faults(faults: Mapping[str, Fault]) -> dict[str, dict[str, Any]]:
    """Return the table as `parse_faults` reads it."""
    return {
        instance_type: {"mode": fault.mode.value}
        | ({} if fault.seconds is None else {"seconds": fault.seconds})
        | ({} if fault.first is None else {"first": fault.first})
        | ({"available": fault.available} if fault.available else {})
        for instance_type, fault in faults.items()
    }


def _parse(instance_type: str, entry: Any) -> Fault:
    if not isinstance(entry, Mapping):
        raise FaultTableError(f'{instance_type}: must be an object such as {{"mode": "capacity"}}.')
    unknown = sorted(set(entry) - {"mode", "seconds", "first", "available"})
    if unknown:
        raise FaultTableError(
            f"{instance_type}.{unknown[0]}: unknown key; allowed: mode, seconds, first, available."
        )
    allowed = ", ".join(FaultMode)
    try:
        mode = FaultMode(str(entry.get("mode")))
    except ValueError as error:
        raise FaultTableError(
            f"{instance_type}.mode: {entry.get('mode')!r} is none of: {allowed}."
        ) from error
    seconds = entry.get("seconds")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600
    ):
        raise FaultTableError(f"{instance_type}.seconds: {seconds!r} is not a number from 0 to 3600.")
    first = None if entry.get("first") is None else _count(instance_type, "first", entry["first"])
    available = _count(instance_type, "available", entry.get("available", 0))
    if available and mode not in CAPACITY_MODES:
        raise FaultTableError(f"{instance_type}.available: goes with the modes capacity and capacity-error.")
    return Fault(mode, None if seconds is None else float(seconds), first, available)


def _count(instance_type: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
        raise FaultTableError(f"{instance_type}.{name}: {value!r} is not a whole number from 0 to 1000.")
    return value
