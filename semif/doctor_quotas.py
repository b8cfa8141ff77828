"""Instance quotas against what all endpoints of an environment need together. Pure.

An endpoint that is there needs as many further instances as its way of updating starts beside the old ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from semif.assembly import EndpointPlan, EnvironmentPlan
from semif.doctor_facts import EndpointState, Facts, Quota, StackState
from semif.findings import Finding, Level, Unknown

LARGEST_BATCH = 0.5  # of a fleet: what SageMaker allows a rolling update at once


@dataclass(frozen=True)
class Need:
    """What one endpoint asks for: `share` of a fleet in further instances; `freed` go back before that."""

    endpoint: EndpointPlan
    share: float
    update: bool = False
    freed: Mapping[str, int] = field(default_factory=dict)

    def count(self, instance_type: str) -> int:
        """Further instances, if they are of this type."""
        return math.ceil(self.endpoint.instances(instance_type) * self.share)


def check_quotas(plan: EnvironmentPlan, facts: Facts) -> list[Finding]:
    """One finding per type, and one per endpoint that finds no place."""
    if isinstance(facts.quotas, Unknown):
        return []
    in_use = {} if isinstance(facts.in_use, Unknown) else facts.in_use
    needs = [_need(endpoint, facts) for endpoint in plan.endpoints]
    types = dict.fromkeys(t for need in needs for t in need.endpoint.types)
    return [
        *(_type_finding(t, needs, facts.quotas.get(t), in_use.get(t, 0), plan.region) for t in types),
        *_left_out(plan),
        *_places(needs, facts.quotas, in_use, plan.region),
    ]


def _need(endpoint: EndpointPlan, facts: Facts) -> Need:
    state = facts.endpoints.get(endpoint.key)
    stack = None if isinstance(facts.stacks, Unknown) else facts.stacks.get(endpoint.stack)
    if not isinstance(state, EndpointState) or not _is_own(state, stack):
        return Need(endpoint, 1)
    if stack is not None and stack.new_fleet is False:
        return Need(endpoint, 0, update=True)
    if endpoint.update == "recreate":
        return Need(endpoint, 1, update=True, freed=state.fleet)
    return Need(endpoint, LARGEST_BATCH if endpoint.update == "rolling" else 1, update=True)


def _is_own(state: EndpointState, stack: StackState | None) -> bool:
    return stack is not None and state.stack_id == stack.id


def _type_finding(
    instance_type: str, needs: list[Need], quota: Quota | None, in_use: int, region: str
) -> Finding:
    wanted = [need for need in needs if instance_type in need.endpoint.types]
    count = sum(need.count(instance_type) for need in wanted)
    skipped = f"{instance_type} skipped"
    if quota is None:
        return Finding(
            Level.WARNING,
            skipped,
            f"{region} offers no {instance_type} for endpoints (Service Quotas does not list it)",
            "take it out of the pool, or deploy to another region",
        )
    fact = f'quota "{quota.name}" is {quota.value:g}'
    if quota.value < 1:
        return Finding(Level.WARNING, skipped, fact, *_ask(quota, max(1, count), region))
    fact += f", {in_use} in use, {_by_endpoint(wanted, instance_type)}"
    freed = sum(need.freed.get(instance_type, 0) for need in wanted)
    if quota.value - in_use + freed < count:
        return Finding(
            Level.WARNING, instance_type, f"{fact}: too few for all", *_ask(quota, in_use + count, region)
        )
    return Finding(Level.OK, instance_type, fact)


def _by_endpoint(wanted: list[Need], instance_type: str) -> str:
    counts = [(need, need.count(instance_type)) for need in wanted]
    each = ", ".join(
        f"{need.endpoint.name} {count}{' more to update' if need.update and count else ''}"
        for need, count in counts
    )
    return f"{sum(count for _, count in counts)} needed ({each})"


def _ask(quota: Quota, value: int, region: str) -> tuple[str, str]:
    return (
        f"Ask for {value}",
        "aws service-quotas request-service-quota-increase --service-code sagemaker"
        f" --quota-code {quota.code} --desired-value {value} --region {region}",
    )


def _left_out(plan: EnvironmentPlan) -> list[Finding]:
    return [
        Finding(Level.NOTE, f"{instance_type} left out of {endpoint.name}", reason)
        for endpoint in plan.endpoints
        for instance_type, reason in endpoint.left_out.items()
    ]


def _places(
    needs: list[Need], quotas: Mapping[str, Quota], in_use: Mapping[str, int], region: str
) -> list[Finding]:
    """Give each endpoint the first type that has room, as the walks will; an error where none has."""
    findings = []
    used = dict(in_use)
    for need in needs:
        types = need.endpoint.types if need.share else ()
        left = {
            t: quotas[t].value - used.get(t, 0) + need.freed.get(t, 0) if t in quotas else None for t in types
        }
        place = next((t for t, room in left.items() if room is not None and room >= need.count(t)), None)
        if place is not None:
            used[place] = used.get(place, 0) + need.count(place) - need.freed.get(place, 0)
        elif types:
            findings.append(_no_place(need, left, quotas, region))
    return findings


def _no_place(
    need: Need, left: Mapping[str, float | None], quotas: Mapping[str, Quota], region: str
) -> Finding:
    each = "; ".join(
        f"{t}: not offered" if room is None else f"{t}: quota {quotas[t].value:g}, {max(0, room):g} left"
        for t, room in left.items()
    )
    beside = need.update and not need.freed
    count = need.count(need.endpoint.types[0])
    many = f"{count} {'further ' if beside else ''}instance{'s' if count > 1 else ''}"
    serving = " beside those that serve during the update" if beside else ""
    fact = f"no type of its pool has room for {many}{serving} ({each})"
    best = next(((t, room) for t, room in left.items() if room is not None), None)
    if best is None:
        return Finding(
            Level.ERROR, need.endpoint.name, fact, "put a type that the region offers into its pool"
        )
    quota = quotas[best[0]]
    step, command = _ask(quota, math.ceil(quota.value - best[1] + need.count(best[0])), region)
    if beside:
        step = f'Set "update": "recreate" (with downtime), or a{step[1:]}'
    return Finding(Level.ERROR, need.endpoint.name, fact, step, command)
