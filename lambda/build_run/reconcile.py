"""Observe, decide, act once, answer. One poll makes one step; the Provider polls again after 15 s."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from build_run.aws_call import connect
from build_run.codebuild_api import CodeBuildApi
from build_run.content_api import ContentApi
from build_run.decision import decide, decide_deletion
from build_run.failures import ADVICE, ApiError, Cause
from build_run.logs_api import LogsApi
from build_run.observation import Observation
from build_run.properties import Operation
from build_run.report import failure_of
from build_run.stack_api import StackApi
from build_run.steps import Done, Fail, Gone, Start, Step, Stop, Wait

POLICY_TIME: Final = timedelta(seconds=90)
"""How long after a request began a denied call may only mean that the role's policy is seconds old."""
STACK_TIME: Final = timedelta(seconds=60)
"""How long after a request began the stack may still show its resource as it was before."""

Log = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True)
class Pending:
    """Not finished: CloudFormation's Provider polls again."""


@dataclass(frozen=True)
class Complete:
    """Finished, with what the resource's attributes answer."""

    data: Mapping[str, str]


@dataclass(frozen=True)
class Apis:
    """All that the function speaks to, and its clock."""

    codebuild: CodeBuildApi
    content: ContentApi
    logs: LogsApi
    stack: StackApi
    now: Callable[[], datetime]

    @classmethod
    def connect(cls) -> "Apis":
        """Connect as the SDK's environment says."""
        return cls.of(connect, lambda: datetime.now(UTC))

    @classmethod
    def of(cls, client: Callable[[str], object], now: Callable[[], datetime]) -> "Apis":
        """The edges on the clients that `client` gives by their service's name."""
        return cls(
            codebuild=CodeBuildApi(client("codebuild"), now),
            content=ContentApi(client("ecr"), client("s3")),
            logs=LogsApi(client("logs")),
            stack=StackApi(client("cloudformation")),
            now=now,
        )


def reconcile(operation: Operation, apis: Apis, log: Log) -> Pending | Complete:
    """Bring an operation one step further. Raises BuildRunError for a final failure only."""
    try:
        observation = _observe(operation, apis)
        step = _decide(operation, observation)
        log(_told(step))
        return _act(operation, observation, step, apis)
    except ApiError as error:
        log({"step": "Refused", "operation": error.operation, "cause": error.cause, "reason": str(error)})
        return _after_refusal(error, operation, apis.now())


def _observe(operation: Operation, apis: Apis) -> Observation:
    # The builds first: one that is seen to have succeeded has put its content there before it is looked for.
    builds = apis.codebuild.builds(operation.project_name)
    content = apis.content.find(operation.wanted.result) if operation.wanted is not None else None
    return Observation(apis.now(), builds, content)


def _decide(operation: Operation, observation: Observation) -> Step:
    if operation.wanted is None:
        return decide_deletion(observation, operation)
    return decide(observation, operation, operation.wanted)


def _after_refusal(error: ApiError, operation: Operation, now: datetime) -> Pending | Complete:
    """A hiccup decides nothing. A Delete never fails for what is gone or may not be touched any more."""
    if error.cause in {Cause.TRANSIENT, Cause.LIMIT}:
        return Pending()
    if error.cause is Cause.ACCESS_DENIED and now - operation.started_at < POLICY_TIME:
        return Pending()
    if operation.wanted is None and error.cause in {Cause.NOT_FOUND, Cause.ACCESS_DENIED}:
        return Complete({})
    raise failure_of(Fail(error.cause.value, str(error), ADVICE[error.cause]), ()) from error


def _act(operation: Operation, observation: Observation, step: Step, apis: Apis) -> Pending | Complete:
    match step:
        case Wait():
            return Pending()
        case Start():
            return _start(operation, apis)
        case Stop(build_ids):
            for build_id in build_ids:
                apis.codebuild.stop(build_id)
            return Pending()
        case Done(build_id):
            return Complete({**(observation.content or {}), "BuildId": build_id})
        case Gone():
            return Complete({})
        case Fail():
            for build_id in step.build_ids:
                apis.codebuild.stop(build_id)
            raise failure_of(step, apis.logs.last_lines(step.build) if step.build is not None else ())
        case _:
            assert_never(step)


def _start(operation: Operation, apis: Apis) -> Pending:
    if operation.wanted is None:
        raise AssertionError("bug: a deletion starts no build")
    if apis.stack.has_moved_on(operation):
        if apis.now() - operation.started_at < STACK_TIME:
            return Pending()
        # CloudFormation cancelled this request when another resource failed, but the Provider polls on.
        raise failure_of(
            Fail("cancelled", "CloudFormation no longer waits for this request.", "Deploy again."), ()
        )
    apis.codebuild.start(operation, operation.wanted)
    return Pending()


def _told(step: Step) -> Mapping[str, object]:
    fields: dict[str, object] = {"step": type(step).__name__, "reason": step.reason}
    match step:
        case Stop(build_ids):
            fields["build_ids"] = build_ids
        case Done(build_id):
            fields["build_id"] = build_id
        case Fail():
            fields |= {"code": step.code, "build_ids": step.build_ids}
            if step.build is not None:
                fields |= {"build_id": step.build.id, "phase": step.build.phase, "status": step.build.status}
        case Wait() | Start() | Gone():
            pass
        case _:
            assert_never(step)
    return fields
