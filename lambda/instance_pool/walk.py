"""The walk: from what is known, the one next step and its reason. Pure; holds no state between decisions.

The position comes from SageMaker alone: the endpoint's status and configuration, and the tags of the
configurations that this operation made. So a poll that is lost, repeated or cut off decides nothing.
"""

from datetime import datetime, timedelta
from typing import Final, Literal, assert_never

from instance_pool.attempts import OWN_TAGS, Outcome
from instance_pool.course import (
    Exhausted,
    Leg,
    attempts_of,
    current,
    next_leg,
    over,
    settled_outcome,
    skip_texts,
    stop,
    told,
)
from instance_pool.observation import Configuration, Endpoint, EndpointStatus, Observation, Ownership
from instance_pool.pool import Pool
from instance_pool.scaling import record_keys
from instance_pool.steps import (
    DeleteConfigurations,
    DeleteEndpoint,
    Done,
    Fail,
    Gone,
    ReadLimits,
    Record,
    RestoreScaling,
    Start,
    Step,
    Tag,
    Wait,
)

BUDGET: Final = timedelta(seconds=3000)
"""The Provider gives up after 55 minutes without a word about the attempts, so the walk fails before."""
MARGIN: Final = timedelta(seconds=120)
"""What a round needs beside its download and start-up."""
SETTLE_TIME: Final = timedelta(seconds=5)
"""How long after an accepted update an answer may still show the endpoint as it was before."""
TAG_TIME: Final = timedelta(seconds=60)
"""How long after its creation an endpoint's tags may still be missing from the answers."""


_SHORTEN: Final = "Shorten the pool in cdk.json, or put the types that can be had first, and deploy again."
_RECREATE: Final = "Delete the endpoint (aws sagemaker delete-endpoint), then deploy again: it is made anew."


def decide(observation: Observation, pool: Pool) -> Step:
    """The next step of a Create or Update towards the endpoint in service on a type of `pool`."""
    step = _decide(observation, pool)
    return scaling_first(observation, step)


def scaling_first(observation: Observation, step: Step) -> Step:
    """`step`, or before it the restoring of a scaling that an update had to take away."""
    endpoint = observation.endpoint
    if endpoint is None or endpoint.status is not EndpointStatus.IN_SERVICE:
        return step
    if endpoint.ownership is not Ownership.OURS or not isinstance(step, Done | Fail | DeleteConfigurations):
        return step
    recorded = tuple(item.name for item in observation.configurations if record_keys(item.tags))
    return RestoreScaling(recorded, "no update is open, so the variant scales again") if recorded else step


def _decide(observation: Observation, pool: Pool) -> Step:
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
    if not endpoint.status.settled:
        if endpoint.ownership is not Ownership.FOREIGN:
            return _deletion_too_late(observation, endpoint) or Wait(
                f"the endpoint is {endpoint.status.value} and cannot be deleted yet"
            )
    elif endpoint.ownership is Ownership.OURS:
        return DeleteEndpoint("the stack no longer wants it")
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
    return unrecorded_rollback(observation, current(observation, pool), pool) or _start(
        observation, pool, "update"
    )


def unrecorded_rollback(
    observation: Observation, tried: tuple[Configuration, ...], pool: Pool
) -> Step | None:
    """What to do about an attempt that began, has no outcome and does not serve: it was rolled back.

    SageMaker goes back to the old configuration, with the reason or, silently, without one.
    """
    for configuration in tried:
        attempt = configuration.attempt
        if attempt.outcome is None and attempt.started_at is not None:
            if observation.now - attempt.started_at < SETTLE_TIME:
                return Wait("the update was accepted and does not show yet")
            return settled_outcome(observation, pool, configuration, "The update was rolled back")
    return None


def _serves_wanted(observation: Observation, pool: Pool, endpoint: Endpoint, index: int) -> Step:
    serving = observation.configuration(endpoint.configuration_name)
    if serving is not None and serving.attempt.outcome is not Outcome.IN_SERVICE:
        return Record(serving.name, Outcome.IN_SERVICE, "")
    # A reason that an earlier, failed update left on the endpoint says nothing about what serves now.
    served_by = serving.attempt.request_id if serving is not None else observation.request_id
    outdated = tuple(
        item.name
        for item in observation.configurations
        if item.name != endpoint.configuration_name
        and (item.attempt.request_id != served_by or pool.index_of(item.name) is None)
    )
    if outdated:
        return DeleteConfigurations(outdated, "the new configuration serves, so the old ones can go")
    if tag := _retag(observation, pool, endpoint):
        return tag
    types = serving_types(observation, pool, endpoint, index)
    attempts = told(pool, attempts_of(observation, pool, served_by), serving=types)
    if serving is None:
        attempts = f"{', '.join(types)}: in service"
    return Done(index, attempts, f"the endpoint serves the wanted pool on {', '.join(types)}")


def serving_types(observation: Observation, pool: Pool, endpoint: Endpoint, index: int) -> tuple[str, ...]:
    """The types that really serve, or those of the configuration where SageMaker does not say."""
    configuration = observation.configuration(endpoint.configuration_name)
    asked_for = configuration.attempt.types if configuration is not None else ()
    return endpoint.serving_types or asked_for or pool.rounds[index].types


