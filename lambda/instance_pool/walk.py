"""The walk: from what is known, the one next step and its reason. Pure; holds no state between decisions.

The position comes from SageMaker alone: the endpoint's status and configuration, and the tags of the
configurations that this operation made. So a poll that is lost, repeated or cut off decides nothing.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal, assert_never

from instance_pool.attempts import Attempt, Outcome, attempts_text
from instance_pool.failures import ADVICE, Cause, classify_failure_reason
from instance_pool.observation import Configuration, Endpoint, EndpointStatus, Observation, Ownership
from instance_pool.properties import Pool
from instance_pool.steps import (
    DeleteConfigurations,
    DeleteEndpoint,
    Done,
    Fail,
    Gone,
    Record,
    Start,
    Step,
    Wait,
)

WALK_LIMIT: Final = timedelta(minutes=52)
"""The Provider gives up after 55 minutes without a word about the attempts, so the walk fails before."""
SETTLE_TIME: Final = timedelta(seconds=5)
"""How long after an accepted update an answer may still show the endpoint as it was before."""
TAG_TIME: Final = timedelta(seconds=60)
"""How long after its creation an endpoint's tags may still be missing from the answers."""


_RECREATE: Final = "Delete the endpoint (aws sagemaker delete-endpoint), then deploy again: it is made anew."


def decide(observation: Observation, pool: Pool) -> Step:
    """The next step of a Create or Update towards the endpoint in service on a type of `pool`."""
    endpoint = observation.endpoint
    if endpoint is None:
        return _start(observation, pool, "create")
    if stranger := _not_ours(observation, endpoint, pool.endpoint_name):
        return stranger
    match endpoint.status:
        case (
            EndpointStatus.CREATING
            | EndpointStatus.DELETING
            | EndpointStatus.UPDATING
            | EndpointStatus.SYSTEM_UPDATING
            | EndpointStatus.ROLLING_BACK
            | EndpointStatus.UNKNOWN
        ):
            return _too_late(observation, pool) or Wait(f"the endpoint is {endpoint.status.value}")
        case EndpointStatus.IN_SERVICE:
            return _in_service(observation, pool, endpoint)
        case EndpointStatus.FAILED:
            return _failed(observation, pool, endpoint)
        case EndpointStatus.UPDATE_ROLLBACK_FAILED | EndpointStatus.OUT_OF_SERVICE:
            return Fail(
                "endpoint_not_updatable",
                f"The endpoint is {endpoint.status.value}, which nothing but a new one mends: "
                f"{endpoint.failure_reason or 'SageMaker gave no reason.'}",
                _RECREATE,
                attempts_so_far(observation, pool),
            )
        case _:
            assert_never(endpoint.status)


def decide_deletion(observation: Observation, endpoint_name: str) -> Step:
    """The next step of a Delete: the endpoint if it is ours, then every configuration of ours."""
    endpoint = observation.endpoint
    if endpoint is None:
        return _sweep(observation, in_use=None) or Gone(
            "no endpoint and no configuration of this stack is left"
        )
    match endpoint.status:
        case (
            EndpointStatus.CREATING
            | EndpointStatus.UPDATING
            | EndpointStatus.SYSTEM_UPDATING
            | EndpointStatus.ROLLING_BACK
            | EndpointStatus.DELETING
            | EndpointStatus.UNKNOWN
        ):
            if endpoint.ownership is not Ownership.FOREIGN:
                return Wait(f"the endpoint is {endpoint.status.value} and cannot be deleted yet")
        case (
            EndpointStatus.IN_SERVICE
            | EndpointStatus.FAILED
            | EndpointStatus.OUT_OF_SERVICE
            | EndpointStatus.UPDATE_ROLLBACK_FAILED
        ):
            if endpoint.ownership is Ownership.OURS:
                return DeleteEndpoint("the stack no longer wants it")
        case _:
            assert_never(endpoint.status)
    if endpoint.ownership is Ownership.UNTAGGED and (
        stranger := _not_ours(observation, endpoint, endpoint_name)
    ):
        return stranger
    return _sweep(observation, in_use=endpoint.configuration_name) or Gone(
        "the endpoint of this name does not carry this stack's tag and stays"
    )


def _not_ours(observation: Observation, endpoint: Endpoint, endpoint_name: str) -> Step | None:
    match endpoint.ownership:
        case Ownership.OURS:
            return None
        case _ if endpoint.status is EndpointStatus.DELETING:
            return Wait("an endpoint of this name is being deleted")
        case Ownership.UNTAGGED if observation.now - endpoint.created_at < TAG_TIME:
            return Wait("the endpoint's tags cannot be seen yet")
        case Ownership.UNTAGGED | Ownership.FOREIGN:
            return Fail(
                "endpoint_not_ours",
                f"The endpoint {endpoint_name} exists and does not carry this stack's tag semif:stack-id.",
                "Delete that endpoint, or choose another endpoint name in cdk.json.",
            )
        case _:
            assert_never(endpoint.ownership)


def _in_service(observation: Observation, pool: Pool, endpoint: Endpoint) -> Step:
    index = pool.index_of(endpoint.configuration_name)
    if index is not None:
        return _serves_wanted(observation, pool, endpoint, index)
    # It serves something else. An attempt that began and has no outcome was rolled back: SageMaker goes back
    # to the old configuration, with the reason or, silently, without one.
    for tried, configuration in _current(observation, pool).items():
        attempt = configuration.attempt
        if attempt.outcome is None and attempt.started_at is not None:
            if observation.now - attempt.started_at < SETTLE_TIME:
                return Wait("the update was accepted and does not show yet")
            return Record(tried, *_outcome_of(endpoint.failure_reason, "The update was rolled back"))
    return _start(observation, pool, "update")


