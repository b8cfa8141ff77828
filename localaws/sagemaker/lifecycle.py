"""What happens to an endpoint, decided without waiting: configuration, faults and clock in, status out.

`plan` says how long finding instances takes and what comes of it. The transitions turn one frozen
`EndpointState` into the next; the configuration that serves changes only when a new one is healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from localaws.sagemaker import messages
from localaws.sagemaker.faults import Fault, FaultMode
from localaws.sagemaker.models import PoolEntry, ServingVariant, Variant


class Status(StrEnum):
    """Endpoint statuses in use here, with SageMaker's names."""

    CREATING = "Creating"
    UPDATING = "Updating"
    IN_SERVICE = "InService"
    FAILED = "Failed"
    DELETING = "Deleting"


IN_TRANSITION = frozenset({Status.CREATING, Status.UPDATING, Status.DELETING})


class QuotaExceededError(Exception):
    """An instance type of the configuration has no quota. The text is SageMaker's."""


class RefusedError(Exception):
    """The endpoint's status does not allow the operation. The text is SageMaker's."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The instance type that a variant got, and the fault that strikes once it has it."""

    variant: Variant
    entry: PoolEntry
    fault: FaultMode | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Outcome of provisioning: after `seconds` either placements for all variants, or a failure."""

    seconds: float
    placements: tuple[Placement, ...]
    failure: str | None = None
    silent_rollback: bool = False


@dataclass(frozen=True, slots=True)
class EndpointState:
    """An endpoint at one moment. `serving_config` is None until one was healthy."""

    name: str
    arn: str
    status: Status
    created_at: datetime
    modified_at: datetime
    target_config: str
    """The configuration asked for last."""
    serving_config: str | None = None
    serving: tuple[ServingVariant, ...] = ()
    failure_reason: str | None = None

    @property
    def config_name(self) -> str:
        """What DescribeEndpoint names: the configuration in service, else the one being created."""
        return self.serving_config or self.target_config


def check_quota(variants: Iterable[Variant], faults: Mapping[str, Fault]) -> None:
    """Raise QuotaExceededError if any listed type has no quota; a pool does not fall back on that."""
    for variant in variants:
        for instance_type in variant.instance_types:
            fault = faults.get(instance_type)
            if fault and fault.mode is FaultMode.QUOTA:
                raise QuotaExceededError(messages.no_quota(instance_type, variant.instance_count))


def plan(variants: Sequence[Variant], faults: Mapping[str, Fault], ready_s: float) -> Plan:
    """Find instances for every variant at the same time; each pool falls back on missing capacity only."""
    seconds = 0.0
    placements: list[Placement] = []
    silent = False
    for variant in variants:
        spent = 0.0
        placed = None
        for entry in variant.pool:
            fault = faults.get(entry.instance_type)
            spent += ready_s if fault is None or fault.seconds is None else fault.seconds
            if fault is None or fault.mode is not FaultMode.CAPACITY:
                placed = Placement(variant, entry, fault.mode if fault else None)
                break
        seconds = max(seconds, spent)
        if placed is None:
            return Plan(seconds, (), messages.NO_CAPACITY)
        silent = silent or placed.fault is FaultMode.SILENT_ROLLBACK
        placements.append(placed)
    return Plan(seconds, tuple(placements), silent_rollback=silent)


def retained(
    variants: Sequence[Variant], serving: Iterable[ServingVariant], request: Mapping[str, Any]
) -> tuple[Variant, ...]:
    """Return the new variants with the counts and weights that an UpdateEndpoint request retains."""
    if not request.get("RetainAllVariantProperties"):
        return tuple(variants)
    excluded = {
        entry["VariantPropertyType"] for entry in request.get("ExcludeRetainedVariantProperties") or []
    }
    current = {variant.name: variant for variant in serving}

    def kept(variant: Variant) -> Variant:
        now = current.get(variant.name)
        if now is None:
            return variant
        return replace(
            variant,
            instance_count=variant.instance_count
            if "DesiredInstanceCount" in excluded
            else now.instance_count,
            weight=variant.weight if "DesiredWeight" in excluded else now.weight,
        )

    return tuple(kept(variant) for variant in variants)


def injected_failure(placement: Placement, model: str, role: str, data_url: str) -> str | None:
    """Return the FailureReason that the placement's fault leads to, None if it lets the start succeed."""
    match placement.fault:
        case FaultMode.HEALTH:
            return messages.unhealthy(placement.variant.name)
        case FaultMode.START:
            return messages.cannot_start(placement.variant.name)
        case FaultMode.DOWNLOAD:
            return messages.download_failed(data_url)
        case FaultMode.IMAGE:
            return messages.image_missing(model, role)
        case _:
            return None


def created(name: str, arn: str, config: str, now: datetime) -> EndpointState:
    """CreateEndpoint."""
    return EndpointState(name, arn, Status.CREATING, now, now, config)


def updating(state: EndpointState, config: str, config_arn: str, now: datetime) -> EndpointState:
    """UpdateEndpoint: the old configuration goes on serving, an old reason is forgotten.

    Raises:
        RefusedError: during a transition, after a failed creation, or if `config` serves already.
    """
    if state.status in IN_TRANSITION:
        raise RefusedError(messages.in_progress(state.arn))
    if state.status is Status.FAILED:
        raise RefusedError(messages.failed_endpoint(state.arn))
    if state.serving_config == config:
        raise RefusedError(messages.config_in_use(state.arn, config_arn))
    return replace(state, status=Status.UPDATING, target_config=config, failure_reason=None, modified_at=now)


def healthy(state: EndpointState, serving: tuple[ServingVariant, ...], now: datetime) -> EndpointState:
    """Every container of the target configuration passed its health check: it serves from now on."""
    return replace(
        state,
        status=Status.IN_SERVICE,
        serving_config=state.target_config,
        serving=serving,
        failure_reason=None,
        modified_at=now,
    )


def failed(state: EndpointState, reason: str | None, now: datetime) -> EndpointState:
    """End a transition badly: a creation is Failed, an update is back in service on the old configuration."""
    status = Status.IN_SERVICE if state.serving_config else Status.FAILED
    cut = reason[: messages.REASON_LIMIT] if reason else None
    return replace(state, status=status, target_config=state.config_name, failure_reason=cut, modified_at=now)


def deleting(state: EndpointState, now: datetime) -> EndpointState:
    """DeleteEndpoint.

    Raises:
        RefusedError: during a transition.
    """
    if state.status in IN_TRANSITION:
        raise RefusedError(messages.in_progress(state.arn))
    return replace(state, status=Status.DELETING, modified_at=now)
