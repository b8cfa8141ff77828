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
from localaws.sagemaker.faults import CAPACITY_MODES, Fault, FaultMode
from localaws.sagemaker.models import PoolEntry, ServingVariant, Variant
from localaws.sagemaker.quotas import QuotaExceededError


class Status(StrEnum):
    """Endpoint statuses in use here, with SageMaker's names."""

    CREATING = "Creating"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    IN_SERVICE = "InService"
    FAILED = "Failed"
    UPDATE_ROLLBACK_FAILED = "UpdateRollbackFailed"
    DELETING = "Deleting"


SERVING = frozenset({Status.IN_SERVICE, Status.UPDATING, Status.ROLLING_BACK, Status.UPDATE_ROLLBACK_FAILED})
"""Statuses in which a fleet, if there is one, answers."""
IN_TRANSITION = frozenset({Status.CREATING, Status.UPDATING, Status.ROLLING_BACK, Status.DELETING})


class RefusedError(Exception):
    """The endpoint's status does not allow the operation. The text is SageMaker's."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The instance type that a variant got first, and the fault that strikes once it has it."""

    variant: Variant
    entry: PoolEntry
    fault: FaultMode | None
    fleet: tuple[tuple[str, int], ...] = ()
    """Instances of every type of the pool."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Outcome of provisioning: after `seconds` either placements for all variants, or a failure."""

    seconds: float
    placements: tuple[Placement, ...]
    failure: str | None = None
    silent_rollback: bool = False
    rollback_fails: bool = False

    @property
    def instances(self) -> tuple[tuple[str, int], ...]:
        """Return what the transition holds of each type beside the fleet that serves."""
        return tuple(pair for placement in self.placements for pair in placement.fleet)


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
    def scaling(self) -> bool:
        """Whether a change of instance counts is under way."""
        return any(variant.desired_count is not None for variant in self.serving)

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
    for variant in variants:
        spent, found = _searched(variant, faults, ready_s)
        seconds = max(seconds, spent)
        if isinstance(found, str):
            return Plan(seconds, (), found)
        placements.append(found)
    modes = {placement.fault for placement in placements}
    return Plan(
        seconds,
        tuple(placements),
        silent_rollback=FaultMode.SILENT_ROLLBACK in modes,
        rollback_fails=FaultMode.ROLLBACK_FAILED in modes,
    )


def _searched(variant: Variant, faults: Mapping[str, Fault], ready_s: float) -> tuple[float, Placement | str]:
    """Return how long a variant's search takes, and its placement or the failure."""
    spent, missing = 0.0, variant.instance_count
    reason = messages.NO_CAPACITY
    fleet: list[tuple[PoolEntry, int]] = []
    for entry in variant.pool:
        fault = faults.get(entry.instance_type)
        short = fault is not None and fault.mode in CAPACITY_MODES
        taken = 0
        if missing:
            spent += ready_s if fault is None or fault.seconds is None else fault.seconds
            taken = min(missing, fault.available) if fault is not None and short else missing
            if fault is not None and fault.mode is FaultMode.CAPACITY_ERROR:
                reason = messages.NO_CAPACITY_BEFORE
        fleet.append((entry, taken))
        missing -= taken
    limit_s = variant.provision_timeout_s
    if limit_s is not None and spent > limit_s:
        return float(limit_s), messages.NO_CAPACITY
    if missing:
        return spent, reason
    first = next(entry for entry, taken in fleet if taken)
    fault = faults.get(first.instance_type)
    counts = tuple((entry.instance_type, taken) for entry, taken in fleet)
    return spent, Placement(variant, first, fault.mode if fault else None, counts)


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
    name = placement.variant.name
    return {
        FaultMode.HEALTH: messages.unhealthy(name),
        FaultMode.START: messages.cannot_start(name),
        FaultMode.DOWNLOAD: messages.download_failed(data_url),
        FaultMode.IMAGE: messages.image_missing(model, role),
        FaultMode.IMAGE_ACCESS: messages.image_access_denied(role),
        FaultMode.SERVICE_FAILED: messages.SERVICE_FAILED,
        FaultMode.ROLLBACK_FAILED: messages.SERVICE_FAILED,
    }.get(placement.fault or FaultMode.SLOW)


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


def rolling_back(state: EndpointState, reason: str, now: datetime) -> EndpointState:
    """An update failed: its fleet goes, the old one never ceased to serve."""
    cut = reason[: messages.REASON_LIMIT]
    return replace(state, status=Status.ROLLING_BACK, failure_reason=cut, modified_at=now)


def stuck(state: EndpointState, now: datetime) -> EndpointState:
    """The way back failed too: a mix serves."""
    return replace(
        state, status=Status.UPDATE_ROLLBACK_FAILED, target_config=state.config_name, modified_at=now
    )


def scaling(state: EndpointState, wanted: Mapping[str, Mapping[str, Any]], now: datetime) -> EndpointState:
    """UpdateEndpointWeightsAndCapacities: the serving variants get other weights and counts.

    Raises:
        RefusedError: during a transition, or when nothing serves.
    """
    if state.status is not Status.IN_SERVICE:
        raise RefusedError(messages.in_progress(state.arn))
    serving = tuple(
        replace(
            variant,
            weight=wanted.get(variant.name, {}).get("DesiredWeight", variant.weight),
            desired_count=wanted.get(variant.name, {}).get("DesiredInstanceCount", variant.instance_count),
        )
        for variant in state.serving
    )
    return replace(state, status=Status.UPDATING, serving=serving, modified_at=now)


def scaled(state: EndpointState, now: datetime) -> EndpointState:
    """End a change of counts: a pool grows by its first type and gives up its last ones first."""
    serving = tuple(
        variant if variant.desired_count is None else _resized(variant, variant.desired_count)
        for variant in state.serving
    )
    return replace(state, status=Status.IN_SERVICE, serving=serving, modified_at=now)


def _resized(variant: ServingVariant, count: int) -> ServingVariant:
    fleet, missing = dict(variant.instances), count - variant.instance_count
    for name in list(fleet) if missing > 0 else reversed(list(fleet)):
        step = missing if missing > 0 else max(missing, -fleet[name])
        fleet[name] += step
        missing -= step
    return replace(variant, instance_count=count, fleet=tuple(fleet.items()), desired_count=None)


def deleting(state: EndpointState, now: datetime) -> EndpointState:
    """DeleteEndpoint.

    Raises:
        RefusedError: during a transition.
    """
    if state.status in IN_TRANSITION:
        raise RefusedError(messages.in_progress(state.arn))
    return replace(state, status=Status.DELETING, modified_at=now)
