"""A child process and what is said meanwhile: the child is real, what is watched is recorded."""

import subprocess
import sys
from datetime import UTC
from pathlib import Path

import pytest

from semif.deployment import Snapshot
from semif.errors import ExitCode, ThrottledError
from semif.progress import Progress
from semif.rollout import Rollout, follow_rollout, interrupted
from tests.semif.recording import RecordedStack, at


def child(tmp_path: Path, code: str) -> Rollout:
    log = tmp_path / "deploy.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=output)
    return Rollout("cdk deploy", process, log)


def let_end(rollout: Rollout) -> None:
    assert rollout.process.stdin is not None
    rollout.process.stdin.close()
    rollout.process.wait()


def follow(rollout: Rollout, stack: RecordedStack, script: list[object]) -> tuple[int, list[str]]:
    """Each look takes the next step of the script: an event, an error, or the child's end."""
    said: list[str] = []
    steps = iter([*enumerate(script)])

    def read() -> Snapshot:
        second, step = next(steps, (len(script), None))
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            stack.own(second, step)
        if step is None and rollout.process.poll() is None:
            let_end(rollout)
        return Snapshot(at(second), (stack.view(),) if stack.events else ())

    progress = Progress("dev", "eu-central-1", tz=UTC)
    return follow_rollout(rollout, progress, read, said.append, interval_s=0.01), said


def test_the_outcome_is_the_childs_and_comes_last(tmp_path: Path) -> None:
    rollout = child(tmp_path, "import sys; sys.stdin.read()")
    stack = RecordedStack("semif-dev-decisions")
    script = ["CREATE_IN_PROGRESS", ThrottledError("Throttling", "slow down"), "CREATE_COMPLETE", 0, None]
    code, said = follow(rollout, stack, script)
    assert code == 0
    assert said[:2] == [
        "12:00:00 semif-dev-decisions CREATE_IN_PROGRESS",
        "cannot look (slow down); cdk deploy goes on",
    ]
    assert said[-1] == "semif-dev-decisions CREATE_COMPLETE"
    assert said.count("semif-dev-decisions CREATE_COMPLETE") == 1


def test_a_failure_shows_the_last_lines_of_the_cli(tmp_path: Path) -> None:
    rollout = child(
        tmp_path, "import sys; sys.stdin.read(); [print('line', i) for i in range(99)]; sys.exit(3)"
    )
    code, said = follow(rollout, RecordedStack("semif-dev-decisions"), [None])
    assert code == 3
    assert f"cdk deploy ended with exit code 3; its last lines ({rollout.log} has all):" in said
    assert said[-1] == "  line 98"
    assert "  line 0" not in said


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    rollout = child(tmp_path, "import sys; sys.stdin.read()")
    said: list[str] = []

    def read() -> Snapshot:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow_rollout(rollout, Progress("dev", "r"), read, said.append, interval_s=0.01)
    assert rollout.process.poll() is None
    assert interrupted(rollout, "dev", said.append) == ExitCode.INTERRUPTED
    assert f"process {rollout.process.pid}" in said[1]
    let_end(rollout)