def _serves_wanted(observation: Observation, pool: Pool, endpoint: Endpoint, index: int) -> Step:
    serving = observation.configuration(endpoint.configuration_name)
    if serving is not None and serving.attempt.outcome is not Outcome.IN_SERVICE:
        return Record(index, Outcome.IN_SERVICE, "")
    # A reason that an earlier, failed update left on the endpoint says nothing about what serves now.
    outdated = tuple(c.name for c in observation.configurations if pool.index_of(c.name) is None)
    if outdated:
        return DeleteConfigurations(outdated, "the new configuration serves, so the old ones can go")
    served_by = serving.attempt.request_id if serving is not None else observation.request_id
    attempts = attempts_text(_listed(_of_request(observation, pool, served_by), pool))
    attempts = attempts or f"{pool.instance_types[index]}: in service"
    return Done(index, attempts, f"the endpoint serves the wanted pool on {pool.instance_types[index]}")


def _failed(observation: Observation, pool: Pool, endpoint: Endpoint) -> Step:
    current = _current(observation, pool)
    index = pool.index_of(endpoint.configuration_name)
    if index is None or index not in current:
        return DeleteEndpoint(
            "an earlier operation left the endpoint Failed, and Failed allows nothing but that"
        )
    match current[index].attempt.outcome:
        case None | Outcome.IN_SERVICE:
            return Record(index, *_outcome_of(endpoint.failure_reason, "The endpoint failed"))
        case Outcome.CAPACITY | Outcome.QUOTA | Outcome.FAILED:
            return _stop(observation, pool) or DeleteEndpoint(
                f"{pool.instance_types[index]} cannot be had; the name must be free again"
            )
        case _:
            assert_never(current[index].attempt.outcome)


def _start(observation: Observation, pool: Pool, how: Literal["create", "update"]) -> Step:
    current = _current(observation, pool)
    stale = tuple(
        c.name
        for c in observation.configurations
        if pool.index_of(c.name) is not None and c.attempt.request_id != observation.request_id
    )
    if stale:
        return DeleteConfigurations(stale, "an earlier operation left them; this one begins afresh")
    if stop := _stop(observation, pool) or _too_late(observation, pool):
        return stop
    index = _next_index(current, pool)
    if index is None:
        raise AssertionError("bug: an exhausted pool must have stopped the walk")
    before = current.get(index - 1)
    reason = (
        f"{pool.instance_types[index - 1]} ended with {before.attempt.outcome}; next of the pool"
        if before is not None
        else "first of the pool"
    )
    return Start(index, how, reason)


def _stop(observation: Observation, pool: Pool) -> Fail | None:
    """The failure that this operation's attempts amount to, if they do."""
    current = _current(observation, pool)
    for index, configuration in current.items():
        if configuration.attempt.outcome is Outcome.FAILED:
            cause = classify_failure_reason(configuration.attempt.reason)
            reason = f"{pool.instance_types[index]}: {configuration.attempt.reason}"
            return Fail(cause.value, reason, ADVICE[cause], attempts_so_far(observation, pool))
    if _next_index(current, pool) is not None:
        return None
    without_quota = {c.attempt.outcome for c in current.values()} == {Outcome.QUOTA}
    return Fail(
        "pool_exhausted",
        "No instance type of the pool can be had.",
        ADVICE[Cause.QUOTA if without_quota else Cause.CAPACITY],
        attempts_text(_listed(current, pool), with_reasons=True),
    )


def _too_late(observation: Observation, pool: Pool) -> Fail | None:
    began = min((c.created_at for c in _current(observation, pool).values()), default=observation.now)
    if observation.now - began < WALK_LIMIT:
        return None
    return Fail(
        "walk_timed_out",
        f"The pool's walk has taken more than {WALK_LIMIT.seconds // 60} minutes.",
        "Shorten the pool in cdk.json, or put the types that can be had first, and deploy again.",
        attempts_so_far(observation, pool),
    )


def _sweep(observation: Observation, in_use: str | None) -> DeleteConfigurations | None:
    names = tuple(c.name for c in observation.configurations if c.name != in_use)
    return DeleteConfigurations(names, "nothing uses these configurations of this stack") if names else None


def _outcome_of(failure_reason: str, what: str) -> tuple[Outcome, str]:
    if not failure_reason:
        return Outcome.FAILED, f"{what} and SageMaker gave no reason."
    match classify_failure_reason(failure_reason):
        case Cause.CAPACITY:
            return Outcome.CAPACITY, failure_reason
        case Cause.QUOTA:
            return Outcome.QUOTA, failure_reason
        case _:
            return Outcome.FAILED, failure_reason


def _current(observation: Observation, pool: Pool) -> Mapping[int, Configuration]:
    return _of_request(observation, pool, observation.request_id)


def _of_request(observation: Observation, pool: Pool, request_id: str) -> Mapping[int, Configuration]:
    """One operation's configurations by their place in the pool, in order."""
    found = {
        index: configuration
        for configuration in observation.configurations
        if configuration.attempt.request_id == request_id
        and (index := pool.index_of(configuration.name)) is not None
    }
    return dict(sorted(found.items()))


def _next_index(current: Mapping[int, Configuration], pool: Pool) -> int | None:
    for index in range(len(pool.instance_types)):
        configuration = current.get(index)
        outcome = configuration.attempt.outcome if configuration is not None else None
        if outcome is None or not outcome.moves_on:
            return index
    return None


def _listed(configurations: Mapping[int, Configuration], pool: Pool) -> list[tuple[str, Attempt]]:
    return [(pool.instance_types[index], item.attempt) for index, item in configurations.items()]


def attempts_so_far(observation: Observation, pool: Pool) -> str:
    """What this operation has tried, in words."""
    return attempts_text(_listed(_current(observation, pool), pool))
