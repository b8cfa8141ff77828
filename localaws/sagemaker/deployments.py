"""DeploymentConfig of an update: what SageMaker refuses of it, its waits, and the instances it needs more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localaws.sagemaker.models import ServingVariant, Variant

_LARGEST_STEP = 0.5
"""Of a variant's instances: canaries, linear steps and rolling batches are at most half."""


class DeploymentError(ValueError):
    """A DeploymentConfig that SageMaker refuses. The text names the member."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How an update replaces the old fleet."""

    rolling: bool = False
    step: Mapping[str, Any] | None = None
    """Size of a canary, a linear step or a rolling batch; None: all at once."""
    repeated: bool = False
    """Whether steps of this size follow until everything is replaced; a canary has one and the rest."""
    wait_s: int = 0
    termination_wait_s: int = 0
    alarms: tuple[str, ...] = ()

    def waits_s(self, count: int) -> tuple[int, ...]:
        """Return the waits in which alarms are watched, for a variant of `count` instances."""
        if self.step is None:
            steps = 1 if self.wait_s else 0
        else:
            steps = math.ceil(count / self._instances(count)) if self.repeated else 1
        return (self.wait_s,) * steps + (self.termination_wait_s,)

    def surge(self, count: int) -> int:
        """Return how many instances of the new fleet run beside the whole old one."""
        return self._instances(count) if self.rolling else count

    def _instances(self, count: int) -> int:
        if self.step is None:
            return count
        value = int(self.step["Value"])
        if self.step["Type"] == "INSTANCE_COUNT":
            return min(count, value)
        return max(1, math.ceil(count * value / 100))


def read_deployment(config: Mapping[str, Any] | None, variants: Iterable[Variant]) -> Deployment:
    """Read a DeploymentConfig for these variants; without one, everything changes at once.

    Raises:
        DeploymentError: SageMaker would refuse it.
    """
    config = config or {}
    blue_green, rolling = config.get("BlueGreenUpdatePolicy"), config.get("RollingUpdatePolicy")
    alarms = tuple(
        alarm["AlarmName"] for alarm in (config.get("AutoRollbackConfiguration") or {}).get("Alarms") or []
    )
    if blue_green and rolling:
        raise DeploymentError("DeploymentConfig: specify BlueGreenUpdatePolicy or RollingUpdatePolicy.")
    if rolling:
        made = Deployment(
            rolling=True,
            step=rolling["MaximumBatchSize"],
            repeated=True,
            wait_s=rolling["WaitIntervalInSeconds"],
            alarms=alarms,
        )
        return _checked(made, "MaximumBatchSize", variants)
    routing = (blue_green or {}).get("TrafficRoutingConfiguration") or {"Type": "ALL_AT_ONCE"}
    member = {"CANARY": "CanarySize", "LINEAR": "LinearStepSize"}.get(routing["Type"])
    for name in {"CanarySize", "LinearStepSize"} - {member}:
        if routing.get(name):
            raise DeploymentError(f"TrafficRoutingConfiguration: {name} does not go with {routing['Type']}.")
    if member is not None and not routing.get(member):
        raise DeploymentError(f"TrafficRoutingConfiguration: {member} is required with {routing['Type']}.")
    made = Deployment(
        step=routing.get(member) if member else None,
        repeated=routing["Type"] == "LINEAR",
        wait_s=routing.get("WaitIntervalInSeconds", 0),
        termination_wait_s=(blue_green or {}).get("TerminationWaitInSeconds", 0),
        alarms=alarms,
    )
    return _checked(made, member or "", variants)


def needed(variants: Iterable[Variant], deployment: Deployment | None) -> dict[str, int]:
    """Return the instances of each type that a creation (None) or an update takes beside what serves."""
    wanted: Counter[str] = Counter()
    for variant in variants:
        count = variant.instance_count
        for instance_type in variant.instance_types:
            wanted[instance_type] += deployment.surge(count) if deployment else count
    return dict(wanted)


def retyped(serving: Sequence[ServingVariant], variants: Iterable[Variant]) -> list[str]:
    """Return the variants that an update removes or gives other instance types."""
    new = {variant.name: set(variant.instance_types) for variant in variants}
    return [one.name for one in serving if new.get(one.name) != {name for name, _ in one.instances}]


def _checked(deployment: Deployment, member: str, variants: Iterable[Variant]) -> Deployment:
    step = deployment.step
    if step is None:
        return deployment
    for variant in variants:
        count = variant.instance_count
        share = step["Value"] / 100 if step["Type"] == "CAPACITY_PERCENT" else step["Value"] / count
        if share > _LARGEST_STEP:
            raise DeploymentError(
                f"{member} must be at most 50% of the {count} instances of variant {variant.name}."
            )
    return deployment
