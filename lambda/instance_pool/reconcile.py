"""Observe, decide, act: again within one poll while steps are instantaneous, then answer."""

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Final, assert_never

from instance_pool.answers import Complete, InstancePoolError, Pending
from instance_pool.apis import Apis, Log
from instance_pool.attempts import Outcome, ended_tags
from instance_pool.aws_call import ApiError
from instance_pool.climb import Readiness, decide_climb
from instance_pool.failures import ADVICE, Cause, quota_refused_type, shortened
from instance_pool.observation import Description, Observation, Survey
from instance_pool.outcome import attributes, degraded_metric
from instance_pool.pool import Pool, configuration_prefix
from instance_pool.properties import Operation
from instance_pool.scaling import ScalingRecordError, read_record, record_keys
from instance_pool.start import Refused, Situation, begin, suspend_scaling
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
from instance_pool.walk import BUDGET, decide, decide_deletion, scaling_first

POLL_TIME_S: Final = 30.0
"""No step begins later than this after the poll did: the function's own time-out would be a final failure."""
CLIMB_CHECK: Final = timedelta(seconds=60)
"""How long a climb looks at everything in each poll."""
DENIAL_PAUSE_S: Final = 5.0
"""Between two tries of a denied call, as long as the poll lasts: the role's policy may be seconds old."""


def reconcile(operation: Operation, apis: Apis, log: Log) -> Pending | Complete:
    """Bring an operation as far as it goes now. Raises InstancePoolError for a final failure only."""
    return _Poll(operation, apis, log).run()


