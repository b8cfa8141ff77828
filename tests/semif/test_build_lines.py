"""What `semif watch` prints while a deployment waits for its builds, line by line."""

from textwrap import dedent

from semif.builds import Build
from semif.deployment import Endpoint, build_runs
from tests.semif.recording import RecordedStack, Watcher, at

NAME = "semif-dev-decisions"


def golden(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def test_artifacts_then_builds_then_decisions_with_two_builds() -> None:
    watcher = Watcher()
    for second, name in ((0, "semif-dev-artifacts"), (10, "semif-dev-builds")):
        stack = RecordedStack(name)
        watcher.stacks.append(stack)
        stack.own(second, "CREATE_IN_PROGRESS")
        watcher.look(second + 2)
        stack.own(second + 4, "CREATE_COMPLETE")
        watcher.look(second + 5)
    stack = RecordedStack(NAME)
    watcher.stacks.append(stack)
    stack.own(20, "CREATE_IN_PROGRESS")
    stack.build_run(22, "CREATE_IN_PROGRESS")
    watcher.look(22)
    stack.build(24, "QUEUED", ahead=2)
    stack.build(24, "BUILD", project="semif-dev-archive")
    watcher.look_until(25, 61, every=4)
    stack.build(70, "PROVISIONING")
    watcher.look(71)
    stack.build(80, "BUILD")
    stack.end_build(90, "SUCCEEDED", project="semif-dev-archive")
    watcher.look(92)
    watcher.look(125)
    stack.end_build(130, "SUCCEEDED")
    stack.build_run(140, "CREATE_COMPLETE")
    watcher.look(141)
    stack.pool(142, "CREATE_IN_PROGRESS")
    stack.endpoint = Endpoint(NAME, "Creating")
    watcher.look(172)
    stack.pool(180, "CREATE_COMPLETE")
    stack.own(181, "CREATE_COMPLETE")
    watcher.look(182)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-artifacts CREATE_IN_PROGRESS
        12:00:04 semif-dev-artifacts CREATE_COMPLETE after 4 s
        12:00:10 semif-dev-builds CREATE_IN_PROGRESS
        12:00:14 semif-dev-builds CREATE_COMPLETE after 4 s
        12:00:20 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:24 semif-dev-image-cpu QUEUED behind 2 builds
        12:00:24 semif-dev-archive BUILD
        12:00:57 semif-dev-image-cpu QUEUED for 33 s behind 2 builds, 49 min left
        12:01:10 semif-dev-image-cpu PROVISIONING
        12:01:20 semif-dev-image-cpu BUILD
        12:01:30 semif-dev-archive SUCCEEDED after 1 m 6 s
        12:02:05 semif-dev-image-cpu BUILD for 45 s, 48 min left
        12:02:10 semif-dev-image-cpu SUCCEEDED after 1 m 46 s
        12:02:52 semif-dev-decisions has tried no type yet, endpoint Creating, 49 min left
        12:03:01 semif-dev-decisions CREATE_COMPLETE after 2 m 41 s
        semif-dev-artifacts CREATE_COMPLETE
        semif-dev-builds CREATE_COMPLETE
        semif-dev-decisions CREATE_COMPLETE
        """
    )
    assert watcher.exit_code == 0


def test_a_failed_build_shows_its_log_and_its_link_and_the_rollback() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.build_run(1, "CREATE_IN_PROGRESS")
    watcher = Watcher([stack])
    stack.build(2, "BUILD")
    watcher.look(3)
    stack.end_build(
        40,
        "FAILED",
        context="COMMAND_EXECUTION_ERROR: exit status 1",
        log=("step 9", "error: self_test: the struct layouts\tdiffer\x1b[0m"),
        link="https://console.aws.amazon.com/log",
    )
    watcher.look(41)
    stack.build_run(50, "CREATE_FAILED", "build_failed: semif-dev-image-cpu:0001 ended FAILED in BUILD.")
    stack.own(51, "ROLLBACK_IN_PROGRESS", "Failed to create: [ImageCpuBuild]")
    stack.build_run(52, "DELETE_IN_PROGRESS")
    watcher.look(52)
    watcher.look(90)
    stack.build_run(92, "DELETE_COMPLETE")
    stack.own(93, "ROLLBACK_COMPLETE")
    watcher.look(94)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:02 semif-dev-image-cpu BUILD
        12:00:40 semif-dev-image-cpu FAILED in BUILD after 38 s: COMMAND_EXECUTION_ERROR: exit status 1
        12:00:40 semif-dev-image-cpu | step 9
        12:00:40 semif-dev-image-cpu | error: self_test: the struct layouts differ\N{REPLACEMENT CHARACTER}[0m
        12:00:40 semif-dev-image-cpu log: https://console.aws.amazon.com/log
        12:00:50 semif-dev-decisions ImageCpuBuild CREATE_FAILED: build_failed: semif-dev-image-cpu:0001 ended FAILED in BUILD.
        12:00:51 semif-dev-decisions ROLLBACK_IN_PROGRESS: Failed to create: [ImageCpuBuild]
        12:01:30 semif-dev-image-cpu is let go
        12:01:33 semif-dev-decisions ROLLBACK_COMPLETE after 1 m 33 s
        semif-dev-decisions failed: ROLLBACK_COMPLETE
        cause: ImageCpuBuild Custom::BuildRun CREATE_FAILED: build_failed: semif-dev-image-cpu:0001 ended FAILED in BUILD.
        next: remove the cause and deploy again
        """  # noqa: E501
    )
    assert watcher.exit_code == 1


def test_a_deletion_says_that_its_build_is_being_stopped() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "DELETE_IN_PROGRESS")
    stack.build_run(1, "DELETE_IN_PROGRESS")
    stack.build(0, "BUILD")
    watcher = Watcher([stack])
    watcher.look(1)
    watcher.look(32)
    stack.end_build(40, "STOPPED", link="https://console.aws.amazon.com/log")
    watcher.look(41)
    assert watcher.said[1:] == [
        "12:00:00 semif-dev-image-cpu BUILD",
        "12:00:32 semif-dev-image-cpu BUILD for 32 s, being stopped",
        "12:00:40 semif-dev-image-cpu STOPPED in BUILD after 40 s",
    ]


def test_a_run_is_known_by_its_properties_else_by_its_physical_id() -> None:
    stack = RecordedStack(NAME)
    stack.build_run(1, "UPDATE_IN_PROGRESS")
    (run,) = build_runs(stack.events)
    assert (run.project, run.content_hashes, run.timeout_minutes) == (
        "semif-dev-image-cpu",
        frozenset({"a" * 64}),
        50,
    )
    assert (run.since, run.last.verb, run.last.ended) == (at(1), "UPDATE", False)
    bare = RecordedStack(NAME)
    bare.resource(1, "Build", "DELETE_IN_PROGRESS", kind="Custom::BuildRun")
    assert build_runs(bare.events) == []


def test_project_of_a_build() -> None:
    build = Build("semif-dev-archive:11", "SUCCEEDED", "COMPLETED", at(0), at(0), at(1), "")
    assert (build.project, build.bad, build.waiting) == ("semif-dev-archive", False, False)
