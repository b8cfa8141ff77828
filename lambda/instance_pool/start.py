"""Beginning an attempt: its configuration first, then the endpoint on it. Refusals become its outcome."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from instance_pool.answers import InstancePoolError, Pending
from instance_pool.apis import Apis, Log
from instance_pool.attempts import STACK_ID, Outcome, ended_tags, first_tags, started_tags, tag_value
from instance_pool.aws_call import ApiError
from instance_pool.failures import ADVICE, Cause, enum_refused_type, quota_refused_type
from instance_pool.observation import Configuration, EndpointStatus, Observation
from instance_pool.pool import Pool
from instance_pool.properties import Operation
from instance_pool.scaling import must_deregister, record_keys, record_tags
from instance_pool.steps import Fail, Start
from instance_pool.walk import attempts_so_far

CONSISTENCY_TIME: Final = timedelta(minutes=2)
"""How long a new configuration or role may be unknown to the call that uses it."""


@dataclass(frozen=True)
class Refused:
    """SageMaker knows no such instance type in this region."""

    instance_type: str


@dataclass(frozen=True)
class Situation:
    """What a beginning rests on."""

    operation: Operation
    pool: Pool
    observation: Observation
    apis: Apis
    log: Log


def begin(situation: Situation, step: Start) -> Pending | Refused | None:
    """Make the configuration; once it is seen, create or update the endpoint with it. None: decide again."""
    configuration = situation.observation.configuration(step.configuration_name)
    if configuration is None:
        return _make_configuration(situation, step)
    pool, sagemaker = situation.pool, situation.apis.sagemaker
    try:
        if step.how == "create":
            stack_tag = {STACK_ID: tag_value(situation.operation.stack_id)}
            sagemaker.create_endpoint(pool, configuration.name, stack_tag)
        else:
            retain = suspend_scaling(situation, configuration.name)
            sagemaker.update_endpoint(pool, configuration.name, retain=retain)
    except ApiError as error:
        return _refused(situation, configuration, error)
    before = _reason_before(situation) if step.how == "update" else ""
    sagemaker.add_tags(configuration.arn, started_tags(sagemaker.now(), before))
    return Pending()


def suspend_scaling(situation: Situation, successor: str) -> bool:
    """Before an update: record a registration that it would be refused for, and take it away.

    True where the variant is scaled, so that the update must keep its instance count.
    """
    pool, observation, scaling = situation.pool, situation.observation, situation.apis.scaling
    found = scaling.read(pool.endpoint_name, pool.variant_name, situation.log)
    recorded = any(record_keys(item.tags) for item in observation.configurations)
    if found is None:
        return recorded
    new = observation.configuration(successor)
    endpoint = observation.endpoint
    serving = observation.configuration(endpoint.configuration_name) if endpoint is not None else None
    if new is None:
        raise AssertionError("bug: the configuration is made before scaling is touched")
    recreates = pool.update.type == "recreate"
    if recreates or must_deregister(serving.attempt.types if serving else None, new.attempt.types):
        situation.apis.sagemaker.add_tags(new.arn, record_tags(found))
        situation.log({"step": "SuspendScaling", "reason": "scaling would forbid the change of types"})
        scaling.deregister(pool.endpoint_name, pool.variant_name)
    return True


def _refused(situation: Situation, configuration: Configuration, error: ApiError) -> Pending | None:
    if error.cause in {
        Cause.TRANSIENT,
        Cause.ACCESS_DENIED,
        Cause.IN_PROGRESS,
        Cause.ALREADY_CURRENT,
        Cause.ALREADY_EXISTS,
    }:
        raise error
    unknown_yet = error.cause in {Cause.NOT_FOUND, Cause.ROLE_NOT_READY}
    if unknown_yet and situation.observation.now - configuration.created_at < CONSISTENCY_TIME:
        return Pending()
    reason = f"{error.code}: {error.message}"
    outcome, dropped = Outcome.FAILED, ""
    if error.cause is Cause.QUOTA:
        outcome, dropped = Outcome.QUOTA, quota_refused_type(error.message)
    sagemaker = situation.apis.sagemaker
    sagemaker.add_tags(configuration.arn, ended_tags(outcome, reason, sagemaker.now(), dropped))
    return None


def _reason_before(situation: Situation) -> str:
    """The FailureReason that an update before left, if SageMaker goes on showing it during this one."""
    try:
        described = situation.apis.sagemaker.describe(situation.pool.endpoint_name)
    except ApiError:
        return ""
    if described is None or described.status is not EndpointStatus.UPDATING:
        return ""
    return described.failure_reason


def _make_configuration(situation: Situation, step: Start) -> Pending | Refused | None:
    operation, pool, sagemaker = situation.operation, situation.pool, situation.apis.sagemaker
    following = step.index + 1
    tags = first_tags(
        stack_id=operation.stack_id,
        endpoint_name=pool.endpoint_name,
        request_id=operation.request_id,
        types=step.types,
        next_types=pool.rounds[following].types if following < len(pool.rounds) else (),
        index=step.index,
        rounds=len(pool.rounds),
        last_resort=pool.rounds[step.index].last_resort,
        skipped=step.skipped,
    )
    name = step.configuration_name
    try:
        sagemaker.create_configuration(pool, name, step.index, step.types, tags)
    except ApiError as error:
        if error.cause in {Cause.TRANSIENT, Cause.ACCESS_DENIED}:
            raise
        if error.cause is Cause.ALREADY_EXISTS:
            if sagemaker.owns_configuration(name, operation.stack_id):
                return Pending()  # made by a call whose answer was lost; the listing will show it
            reason = f"The endpoint configuration {name} exists without this stack's tag {STACK_ID}."
            raise InstancePoolError(Fail("configuration_not_ours", reason, ADVICE[error.cause])) from error
        if error.cause is Cause.UNKNOWN_TYPE and (wrong := enum_refused_type(error.message, step.types)):
            situation.log(
                {"level": "WARNING", "step": "Dropped", "instance_type": wrong, "reason": str(error)}
            )
            return Refused(wrong)
        # A refused configuration leaves nothing that could be tagged, so the failure itself says it all.
        reason = f"{', '.join(step.types)}: {error}"
        told = attempts_so_far(situation.observation, pool)
        raise InstancePoolError(Fail(error.cause.value, reason, ADVICE[error.cause], told)) from error
    # The walk remembers by this configuration's tags: see it with them before an endpoint depends on it.
    return None
