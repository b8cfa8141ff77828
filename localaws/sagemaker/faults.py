"""Faults that a test or a demo injects, by instance type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FaultMode(StrEnum):
    """What goes wrong with an instance type."""

    CAPACITY = "capacity"
    """No instances: the transition fails, or the pool's next type is tried."""
    QUOTA = "quota"
    """ResourceLimitExceeded at once."""
    UNKNOWN_TYPE = "unknown-type"
    """The region does not offer the type: CreateEndpointConfig refuses it."""
    HEALTH = "health"
    """The container never answers the ping."""
    START = "start"
    """The container cannot be started."""
    DOWNLOAD = "download"
    """The model data cannot be fetched."""
    IMAGE = "image"
    """The image cannot be pulled."""
    SLOW = "slow"
    """Instances come after `seconds`, then all is well."""
    SILENT_ROLLBACK = "silent-rollback"
    """An update ends InService on the old configuration, without a reason. A creation succeeds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the table. `seconds` is how long SageMaker takes to find out; None: the usual time."""

    mode: FaultMode
    seconds: float | None = None


class FaultTableError(ValueError):
    """A fault table that cannot be read. The text names the instance type and what is allowed."""


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
        for instance_type, fault in faults.items()
    }


def _parse(instance_type: str, entry: Any) -> Fault:
    if not isinstance(entry, Mapping):
        raise FaultTableError(f'{instance_type}: must be an object such as {{"mode": "capacity"}}.')
    unknown = sorted(set(entry) - {"mode", "seconds"})
    if unknown:
        raise FaultTableError(f"{instance_type}.{unknown[0]}: unknown key; allowed: mode, seconds.")
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
    return Fault(mode, None if seconds is None else float(seconds))
