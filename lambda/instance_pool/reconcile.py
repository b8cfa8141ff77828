"""Observe, decide, act: again within one poll while steps are instantaneous, then answer."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final, assert_never

from instance_pool.attempts import STACK_ID, Outcome, ended_tags, first_tags, started_tags, tag_value
from instance_pool.failures import ADVICE, Cause, shortened
from instance_pool.observation import Observation
from instance_pool.properties import Operation, Pool
from instance_pool.sagemaker_api import ApiError, SageMakerApi
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
from instance_pool.walk import attempts_so_far, decide, decide_deletion

POLL_TIME_S: Final = 30.0
"""No step begins later than this after the poll did: the function's own time-out would be a final failure."""
DENIAL_PAUSE_S: Final = 5.0
"""Between two tries of a denied call, as long as the poll lasts: the role's policy may be seconds old."""
CONSISTENCY_TIME: Final = timedelta(minutes=2)
"""How long a new configuration or role may be unknown to the call that uses it."""

Log = Callable[[Mapping[str, object]], None]


class InstancePoolError(Exception):
    """The one exception that ends an operation: code, cause, attempts, and what to do."""

    def __init__(self, failure: Fail) -> None:
        attempts = f" Attempts: {failure.attempts}." if failure.attempts else ""
        super().__init__(f"{failure.code}: {shortened(failure.reason)}{attempts} Next: {failure.advice}")


@dataclass(frozen=True)
class Pending:
    """Not finished: CloudFormation's Provider polls again."""


@dataclass(frozen=True)
class Complete:
    """Finished, with what the resource's attributes answer."""

    data: Mapping[str, str]


def reconcile(operation: Operation, api: SageMakerApi, log: Log) -> Pending | Complete:
    """Bring an operation as far as it goes now. Raises InstancePoolError for a final failure only."""
    deadline = time.monotonic() + POLL_TIME_S
    while time.monotonic() < deadline:
        try:
            observation = api.observe(operation.endpoint_name, operation.stack_id, operation.request_id)
            step = _decide(operation, observation)
            log({"step": type(step).__name__, **asdict(step)})
            answer = _act(operation, observation, step, api)
        except ApiError as error:
            log({"step": "Refused", "operation": error.operation, "cause": error.cause, "reason": str(error)})
            if error.cause is Cause.ACCESS_DENIED and time.monotonic() + DENIAL_PAUSE_S < deadline:
                time.sleep(DENIAL_PAUSE_S)
                continue
            answer = _after_refusal(error)
        if answer is not None:
            return answer
    return Pending()


def _decide(operation: Operation, observation: Observation) -> Step:
    if operation.pool is None:
        return decide_deletion(observation, operation.endpoint_name)
    return decide(observation, operation.pool)


def _after_refusal(error: ApiError) -> Pending:
    """Refusals that only say that the observation was old decide nothing: the next poll observes again."""
    if error.cause in {
        Cause.TRANSIENT,
        Cause.IN_PROGRESS,
        Cause.ALREADY_CURRENT,
        Cause.ALREADY_EXISTS,
        Cause.NOT_FOUND,
    }:
        return Pending()
    raise InstancePoolError(Fail(error.cause.value, str(error), ADVICE[error.cause])) from error


def _act(
    operation: Operation, observation: Observation, step: Step, api: SageMakerApi
) -> Pending | Complete | None:
    """Carry a step out. None means that it took no time and the next can be decided at once."""
    match step:
        case Wait():
            return Pending()
        case Start():
            return _start(operation, observation, step, api)
        case Record():
            _record(_wanted(operation), observation, step, api)
        case DeleteEndpoint():
            api.delete_endpoint(operation.endpoint_name)
            return Pending()
        case DeleteConfigurations(names):
            for name in names:
                api.delete_configuration(name)
        case Done():
            return Complete(_attributes(_wanted(operation), observation, step))
        case Gone():
            return Complete({})
        case Fail():
            raise InstancePoolError(step)
        case _:
            assert_never(step)
    return None


def _start(operation: Operation, observation: Observation, step: Start, api: SageMakerApi) -> Pending | None:
    pool = _wanted(operation)
    configuration = observation.configuration(pool.configuration_name(step.index))
    if configuration is None:
        return _make_configuration(operation, observation, step.index, api)
    try:
        if step.how == "create":
            api.create_endpoint(pool, step.index, {STACK_ID: tag_value(operation.stack_id)})
        else:
            api.update_endpoint(pool, step.index)
    except ApiError as error:
        if error.cause in {
            Cause.TRANSIENT,
            Cause.ACCESS_DENIED,
            Cause.IN_PROGRESS,
            Cause.ALREADY_CURRENT,
            Cause.ALREADY_EXISTS,
        }:
            raise
        unknown_yet = error.cause in {Cause.NOT_FOUND, Cause.ROLE_NOT_READY}
        if unknown_yet and observation.now - configuration.created_at < CONSISTENCY_TIME:
            return Pending()
        outcome = Outcome.QUOTA if error.cause is Cause.QUOTA else Outcome.FAILED
        reason = f"{error.code}: {error.message}"
        api.add_tags(configuration.arn, ended_tags(outcome, reason, api.now()))
        return None
    api.add_tags(configuration.arn, started_tags(api.now()))
    return Pending()


def _make_configuration(
    operation: Operation, observation: Observation, index: int, api: SageMakerApi
) -> Pending | None:
    pool = _wanted(operation)
    name = pool.configuration_name(index)
    tags = first_tags(
        stack_id=operation.stack_id,
        endpoint_name=pool.endpoint_name,
        instance_types=pool.instance_types,
        index=index,
        request_id=operation.request_id,
    )
    try:
        api.create_configuration(pool, index, tags)
    except ApiError as error:
        if error.cause in {Cause.TRANSIENT, Cause.ACCESS_DENIED}:
            raise
        if error.cause is Cause.ALREADY_EXISTS:
            if api.owns_configuration(name, operation.stack_id):
                return Pending()  # made by a call whose answer was lost; the listing will show it
            reason = f"The endpoint configuration {name} exists without this stack's tag {STACK_ID}."
            raise InstancePoolError(Fail("configuration_not_ours", reason, ADVICE[error.cause])) from error
        # A refused configuration leaves nothing that could be tagged, so the failure itself says it all.
        reason = f"{pool.instance_types[index]}: {error}"
        if error.cause is Cause.UNKNOWN_TYPE:
            reason = f"{pool.instance_types[index]} is no instance type that SageMaker knows in this region."
        told = attempts_so_far(observation, pool)
        raise InstancePoolError(Fail(error.cause.value, reason, ADVICE[error.cause], told)) from error
    # The walk remembers by this configuration's tags: see it with them before an endpoint depends on it.
    return None


def _record(pool: Pool, observation: Observation, step: Record, api: SageMakerApi) -> None:
    configuration = observation.configuration(pool.configuration_name(step.index))
    if configuration is None:
        raise AssertionError("bug: an outcome belongs to a configuration that was observed")
    api.add_tags(configuration.arn, ended_tags(step.outcome, step.reason, observation.now))


def _attributes(pool: Pool, observation: Observation, step: Done) -> Mapping[str, str]:
    if observation.endpoint is None:
        raise AssertionError("bug: a walk is done only where an endpoint serves")
    return {
        "EndpointName": pool.endpoint_name,
        "EndpointArn": observation.endpoint.arn,
        "InstanceType": pool.instance_types[step.index],
        "Attempts": step.attempts,
    }


def _wanted(operation: Operation) -> Pool:
    if operation.pool is None:
        raise AssertionError("bug: a deletion has no pool to work on")
    return operation.pool
