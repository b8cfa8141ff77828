"""How builds are held up and ended: the queue, StopBuild, time limits, faults, the end of the local AWS."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from localaws.session import LocalAws, LocalAwsError
from tests.localaws.codebuild.builds import Builds, contexts, phases

#: Prints its pids and sleeps; one process ignores SIGTERM, one leaves the process group.
SLEEPER = """
version: 0.2
phases:
  build:
    commands:
      - |
        (trap '' TERM; while :; do sleep 1; done) & one=$!
        setsid sleep 300 & two=$!
        echo "pids $$ $one $two"
        sleep 300
  post_build: {commands: [echo never]}
"""
QUICK = "version: 0.2\nphases: {build: {commands: [echo done]}}"


def pids(builds: Builds, build_id: str) -> list[int]:
    builds.reached(build_id, "pids ")
    (line,) = (line for line in builds.printed(builds.get(build_id)) if line.startswith("pids "))
    return [int(pid) for pid in line.split()[1:]]


def running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not waited for does not."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        return proc.exists() and proc.read_bytes() != b""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_stopped_build_leaves_no_process(builds: Builds) -> None:
    build_id = builds.start(builds.project(SLEEPER))
    started = pids(builds, build_id)
    assert all(running(pid) for pid in started)
    assert builds.get(build_id)["currentPhase"] == "BUILD"

    builds.api.stop_build(id=build_id)
    build = builds.finished(build_id)

    assert build["buildStatus"] == "STOPPED"
    assert phases(build)["BUILD"] == "STOPPED"
    assert "POST_BUILD" not in phases(build)
    assert not any(running(pid) for pid in started)
    assert builds.api.stop_build(id=build_id)["build"]["buildStatus"] == "STOPPED"


def test_a_build_whose_time_is_over(builds: Builds) -> None:
    project = builds.project(SLEEPER)
    builds.aws.put_faults({f"codebuild:{project}": {"mode": "timeout", "phase": "BUILD", "seconds": 0.5}})

    build = builds.run(project)

    assert build["buildStatus"] == phases(build)["BUILD"] == "TIMED_OUT"
    assert contexts(build, "BUILD") == [("BUILD_TIMED_OUT", "Build has timed out. ")]


def test_the_time_limits_are_those_of_the_build(builds: Builds) -> None:
    builds.aws.put_builds(minute_s=0.001)
    project = builds.project(SLEEPER, timeoutInMinutes=2160)

    build = builds.run(project, timeoutInMinutesOverride=5, queuedTimeoutInMinutesOverride=480)

    assert (build["timeoutInMinutes"], build["queuedTimeoutInMinutes"]) == (5, 480)
    assert build["buildStatus"] == "TIMED_OUT"

    builds.aws.put_builds(concurrent_builds=0, minute_s=0.001)
    queued = builds.run(project, queuedTimeoutInMinutesOverride=5)

    assert queued["buildStatus"] == phases(queued)["QUEUED"] == "TIMED_OUT"
    assert list(phases(queued)) == ["SUBMITTED", "QUEUED", "COMPLETED"]


def test_builds_wait_for_their_turn(builds: Builds) -> None:
    builds.aws.put_builds(concurrent_builds=1)
    sleeper = builds.start(builds.project(SLEEPER))
    pids(builds, sleeper)
    quick = builds.project(QUICK)

    waiting, stopped = builds.start(quick), builds.start(quick)

    for build_id in (waiting, stopped):
        build = builds.get(build_id)
        assert (build["buildStatus"], build["currentPhase"]) == ("IN_PROGRESS", "QUEUED")
        assert "groupName" not in build["logs"]
    builds.api.stop_build(id=stopped)
    assert phases(builds.finished(stopped)) == {
        "SUBMITTED": "SUCCEEDED",
        "QUEUED": "STOPPED",
        "COMPLETED": "",
    }
    builds.api.stop_build(id=sleeper)
    assert builds.finished(waiting)["buildStatus"] == "SUCCEEDED"


def test_a_full_queue(builds: Builds) -> None:
    builds.aws.put_builds(concurrent_builds=0)
    project = builds.project(QUICK)
    waiting = [builds.start(project) for _ in range(5)]

    with pytest.raises(ClientError) as raised:
        builds.start(project)

    assert raised.value.response["Error"]["Code"] == "AccountLimitExceededException"
    assert (
        raised.value.response["Error"]["Message"] == "Cannot have more than 5 builds in queue for the account"
    )
    for build_id in waiting:
        builds.api.stop_build(id=build_id)
    assert {builds.finished(build_id)["buildStatus"] for build_id in waiting} == {"STOPPED"}


def test_injected_faults(builds: Builds) -> None:
    project, other = builds.project(QUICK), builds.project(QUICK)
    entry = {"mode": "fail", "phase": "PROVISIONING", "message": "Unable to pull the image"}
    builds.aws.put_faults(
        {
            f"codebuild:{project}": entry,
            "codebuild:*": {"mode": "fault", "phase": "DOWNLOAD_SOURCE"},
            "ml.g5.xlarge": {"mode": "quota"},
        }
    )

    failed, fault = builds.run(project), builds.run(other)

    assert failed["buildStatus"] == phases(failed)["PROVISIONING"] == "FAILED"
    assert contexts(failed, "PROVISIONING") == [
        ("BUILD_CONTAINER_UNABLE_TO_PULL_IMAGE", "Unable to pull the image")
    ]
    assert fault["buildStatus"] == phases(fault)["DOWNLOAD_SOURCE"] == "FAULT"

    builds.aws.put_faults({f"codebuild:{project}": {"mode": "delay", "phase": "QUEUED", "seconds": 600}})
    slow = builds.start(project)
    assert builds.run(other)["buildStatus"] == "SUCCEEDED"
    assert builds.get(slow)["currentPhase"] == "QUEUED"
    builds.api.stop_build(id=slow)
    builds.finished(slow)


def test_a_wrong_fault_or_setting_changes_nothing(builds: Builds) -> None:
    with pytest.raises(LocalAwsError, match=r"codebuild:x\.phase: 'NONE' is none of: QUEUED, PROVISIONING"):
        builds.aws.put_faults({"codebuild:x": {"mode": "fail", "phase": "NONE"}})
    with pytest.raises(LocalAwsError, match="concurrent_builds: -1 is not a number"):
        builds.aws.put_builds(concurrent_builds=-1)
    assert builds.run(builds.project(QUICK))["buildStatus"] == "SUCCEEDED"


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_nothing_is_left_when_the_local_aws_ends(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with LocalAws() as aws:
        builds = Builds(aws)
        started = pids(builds, builds.start(builds.project(SLEEPER)))
        if how == "killed":
            assert aws._process is not None
            aws._process.kill()
            # The process that left the group is found by the local AWS alone.
            (left,) = started[2:]
            del started[2:]

    deadline = time.monotonic() + 30
    while any(running(pid) for pid in started):
        assert time.monotonic() < deadline, started
        time.sleep(0.05)
    if how == "killed":
        os.kill(left, 9)
    else:
        assert list(tmp_path.glob("localaws-builds-*")) == []