class _Poll:
    """One poll. Only what it has learnt of quotas and types outlasts a step."""

    def __init__(self, operation: Operation, apis: Apis, log: Log) -> None:
        self._operation = operation
        self._apis = apis
        self._log = log
        self._survey = Survey()
        self._deadline = time.monotonic() + POLL_TIME_S

    def run(self) -> Pending | Complete:
        while time.monotonic() < self._deadline:
            try:
                answer = self._one_step()
            except ApiError as error:
                self._log(
                    {
                        "step": "Refused",
                        "operation": error.operation,
                        "cause": error.cause,
                        "reason": str(error),
                    }
                )
                if error.cause is Cause.ACCESS_DENIED and time.monotonic() + DENIAL_PAUSE_S < self._deadline:
                    time.sleep(DENIAL_PAUSE_S)
                    continue
                answer = _after_refusal(error)
            if answer is not None:
                return answer
        return Pending()

    def _one_step(self) -> Pending | Complete | None:
        sagemaker = self._apis.sagemaker
        described = sagemaker.describe(self._operation.endpoint_name)
        if described is not None and self._works(described):
            self._log({"step": "Wait", "reason": f"the endpoint is {described.status.value}"})
            return Pending()
        endpoint, configurations = sagemaker.complete(
            described, self._operation.endpoint_name, self._operation.stack_id
        )
        observation = Observation(
            sagemaker.now(),
            self._operation.request_id,
            endpoint,
            configurations,
            self._operation.started_at,
            self._survey,
            self._operation.old_tags,
        )
        step = self._decide(observation)
        self._log({"step": type(step).__name__, **asdict(step)})
        return self._act(observation, step)

    def _works(self, described: Description) -> bool:
        """Whether SageMaker works on an endpoint that by its name is ours: then nothing else need be read."""
        began_at = self._operation.started_at
        if began_at is None or described.status.settled:
            return False
        age = self._apis.sagemaker.now() - began_at
        # A climb is refused while another operation is at work, so at first it looks whose work that is.
        known = self._operation.request_type != "Climb" or age >= CLIMB_CHECK
        prefix = configuration_prefix(self._operation.endpoint_name)
        return known and described.configuration_name.startswith(prefix) and age < BUDGET

    def _decide(self, observation: Observation) -> Step:
        pool = self._operation.pool
        if pool is None:
            return decide_deletion(observation, self._operation.endpoint_name)
        if self._operation.request_type == "Climb":
            return scaling_first(observation, decide_climb(observation, pool, lambda: self._readiness(pool)))
        return decide(observation, pool)

    def _readiness(self, pool: Pool) -> Readiness:
        return self._apis.climb.readiness(
            pool.endpoint_name, pool.variant_name, self._operation.stack_id, pool.rollback_alarms
        )

    def _act(self, observation: Observation, step: Step) -> Pending | Complete | None:
        """Carry a step out. None means that it took no time and the next can be decided at once."""
        match step:
            case Wait():
                return Pending()
            case Start():
                return self._start(observation, step)
            case DeleteEndpoint(successor=successor):
                if successor:
                    suspend_scaling(self._situation(observation), successor)
                self._apis.sagemaker.delete_endpoint(self._operation.endpoint_name)
                return Pending()
            case Done():
                return self._done(observation, step)
            case Gone():
                return Complete({})
            case Fail():
                raise InstancePoolError(step)
            case ReadLimits() | Record() | DeleteConfigurations() | RestoreScaling() | Tag():
                self._change(observation, step)
                return None
            case _:
                assert_never(step)

    def _change(
        self,
        observation: Observation,
        step: ReadLimits | Record | DeleteConfigurations | RestoreScaling | Tag,
    ) -> None:
        match step:
            case ReadLimits():
                endpoint_name = self._operation.endpoint_name
                limits = self._apis.limits.read(self._pool.types, endpoint_name, self._log)
                self._survey = replace(self._survey, read=True, limits=limits)
            case Record():
                self._record(observation, step)
            case DeleteConfigurations(names):
                for name in names:
                    self._apis.sagemaker.delete_configuration(name)
            case RestoreScaling(names):
                self._restore_scaling(observation, names)
            case Tag(add, remove):
                self._tag(observation, add, remove)
            case _:
                assert_never(step)

    def _situation(self, observation: Observation) -> Situation:
        return Situation(self._operation, self._pool, observation, self._apis, self._log)

    def _start(self, observation: Observation, step: Start) -> Pending | None:
        result = begin(self._situation(observation), step)
        if isinstance(result, Refused):
            self._survey = replace(self._survey, refused=self._survey.refused | {result.instance_type})
            return None
        return result

    def _record(self, observation: Observation, step: Record) -> None:
        configuration = observation.configuration(step.configuration_name)
        if configuration is None:
            raise AssertionError("bug: an outcome belongs to a configuration that was observed")
        dropped = quota_refused_type(step.reason) if step.outcome is Outcome.QUOTA else ""
        tags = ended_tags(step.outcome, step.reason, observation.now, dropped)
        self._apis.sagemaker.add_tags(configuration.arn, tags)

    def _restore_scaling(self, observation: Observation, names: tuple[str, ...]) -> None:
        pool = self._pool
        for configuration in observation.configurations:
            if configuration.name not in names:
                continue
            try:
                recorded = read_record(configuration.tags)
            except ScalingRecordError as error:
                self._log({"step": "ScalingRecordDamaged", "reason": str(error)})
                recorded = None
            if recorded is not None:
                self._apis.scaling.restore(pool.endpoint_name, pool.variant_name, recorded, self._log)
            self._apis.sagemaker.delete_tags(configuration.arn, record_keys(configuration.tags))

    def _tag(self, observation: Observation, add: Mapping[str, str], remove: tuple[str, ...]) -> None:
        if observation.endpoint is None:
            raise AssertionError("bug: only an endpoint that serves is tagged anew")
        if add:
            self._apis.sagemaker.add_tags(observation.endpoint.arn, add)
        if remove:
            self._apis.sagemaker.delete_tags(observation.endpoint.arn, remove)

    def _done(self, observation: Observation, step: Done) -> Complete:
        data = attributes(self._pool, observation, step)
        self._log(degraded_metric(self._pool, step, observation.now))
        return Complete(data)

    @property
    def _pool(self) -> Pool:
        if self._operation.pool is None:
            raise AssertionError("bug: a deletion has no pool to work on")
        return self._operation.pool


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
    reason = shortened(str(error))
    raise InstancePoolError(Fail(error.cause.value, reason, ADVICE[error.cause])) from error