def _retag(observation: Observation, pool: Pool, endpoint: Endpoint) -> Tag | None:
    wanted = dict(pool.tags)
    add = {key: value for key, value in wanted.items() if endpoint.tags.get(key) != value}
    remove = tuple(
        sorted(
            key
            for key in observation.old_tags
            if key in endpoint.tags and key not in wanted and not key.startswith((OWN_TAGS, "aws:"))
        )
    )
    return Tag(add, remove, "the tags changed") if add or remove else None


def _failed(observation: Observation, pool: Pool, endpoint: Endpoint) -> Step:
    tried = {item.name: item for item in current(observation, pool)}
    configuration = tried.get(endpoint.configuration_name)
    if configuration is None:
        return DeleteEndpoint(
            "an earlier operation left the endpoint Failed, and Failed allows nothing but that"
        )
    if configuration.attempt.outcome in {None, Outcome.IN_SERVICE}:
        return settled_outcome(observation, pool, configuration, "The endpoint failed")
    types = ", ".join(configuration.attempt.types)
    return (
        stop(observation, pool, Exhausted(()) if over(observation, pool) else None)
        or _too_late(observation, pool)
        or DeleteEndpoint(f"{types} cannot be had; the name must be free again")
    )


def _start(observation: Observation, pool: Pool, how: Literal["create", "update"]) -> Step:
    if early := _stale(observation, pool) or stop(observation, pool, None):
        return early
    leg = next_leg(observation, pool)
    if isinstance(leg, Leg) and leg.configuration is None and not observation.survey.read:
        return ReadLimits("the types of the next round are to be chosen")
    if isinstance(leg, Exhausted):
        return stop(observation, pool, leg) or _bug()
    if late := _too_late(observation, pool) or _no_time(observation, pool, leg, how):
        return late
    if how == "update" and pool.update.type == "recreate" and leg.configuration is not None:
        return DeleteEndpoint("the update recreates it: the old fleet makes room", leg.configuration_name)
    return Start(
        leg.configuration_name, leg.index, leg.types, how, _why(observation, pool), skip_texts(leg.skipped)
    )


def _stale(observation: Observation, pool: Pool) -> DeleteConfigurations | None:
    names = tuple(
        item.name
        for item in observation.configurations
        if pool.index_of(item.name) is not None
        and item.attempt.request_id != observation.request_id
        and not record_keys(item.tags)
    )
    reason = "an earlier operation left them; this one begins afresh"
    return DeleteConfigurations(names, reason) if names else None


def _bug() -> Step:
    raise AssertionError("bug: an exhausted pool must have stopped the walk")


def _why(observation: Observation, pool: Pool) -> str:
    before = [item.attempt for item in current(observation, pool) if item.attempt.outcome is not None]
    if not before:
        return "first of the pool"
    return f"{', '.join(before[-1].types)} ended with {before[-1].outcome}; next of the pool"


def began_at(observation: Observation, pool: Pool) -> datetime:
    """When the operation began: as on_event said, else its first configuration's creation."""
    if observation.started_at is not None:
        return observation.started_at
    return min((item.created_at for item in current(observation, pool)), default=observation.now)


def _too_late(observation: Observation, pool: Pool) -> Fail | None:
    if observation.now - began_at(observation, pool) < BUDGET:
        return None
    return Fail(
        "walk_timed_out",
        f"The pool's walk has taken more than {BUDGET.seconds // 60} minutes.",
        _SHORTEN,
        attempts_so_far(observation, pool),
    )


def time_needed(pool: Pool, how: str) -> timedelta:
    """What a round may take once its instances are found."""
    seconds = pool.download_timeout_s + pool.startup_timeout_s
    if how == "update":
        count = max(one.initial_instance_count for one in pool.rounds)
        seconds = seconds * pool.update.batches(count) + pool.update.waits_s(count)
    return timedelta(seconds=seconds) + MARGIN


def time_for_another(observation: Observation, pool: Pool, how: str = "update") -> bool:
    """Whether a round that begins now ends within the budget."""
    return time_needed(pool, how) <= began_at(observation, pool) + BUDGET - observation.now


def _no_time(observation: Observation, pool: Pool, leg: Leg, how: str) -> Fail | None:
    """The failure of a walk whose next round would not end in time. The first round is always tried."""
    begun = any(item.attempt.started_at is not None for item in current(observation, pool))
    if not begun or time_for_another(observation, pool, how):
        return None
    left = began_at(observation, pool) + BUDGET - observation.now
    return Fail(
        "walk_timed_out",
        f"{', '.join(leg.types)} is not started: download and start-up may take"
        f" {time_needed(pool, how).seconds} s, and {left.seconds} s are left of {BUDGET.seconds} s.",
        _SHORTEN,
        attempts_so_far(observation, pool),
    )


def _deletion_too_late(observation: Observation, endpoint: Endpoint) -> Fail | None:
    if observation.started_at is None or observation.now - observation.started_at < BUDGET:
        return None
    return Fail(
        "walk_timed_out",
        f"The endpoint has been {endpoint.status.value} for {BUDGET.seconds // 60} minutes, and SageMaker"
        " deletes none in that state.",
        "Delete the stack again.",
    )


def _sweep(observation: Observation, in_use: str | None) -> DeleteConfigurations | None:
    names = tuple(c.name for c in observation.configurations if c.name != in_use)
    return DeleteConfigurations(names, "nothing uses these configurations of this stack") if names else None


def attempts_so_far(observation: Observation, pool: Pool) -> str:
    """What this operation has tried, in words."""
    return told(pool, current(observation, pool))
