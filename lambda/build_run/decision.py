"""From what is known, the one next step and its reason. Pure; holds no state between decisions.

A request's position comes from CodeBuild alone: builds carry the hash of the content that they make, and the
request and the stack that started them. So a poll that is lost, repeated or cut off decides nothing.

One request starts at most one build: a request whose build is seen never starts another. Until it is seen,
StartBuild is repeated with the same idempotency token, which CodeBuild answers with the same build for five
minutes, and the process remembers the ids that it got (codebuild_api). Only a listing that lags for more than
five minutes, read by a new process, could lead to a second build; then the older one counts and the other is
stopped.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, assert_never

from build_run.observation import Build, BuildStatus, Observation
from build_run.properties import Operation, Wanted
from build_run.steps import Done, Fail, Gone, Start, Step, Stop, Wait

WAIT_LIMIT: Final = timedelta(minutes=52)
"""The Provider gives up after 55 minutes without a word about the build, so the request fails before."""
OVERTIME: Final = timedelta(minutes=2)
"""Beyond `TimeoutMinutes`, so that CodeBuild's own time-out of a build that never queued tells its phase."""
LISTING_TIME: Final = timedelta(seconds=5)
"""How long a Delete looks before it believes that nothing runs: the listing may lag behind a start."""
CONTENT_TIME: Final = timedelta(seconds=60)
"""How long after a build's success ECR or S3 may not show its content yet."""
_WAITING_PHASES: Final = frozenset({"SUBMITTED", "QUEUED"})


def decide(observation: Observation, operation: Operation, wanted: Wanted) -> Step:
    """The next step of a Create or Update towards the content being there."""
    limit = min(timedelta(minutes=wanted.timeout_minutes) + OVERTIME, WAIT_LIMIT)
    late = observation.now - operation.started_at >= limit
    # A build that began later belongs to a request that has replaced this one: a rollback's.
    outdated = _ids(
        build
        for build in _running(observation)
        if build.stack_id == operation.stack_id
        and build.content_hash != wanted.content_hash
        and build.started_at < operation.started_at
    )
    same = tuple(build for build in observation.builds if build.content_hash == wanted.content_hash)
    running = sorted((build for build in same if build.running), key=_seniority)
    ended = [build for build in same if _counts(build, operation)]
    duplicates = _duplicates(running, ended, operation)
    if (outdated or duplicates) and not late:
        reason = "the stack no longer wants what they make" if outdated else "an older build makes the same"
        return Stop(outdated + duplicates, reason)
    if observation.content is not None:
        return _done(running, ended)
    if running and not late:
        return Wait(f"{running[0].id} is {_place(running[0], observation)}")
    # Another stack's build that was stopped, with its own deployment, says nothing about the content.
    told = [build for build in ended if build.status is not BuildStatus.STOPPED] or [
        build for build in ended if build.request_id == operation.request_id
    ]
    if told and not running:
        return _after_the_end(observation, _newest(told))
    if late:
        return _too_late(observation, operation, running, limit, outdated)
    return Start(f"{_newest(ended).id} was stopped" if ended else "no build of this content runs")


def decide_deletion(observation: Observation, operation: Operation) -> Step:
    """The next step of a Delete: what this stack started in the project must not run on. Content stays."""
    ours = [build for build in _running(observation) if build.stack_id == operation.stack_id]
    if not ours and observation.now - operation.started_at < LISTING_TIME:
        return Wait("a build that has just begun may not be listed yet")
    if not ours:
        return Gone("no build of this stack runs")
    if observation.now - operation.started_at >= WAIT_LIMIT:
        return Fail(
            "stop_timed_out",
            f"{ours[0].id} is still {_place(ours[0], observation)}, {_minutes(WAIT_LIMIT)} after its stop.",
            "Wait until the build has ended, then delete the stack again.",
            ours[0],
            _ids(ours),
        )
    return Stop(_ids(ours), "the stack no longer wants what these builds make")


def _counts(build: Build, operation: Operation) -> bool:
    """Whether an ended build decides this request; an older failure is retried, an older success is void."""
    if build.ended_at is None:
        return False
    return build.request_id == operation.request_id or build.ended_at > operation.started_at


