"""Follows a run of the CDK CLI: says what `semif watch` says, while the CLI's own output goes to a file.

The child's end is the end; what is watched only tells. No AWS in here.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semif.deployment import Snapshot
from semif.errors import ExitCode, SemifError
from semif.progress import Progress
from semif.terminal import printable

INTERVAL_S: Final = 2.0
TAIL_LINES: Final = 25


@dataclass(frozen=True)
class Rollout:
    """A run of the CLI: its name for people (`cdk deploy`), its process and the file with its output."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path


def follow_rollout(
    rollout: Rollout,
    progress: Progress,
    read: Callable[[], Snapshot],
    say: Callable[[str], None],
    *,
    interval_s: float = INTERVAL_S,
) -> int:
    """Say what happens until the child ends; returns its exit code. KeyboardInterrupt leaves it running."""
    watcher = _Watcher(rollout.name, progress, read, say)
    # At once: a stack that is soon deleted is known by its id only to who has seen it.
    watcher.look(over=False)
    while True:
        try:
            code = rollout.process.wait(interval_s)
        except subprocess.TimeoutExpired:
            watcher.look(over=False)
            continue
        # One more look: it has the last lines and the outputs.
        watcher.look(over=True)
        if code != 0:
            for line in failure_tail(rollout, code):
                say(line)
        return code


@dataclass
class _Watcher:
    """Looks, and says what is new; a look that fails is told once and tried again."""

    name: str
    progress: Progress
    read: Callable[[], Snapshot]
    say: Callable[[str], None]
    told: str = ""

    def look(self, *, over: bool) -> None:
        if over:
            # No further stack begins.
            self.progress.settle_s = 0
        try:
            step = self.progress.step(self.read())
        except SemifError as error:
            if self.told != error.code:
                self.told = error.code
                self.say(f"cannot look ({error.message}); {self.name} {'is over' if over else 'goes on'}")
            return
        self.told = ""
        # Between two stacks there seems to be an outcome: only the child's end says that this was all.
        outcome = step.outcome.lines if over and step.outcome else ()
        for line in (*step.lines, *outcome):
            self.say(line)


def failure_tail(rollout: Rollout, code: int) -> list[str]:
    """The last lines of the CLI's output."""
    lines = rollout.log.read_text("utf-8", "replace").splitlines()
    kept = [printable(line) for line in lines if line.strip()][-TAIL_LINES:]
    return [
        f"{rollout.name} ended with exit code {code}; its last lines ({rollout.log} has all):",
        *(f"  {line}" for line in kept),
    ]


def interrupted(rollout: Rollout, env: str, say: Callable[[str], None]) -> ExitCode:
    """Say after Ctrl-C what goes on, and how to follow and to stop it."""
    process = rollout.process.pid
    for line in (
        "",
        f"no longer watching; {rollout.name} goes on as process {process}, its output in {rollout.log}",
        f"next: semif watch {env} follows it again; kill {process} keeps it from beginning another stack,"
        " but what CloudFormation is at goes on until it is done or rolled back",
    ):
        say(line)
    return ExitCode.INTERRUPTED
