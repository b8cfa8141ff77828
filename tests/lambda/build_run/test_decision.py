"""Each decision by itself: what is known, and the one step that follows."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_run.decision import CONTENT_TIME, LISTING_TIME, WAIT_LIMIT, decide, decide_deletion
from build_run.observation import Build, BuildStatus, Observation
from build_run.properties import Archive, Operation, Wanted
from build_run.steps import Done, Fail, Gone, Start, Step, Stop, Wait

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTENT, OTHER = "a" * 64, "b" * 64
OPERATION = Operation("Create", "ours", "our stack", "Build", "p", BEGAN, None)
WANTED = Wanted(CONTENT, "bucket/key", (), 50, Archive("bucket", "models/x/", ""))
ENDED = [status for status in BuildStatus if status is not BuildStatus.IN_PROGRESS]


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def build(number: int = 1, status: BuildStatus = BuildStatus.IN_PROGRESS, **more: Any) -> Build:
    """A build of this request that began 10 s after it; one that has ended took 60 s."""
    running = status is BuildStatus.IN_PROGRESS
    return replace(
        Build(
            id=f"p:{number}",
            status=status,
            phase="BUILD",
            context="",
            started_at=at(10),
            ended_at=None if running else at(70),
            log_group="g",
            log_stream="s",
            link="https://link",
            content_hash=CONTENT,
            request_id="ours",
            stack_id="our stack",
        ),
        **more,
    )


def others(number: int = 2, status: BuildStatus = BuildStatus.IN_PROGRESS, **more: Any) -> Build:
    return build(number, status, **{"request_id": "theirs", "stack_id": "their stack", **more})


def step(*builds: Build, seconds: float = 100, there: bool = False) -> Step:
    content = {"ModelUri": "s3://bucket/models/x/"} if there else None
    return decide(Observation(at(seconds), builds, content), OPERATION, WANTED)


def deletion(*builds: Build, seconds: float = 100) -> Step:
    return decide_deletion(Observation(at(seconds), builds, None), OPERATION)


def test_content_that_is_there_is_done_without_a_build() -> None:
    assert step(there=True) == Done("", "the content was there already")
    old = build(1, BuildStatus.FAILED, request_id="before", ended_at=at(-1))
    assert step(old, there=True) == Done("", "the content was there already")


@pytest.mark.parametrize("make", [build, others])
def test_content_names_the_build_that_made_it(make: Any) -> None:
    assert step(make(1, BuildStatus.SUCCEEDED), there=True).build_id == "p:1"  # type: ignore[union-attr]
    assert step(make(1), there=True).build_id == "p:1"  # type: ignore[union-attr]


def test_nothing_known_starts() -> None:
    assert isinstance(step(), Start)
    assert isinstance(step(build(content_hash=OTHER, stack_id="their stack", request_id="x")), Start)


@pytest.mark.parametrize("status", ENDED)
def test_what_ended_before_the_request_is_retried(status: BuildStatus) -> None:
    assert isinstance(step(others(1, status, started_at=at(-70), ended_at=at(-1))), Start)


@pytest.mark.parametrize(("make", "status"), list(itertools.product([build, others], ENDED)))
def test_what_ended_during_the_request_decides_it(make: Any, status: BuildStatus) -> None:
    answer = step(make(1, status), seconds=1000)
    if make is others and status is BuildStatus.STOPPED:
        assert answer == Start("p:1 was stopped")
        return
    assert isinstance(answer, Fail)
    assert (
        answer.code
        == {
            BuildStatus.SUCCEEDED: "build_without_result",
            BuildStatus.FAILED: "build_failed",
            BuildStatus.FAULT: "build_fault",
            BuildStatus.TIMED_OUT: "build_timed_out",
            BuildStatus.STOPPED: "build_stopped",
            BuildStatus.UNKNOWN: "build_ended",
        }[status]
    )
    assert answer.build is not None
    assert (answer.build.id, answer.build_ids) == ("p:1", ())
    assert "p:1" in answer.reason
    assert answer.advice.endswith(".")


def test_a_build_that_never_left_the_queue_is_told_from_one_that_took_too_long() -> None:
    answer = step(replace(build(1, BuildStatus.TIMED_OUT), phase="QUEUED"), seconds=1000)
    assert isinstance(answer, Fail)
    assert answer.code == "build_queue_timed_out"
    assert "timeout_minutes" not in answer.advice


def test_a_success_has_a_minute_to_show_its_content() -> None:
    succeeded = build(1, BuildStatus.SUCCEEDED)
    assert isinstance(step(succeeded, seconds=70 + CONTENT_TIME.seconds - 1), Wait)
    assert isinstance(step(succeeded, seconds=70 + CONTENT_TIME.seconds), Fail)


def test_a_stopped_duplicate_of_ours_does_not_hide_what_the_older_build_came_to() -> None:
    stopped = build(2, BuildStatus.STOPPED)
    assert isinstance(step(stopped, others(1)), Wait)
    failed = step(stopped, others(1, BuildStatus.FAILED))
    assert isinstance(failed, Fail)
    assert failed.build is not None
    assert failed.build.id == "p:1"


def test_the_older_build_stays_and_each_request_stops_its_own() -> None:
    older, younger = others(1, started_at=at(9)), build(2)
    assert step(younger, older) == Stop(("p:2",), "an older build makes the same")
    assert step(build(1), others(2, started_at=at(11))) == Wait("p:1 is in BUILD, 90 s after its start")
    # At the very same moment the ids decide, for both in the same way.
    assert isinstance(step(build(2), others(1)), Stop)
    assert isinstance(step(build(1), others(2)), Wait)


def test_a_build_that_another_ones_success_made_needless_is_stopped() -> None:
    assert step(build(2), others(1, BuildStatus.SUCCEEDED), there=True) == Stop(
        ("p:2",), "an older build makes the same"
    )


def test_only_this_stacks_builds_of_before_are_outdated() -> None:
    before = build(1, content_hash=OTHER, request_id="before", started_at=at(-60))
    assert step(before, there=True) == Stop(("p:1",), "the stack no longer wants what they make")
    assert isinstance(step(replace(before, stack_id="their stack"), there=True), Done)
    assert isinstance(step(replace(before, started_at=at(1)), there=True), Done)
    assert isinstance(step(before, there=True, seconds=60 * 52), Done)


def test_a_wait_tells_phase_and_queue() -> None:
    queued = build(3, phase="QUEUED", started_at=at(40))
    assert step(queued, others(1, content_hash=OTHER), others(2, content_hash=OTHER)) == Wait(
        "p:3 is in QUEUED behind 2 builds of its project, 60 s after its start"
    )
    assert step(queued) == Wait("p:3 is in QUEUED behind no build of its project, 60 s after its start")


def test_an_expired_time_stops_only_what_is_this_stacks() -> None:
    limit_s = WAIT_LIMIT.total_seconds()
    assert isinstance(step(build(1), seconds=limit_s - 1), Wait)
    answer = step(build(1), seconds=limit_s)
    assert isinstance(answer, Fail)
    assert (answer.code, answer.build_ids) == ("wait_timed_out", ("p:1",))
    assert answer.reason.startswith("p:1 is still in BUILD, 3110 s after its start after 52 min")
    joined = step(others(1), seconds=limit_s)
    assert isinstance(joined, Fail)
    assert joined.build_ids == ()
    assert joined.reason.endswith("and is another stack's.")
    never = step(seconds=limit_s)
    assert isinstance(never, Fail)
    assert never.build is None


def test_a_deletion_stops_waits_and_ends() -> None:
    assert deletion(build(1), others(2), build(3, content_hash=OTHER)) == Stop(
        ("p:1", "p:3"), "the stack no longer wants what these builds make"
    )
    assert isinstance(deletion(build(1, BuildStatus.STOPPED), others(2)), Gone)
    assert isinstance(deletion(seconds=LISTING_TIME.seconds - 1), Wait)
    assert isinstance(deletion(seconds=LISTING_TIME.seconds), Gone)
    answer = deletion(build(1), seconds=WAIT_LIMIT.total_seconds())
    assert isinstance(answer, Fail)
    assert (answer.code, answer.build_ids) == ("stop_timed_out", ("p:1",))


BUILDS = st.lists(
    st.builds(
        lambda number, status, ours, stack, content, began, took: build(
            number,
            status,
            request_id="ours" if ours and stack else f"r{number}",
            stack_id="our stack" if stack else "their stack",
            content_hash=content,
            started_at=at(began),
            ended_at=None if status is BuildStatus.IN_PROGRESS else at(began + took),
        ),
        number=st.integers(1, 9),
        status=st.sampled_from(BuildStatus),
        ours=st.booleans(),
        stack=st.booleans(),
        content=st.sampled_from([CONTENT, OTHER]),
        began=st.integers(-4000, 3000),
        took=st.integers(0, 3000),
    ),
    max_size=6,
    unique_by=lambda item: item.id,
)


@given(builds=BUILDS, seconds=st.integers(0, 3300), there=st.booleans())
def test_whatever_is_known(*, builds: list[Build], seconds: int, there: bool) -> None:
    answer = step(*builds, seconds=seconds, there=there)
    own = {item.id for item in builds if item.stack_id == "our stack" and item.running}
    late = timedelta(seconds=seconds) >= WAIT_LIMIT
    match answer:
        case Start():
            assert not there
            assert not any(item.request_id == "ours" and item.content_hash == CONTENT for item in builds)
            assert not any(item.running and item.content_hash == CONTENT for item in builds)
        case Done():
            assert there
        case Stop(build_ids):
            assert build_ids
            assert set(build_ids) <= own
            # The last running build of the content is never stopped before its content is there.
            same = {item.id for item in builds if item.running and item.content_hash == CONTENT}
            assert not same or same - set(build_ids) or there or _succeeded(builds)
        case Fail():
            assert set(answer.build_ids) <= own
            assert not there
        case Wait():
            assert not there
        case Gone():
            raise AssertionError("a Create is never gone")
    if late:
        assert isinstance(answer, Done | Fail | Wait)
        assert not isinstance(answer, Wait) or _succeeded(builds)


def _succeeded(builds: list[Build]) -> bool:
    return any(b.status is BuildStatus.SUCCEEDED and b.content_hash == CONTENT for b in builds)