def _duplicates(running: list[Build], ended: list[Build], operation: Operation) -> tuple[str, ...]:
    """This request's own builds that another one makes needless. Each request stops only its own."""
    succeeded = any(build.status is BuildStatus.SUCCEEDED for build in ended)
    needless = running if succeeded else running[1:]
    return _ids(build for build in needless if build.request_id == operation.request_id)


def _done(running: list[Build], ended: list[Build]) -> Done:
    succeeded = [build for build in ended if build.status is BuildStatus.SUCCEEDED]
    if succeeded:
        return Done(_newest(succeeded).id, "the build has succeeded and its content is there")
    if running:
        return Done(running[0].id, "the content is there; its build has only to end")
    return Done("", "the content was there already")


def _after_the_end(observation: Observation, build: Build) -> Step:
    """No build of the content runs, and the content is not there; `build` was the last one."""
    match build.status:
        case BuildStatus.SUCCEEDED:
            if build.ended_at is not None and observation.now - build.ended_at < CONTENT_TIME:
                return Wait(f"{build.id} has succeeded and its content does not show yet")
            return Fail(
                "build_without_result",
                f"{build.id} has succeeded, but what it should have made is not there:"
                " a bug in the build program, or somebody deleted it.",
                "Read the build's log, then deploy again.",
                build,
            )
        case BuildStatus.FAILED:
            code, advice = "build_failed", "Mend what the log names, deploy again."
        case BuildStatus.FAULT:
            code, advice = "build_fault", "CodeBuild itself failed; deploy again."
        case BuildStatus.TIMED_OUT if build.phase in _WAITING_PHASES:
            code = "build_queue_timed_out"
            advice = (
                "Deploy again when fewer builds run, or ask for more concurrent builds in Service Quotas."
            )
        case BuildStatus.TIMED_OUT:
            code, advice = "build_timed_out", "Raise build.timeout_minutes in cdk.json, or deploy again."
        case BuildStatus.STOPPED:
            code, advice = "build_stopped", "Somebody or another request stopped it; deploy again."
        case BuildStatus.UNKNOWN:
            code, advice = "build_ended", "Read the build's log, then deploy again."
        case BuildStatus.IN_PROGRESS:
            raise AssertionError("bug: a build in progress has not ended")
        case _:
            assert_never(build.status)
    return Fail(code, f"{build.id} ended {build.status.value} in {build.phase}.", advice, build)


def _too_late(
    observation: Observation,
    operation: Operation,
    running: list[Build],
    limit: timedelta,
    outdated: tuple[str, ...],
) -> Fail:
    stopped = _ids(build for build in running if build.stack_id == operation.stack_id)
    if running:
        build, end = running[0], "and is stopped" if running[0].id in stopped else "and is another stack's"
        reason = f"{build.id} is still {_place(build, observation)} after {_minutes(limit)} {end}."
    else:
        build = None
        reason = f"No build could be started within {_minutes(limit)}: CodeBuild refused each time for now."
    return Fail(
        "wait_timed_out",
        reason,
        "Deploy again when fewer builds run, or raise build.timeout_minutes in cdk.json.",
        build,
        outdated + stopped,
    )


def _place(build: Build, observation: Observation) -> str:
    """Where a running build stands, such as `QUEUED behind 2 builds of its project for 90 s`."""
    ahead = ""
    if build.phase in _WAITING_PHASES:
        older = [other for other in _running(observation) if _seniority(other) < _seniority(build)]
        ahead = f" behind {len(older)} builds of its project" if older else " behind no build of its project"
    seconds = max(0, int((observation.now - build.started_at).total_seconds()))
    return f"in {build.phase}{ahead}, {seconds} s after its start"


def _running(observation: Observation) -> list[Build]:
    return [build for build in observation.builds if build.running]


def _seniority(build: Build) -> tuple[object, str]:
    return build.started_at, build.id


def _newest(builds: list[Build]) -> Build:
    return max(builds, key=lambda build: (build.ended_at, build.id))


def _ids(builds: Iterable[Build]) -> tuple[str, ...]:
    return tuple(build.id for build in builds)


def _minutes(span: timedelta) -> str:
    return f"{int(span.total_seconds() // 60)} min"
