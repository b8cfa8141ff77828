"""The climb: from what serves back to an instance type that the pool prefers. Pure.

One climb is one request. It tries what stands before the serving types in the pool: the rounds before, then
the first types of the serving round. Whatever fails, what serves goes on serving. As in the walk, all memory
lies in the tags of the configurations that this request made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from instance_pool.attempts import Outcome
from instance_pool.course import current, skip_texts, told
from instance_pool.failures import ADVICE, Cause, classify_failure_reason
from instance_pool.observation import Configuration, Endpoint, EndpointStatus, Observation, Ownership
from instance_pool.pool import Pool
from instance_pool.preflight import Skip, preflight, refusal
from instance_pool.steps import DeleteConfigurations, Done, Fail, ReadLimits, Record, Start, Step, Wait
from instance_pool.walk import serving_types, time_for_another, unrecorded_rollback

NOTHING_BETTER: Final = "the endpoint serves the preferred type already"
_LATER: Final = "Run the climb again when that has ended."
_AGAIN: Final = "The endpoint serves on as it was; run the climb again later."


@dataclass(frozen=True)
class Readiness:
    """What stands against an update now; the instances are those of the serving variant."""

    stack_status: str
    alarms: tuple[str, ...] = ()  # those in state ALARM
    scaling_under_way: bool = False
    current_instances: int = 0
    desired_instances: int = 0


@dataclass(frozen=True)
class Target:
    """Types of the round at `index` that are preferred to what serves."""

    index: int
    types: tuple[str, ...]


def decide_climb(observation: Observation, pool: Pool, read: Callable[[], Readiness]) -> Step:
    """The next step of a climb. `read` is called once at most, and only where an update could begin."""
    endpoint = observation.endpoint
    if endpoint is None or endpoint.ownership is not Ownership.OURS:
        return _without_endpoint(pool, endpoint)
    if endpoint.status is EndpointStatus.IN_SERVICE:
        return _in_service(observation, pool, endpoint, read)
    return _not_in_service(endpoint, pool, current(observation, pool))


def targets_above(pool: Pool, index: int, serving: Sequence[str]) -> list[Target]:
    """What the pool prefers to the types that serve out of its round at `index`, best first."""
    types = pool.rounds[index].types
    # A mixed fleet is as good as its worst instance.
    worst = max((types.index(t) if t in types else len(types) for t in serving), default=len(types))
    before = [Target(number, pool.rounds[number].types) for number in range(index)]
    return [*before, Target(index, types[:worst])] if worst else before


def blocked(readiness: Readiness) -> Fail | None:
    """Why no update may begin now."""
    if readiness.stack_status.endswith("_IN_PROGRESS"):
        return Fail("stack_in_progress", f"The stack is {readiness.stack_status}.", _LATER)
    if readiness.alarms:
        what = f"In state ALARM: {', '.join(readiness.alarms)}."
        return Fail("alarm_active", what, "Mend what the alarm says, then run the climb again.")
    if readiness.scaling_under_way:
        return Fail("scaling_under_way", "The variant is being scaled.", _LATER)
    if readiness.current_instances != readiness.desired_instances:
        figures = f"{readiness.current_instances} of {readiness.desired_instances} instances"
        return Fail("scaling_under_way", f"The variant has {figures}.", _LATER)
    return None


def _without_endpoint(pool: Pool, endpoint: Endpoint | None) -> Fail:
    if endpoint is None:
        reason = f"There is no endpoint {pool.endpoint_name}."
        return Fail("endpoint_not_in_service", reason, "Deploy the environment.")
    reason = f"The endpoint {pool.endpoint_name} does not carry this stack's tag semif:stack-id."
    return Fail("endpoint_not_ours", reason, "Deploy the environment again.")


def _not_in_service(endpoint: Endpoint, pool: Pool, mine: Sequence[Configuration]) -> Step:
    under_way = next((c for c in mine if c.attempt.outcome is None), None)
    if under_way is None:
        if failed := _failed(pool, mine):
            return failed
        return Fail("endpoint_not_in_service", f"The endpoint is {endpoint.status.value}.", _LATER)
    if not endpoint.status.settled:
        return Wait(f"the endpoint is {endpoint.status.value}")
    reason = endpoint.failure_reason or "SageMaker gave no reason."
    return Record(under_way.name, Outcome.FAILED, f"The endpoint is {endpoint.status.value}: {reason}")


def _in_service(
    observation: Observation, pool: Pool, endpoint: Endpoint, read: Callable[[], Readiness]
) -> Step:
    mine = current(observation, pool)
    index = pool.index_of(endpoint.configuration_name)
    if index is None:
        reason = f"The endpoint serves {endpoint.configuration_name}, which is not of the climb's pool."
        return Fail("pool_changed", reason, "Wait until the deployment has ended, then run the climb again.")
    types = serving_types(observation, pool, endpoint, index)
    if serving := next((c for c in mine if c.name == endpoint.configuration_name), None):
        return _climbed(observation, pool, serving, index)
    if (step := unrecorded_rollback(observation, mine, pool) or _failed(pool, mine)) is not None:
        return step
    targets = targets_above(pool, index, types)
    if not targets:
        tidying = _tidying(observation, endpoint, mine)
        return tidying if tidying and blocked(read()) is None else Done(index, "", NOTHING_BETTER)
    return _next(observation, pool, targets, read)


def _climbed(observation: Observation, pool: Pool, serving: Configuration, index: int) -> Step:
    if serving.attempt.outcome is not Outcome.IN_SERVICE:
        return Record(serving.name, Outcome.IN_SERVICE, "")
    mine = current(observation, pool)
    # The tries before stay until the next operation: a repeated call of this climb has to find them.
    old = tuple(c.name for c in observation.configurations if c not in mine)
    if old:
        return DeleteConfigurations(old, "the preferred type serves, so what served before can go")
    types = observation.endpoint.serving_types if observation.endpoint is not None else ()
    return Done(index, told(pool, mine, serving=types), "the climb ended on a preferred type")


def _tidying(
    observation: Observation, endpoint: Endpoint, mine: Sequence[Configuration]
) -> Record | DeleteConfigurations | None:
    """What a climb left to do that nobody asked on until its end."""
    serving = observation.configuration(endpoint.configuration_name)
    if serving is not None and serving.attempt.outcome is not Outcome.IN_SERVICE:
        return Record(serving.name, Outcome.IN_SERVICE, "")
    old = tuple(c.name for c in observation.configurations if c is not serving and c not in mine)
    return DeleteConfigurations(old, "the preferred type serves, so the others can go") if old else None


def _failed(pool: Pool, mine: Sequence[Configuration]) -> Fail | None:
    """The end of a climb whose attempt failed by something that another type would not mend."""
    failed = next((c.attempt for c in mine if c.attempt.outcome is Outcome.FAILED), None)
    if failed is None:
        return None
    cause = classify_failure_reason(failed.reason)
    reason = f"{', '.join(failed.types)}: {failed.reason}"
    return Fail(cause.value, reason, f"{ADVICE[cause]} The endpoint serves on as it was.", told(pool, mine))


def _next(
    observation: Observation, pool: Pool, targets: Sequence[Target], read: Callable[[], Readiness]
) -> Step:
    """Begin the best that this climb has not tried; the checks come before anything is touched."""
    mine = current(observation, pool)
    if mine and not time_for_another(observation, pool):
        return _exhausted(pool, mine, {}, "There is no time left for another try.")
    readiness = read()
    if stop := blocked(readiness):
        return stop
    begun = next((c for c in mine if c.attempt.outcome is None), None)
    if begun is not None:
        index = pool.index_of(begun.name) or 0
        return Start(begun.name, index, begun.attempt.types, "update", "the update was not accepted yet")
    if not observation.survey.read:
        return ReadLimits("the types to climb to are to be chosen")
    return _best(observation, pool, targets, readiness)


def _best(observation: Observation, pool: Pool, targets: Sequence[Target], readiness: Readiness) -> Step:
    mine = current(observation, pool)
    skips: dict[str, Skip] = {}
    for target in targets:
        found = _skips(observation, pool, target, readiness)
        skips |= found
        out = {*found, *(c.attempt.dropped for c in mine)}
        types = tuple(t for t in target.types if t not in out)
        if not types or _tried(pool, target, mine):
            continue
        serving = observation.endpoint.configuration_name if observation.endpoint is not None else ""
        old = tuple(c.name for c in observation.configurations if c not in mine and c.name != serving)
        if old:
            return DeleteConfigurations(old, "earlier operations left them")
        name = pool.attempt_name(target.index, types, observation.request_id)
        why = "the pool prefers them to what serves"
        return Start(name, target.index, types, "update", why, skip_texts(skips.values()))
    return _exhausted(pool, mine, skips, "")


def _skips(observation: Observation, pool: Pool, target: Target, readiness: Readiness) -> dict[str, Skip]:
    survey = observation.survey
    refused = {
        name: Skip(name, "no instance type that SageMaker knows in this region")
        for name in target.types
        if name in survey.refused
    }
    return refused | preflight(
        [name for name in target.types if name not in refused],
        survey.limits,
        # An update of a scaled variant keeps the number of instances that it has been scaled to.
        needed=max(pool.rounds[target.index].initial_instance_count, readiness.desired_instances),
        creating=False,
        # A climb never takes away what serves, so it needs the surge even where updates recreate.
        update="all-at-once" if pool.update.type == "recreate" else pool.update.type,
        batch_percent=pool.update.batch_percent,
    )


def _tried(pool: Pool, target: Target, mine: Sequence[Configuration]) -> bool:
    """Whether this round was tried: a quota refusal that names a type leaves the others to try."""
    attempts = [c.attempt for c in mine if pool.index_of(c.name) == target.index]
    return any(a.dropped not in a.types for a in attempts)


def _exhausted(pool: Pool, mine: Sequence[Configuration], skips: dict[str, Skip], why: str) -> Fail:
    """Nothing preferred can be had: by capacity if any try failed by that, else by the quotas."""
    attempts = told(pool, mine, skipped=skips.values(), with_reasons=True)
    if any(c.attempt.outcome is Outcome.CAPACITY for c in mine):
        reason = f"No preferred type can be had now. {why}".strip()
        return Fail(Cause.CAPACITY.value, reason, _AGAIN, attempts)
    if mine:
        reason = f"{mine[-1].attempt.reason} {why}".strip()
        return Fail(Cause.QUOTA.value, reason, ADVICE[Cause.QUOTA], attempts)
    if any(skip.command for skip in skips.values()):
        return Fail(Cause.QUOTA.value, *refusal(skips))
    reason = f"{', '.join(skips)}: not offered in this region."
    return Fail(Cause.UNKNOWN_TYPE.value, reason, ADVICE[Cause.UNKNOWN_TYPE])
