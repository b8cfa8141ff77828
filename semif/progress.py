"""What `semif watch` says: snapshots in, lines and an outcome out. Pure; the clock is in the snapshots.

A line is said once: `Progress` remembers the events and attempts that it has spoken of.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from semif.build_lines import BuildLines, build_state
from semif.closing import failure_lines, success_lines
from semif.deployment import Snapshot, Stack, StackEvent, is_endpoint_stack, is_own_event, is_start, pool_runs
from semif.errors import ExitCode
from semif.terminal import duration, printable, time_left
from semif.walk_lines import WalkLines, walk_state

HEARTBEAT_S = 30
SETTLE_S = 20  # after a stack is done, the CDK CLI takes some seconds until it begins the next one


@dataclass(frozen=True)
class Outcome:
    """The end: the exit code and the closing lines."""

    exit_code: ExitCode
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """What one snapshot adds: lines with their time, and the outcome once there is one."""

    lines: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclass
class Progress:
    """Follows one environment. `wait_s`: how long a stack may be missing; `tz` of the printed times.

    `expected`: the stacks that the deployment makes, where that is known.
    """

    env: str
    region: str
    tz: tzinfo | None = None
    wait_s: float = 300
    settle_s: float = SETTLE_S
    verbose: bool = False
    expected: Sequence[str] = ()
    _spoken: set[str] = field(default_factory=set)
    _walks: dict[str, WalkLines] = field(default_factory=dict)
    _builds: dict[str, BuildLines] = field(default_factory=dict)
    _active: set[str] = field(default_factory=set)
    _begun: bool = False
    _several: bool = False
    _quiet_since: datetime | None = None
    _last_line_at: datetime | None = None

    def step(self, snapshot: Snapshot) -> Step:
        """Take in one snapshot; the snapshots come in the order of their time."""
        first = not self._begun
        self._begun = True
        for stack in snapshot.stacks:
            if stack.under_way or (not first and self._began_unseen(stack)):
                self._active.add(stack.id)
        if first:
            self._pass_over(stack for stack in snapshot.stacks if not stack.under_way)
        walking = [stack for stack in snapshot.stacks if stack.id in self._active and pool_runs(stack.events)]
        self._several = self._several or len(walking) > 1
        said = sorted(
            (line for stack in snapshot.stacks for line in self._stack_lines(stack)), key=lambda line: line[0]
        )
        if self._quiet_since is None or any(stack.under_way for stack in snapshot.stacks):
            self._quiet_since = snapshot.now
        outcome = self._outcome(snapshot)
        if not said and outcome is None:
            said = self._pause_line(snapshot, first=first)
        if said:
            self._last_line_at = snapshot.now
        return Step(tuple(f"{self._clock(at)} {text}" for at, text in said), outcome)

    def _clock(self, at: datetime) -> str:
        return at.astimezone(self.tz).strftime("%H:%M:%S")

    def _began_unseen(self, stack: Stack) -> bool:
        """True if a whole operation fits between two snapshots."""
        return any(is_start(event, stack.id) and event.id not in self._spoken for event in stack.events)

    def _pass_over(self, stacks: Iterable[Stack]) -> None:
        for stack in stacks:
            self._spoken.update(event.id for event in stack.events)

    def _stack_lines(self, stack: Stack) -> list[tuple[datetime, str]]:
        if stack.id not in self._active:
            return []
        lines = []
        for event in stack.events:
            if event.id in self._spoken:
                continue
            self._spoken.add(event.id)
            if text := self._event_text(stack, event):
                lines.append((event.at, text))
        walk = self._walks.setdefault(stack.id, WalkLines())
        builds = self._builds.setdefault(stack.id, BuildLines())
        told = walk.lines(stack)
        if self._several:
            told = [(moment, _named(stack, text)) for moment, text in told]
        return lines + builds.lines(stack) + told

    def _event_text(self, stack: Stack, event: StackEvent) -> str:
        reason = f": {printable(event.cause)}" if event.reason else ""
        if is_own_event(event, stack.id):
            if event.status.endswith("_IN_PROGRESS"):
                begins = event.status in {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}
                return f"{stack.name} {event.status}{'' if begins else reason}"
            return f"{stack.name} {event.status} after {_since_start(stack, event.at)}"
        if event.failed or self.verbose:
            return f"{stack.name} {event.logical_id} {event.status}{reason}"
        return ""

    def _pause_line(self, snapshot: Snapshot, *, first: bool) -> list[tuple[datetime, str]]:
        since = self._last_line_at
        if not first and since is not None and (snapshot.now - since).total_seconds() < HEARTBEAT_S:
            return []
        under_way = [stack for stack in snapshot.stacks if stack.under_way]
        # A walk or a build is what people wait for; other stacks are named when there is none.
        waited_for = [(stack, text) for stack in under_way if (text := _waited_for(stack, snapshot.now))]
        if len(waited_for) > 1:
            # Several endpoints walk at the same time: each line says whose it is.
            return [(snapshot.now, _named(stack, text)) for stack, text in waited_for]
        if waited_for or under_way:
            text = waited_for[0][1] if waited_for else _stack_state(under_way[0], snapshot.now)
            return [(snapshot.now, text)]
        return [(snapshot.now, self._waiting_text(snapshot))]

    def _waiting_text(self, snapshot: Snapshot) -> str:
        if self._endpoint_exists(snapshot) or any(stack.gone for stack in snapshot.stacks):
            return "no stack is under way; waiting for the next one to begin"
        left = time_left(self.wait_s - self._quiet_s(snapshot))
        return f"{self.env} has no endpoint's stack yet in {self.region}; waiting for one, {left}"

    def _endpoint_stacks(self, snapshot: Snapshot) -> list[Stack]:
        found = (stack for stack in snapshot.stacks if is_endpoint_stack(self.env, stack.name))
        return [stack for stack in found if not stack.in_review]

    def _endpoint_exists(self, snapshot: Snapshot) -> bool:
        return bool(self._endpoint_stacks(snapshot))

    def _quiet_s(self, snapshot: Snapshot) -> float:
        quiet = snapshot.now - self._quiet_since if self._quiet_since else timedelta()
        return quiet.total_seconds()

    def _outcome(self, snapshot: Snapshot) -> Outcome | None:
        if any(stack.under_way for stack in snapshot.stacks):
            return None
        seen = [stack for stack in snapshot.stacks if stack.id in self._active]
        ended = [stack for stack in seen or snapshot.stacks if not stack.in_review]
        prefix = () if seen else (f"nothing is under way in {self.env} ({self.region}); the last result:",)
        if bad := [stack for stack in ended if not stack.good]:
            return Outcome(
                ExitCode.FAILED, (*prefix, *(line for stack in bad for line in failure_lines(stack)))
            )
        if self._more_may_come(snapshot, seen):
            return None
        if not self._endpoint_exists(snapshot) and not _destroyed(seen):
            return Outcome(ExitCode.FAILED, self._missing_lines())
        return Outcome(ExitCode.OK, (*prefix, *(line for stack in ended for line in success_lines(stack))))

    def _more_may_come(self, snapshot: Snapshot, seen: Sequence[Stack]) -> bool:
        """True while a stack that this deployment also makes may still begin."""
        # In review, a change set is being made: the deployment is about to go on.
        missing = not self._endpoint_exists(snapshot) and not _destroyed(seen)
        if missing or any(stack.in_review for stack in snapshot.stacks):
            return self._quiet_s(snapshot) < self.wait_s
        # A deployment need not touch every stack, so quiet is an end too.
        done = {stack.name for stack in seen if not stack.gone}
        complete = bool(self.expected) and done.issuperset(self.expected)
        return bool(seen) and not complete and self._quiet_s(snapshot) < self.settle_s

    def _missing_lines(self) -> tuple[str, ...]:
        return (
            f"{self.env} has no endpoint's stack in {self.region} after {duration(self.wait_s)}",
            f"next: deploy it (cdk deploy '{self.env}/*'), or check the name and the region",
        )


def _destroyed(seen: Sequence[Stack]) -> bool:
    """True if all that happened was deletion."""
    return bool(seen) and all(stack.gone for stack in seen)


def _waited_for(stack: Stack, now: datetime) -> str:
    return "; ".join(text for text in (build_state(stack, now), walk_state(stack, now)) if text)


def _named(stack: Stack, text: str) -> str:
    return text if text.startswith(stack.name) else f"{stack.name}: {text}"


def _stack_state(stack: Stack, now: datetime) -> str:
    state = {event.logical_id: event.status for event in stack.events if not is_own_event(event, stack.id)}
    working = [name for name, status in state.items() if status.endswith("_IN_PROGRESS")]
    done = f"{len(state) - len(working)} resources done"
    names = f", now {', '.join(working[:3])}{' …' if len(working) > 3 else ''}" if working else ""
    return f"{stack.name} {stack.status} for {_since_start(stack, now)}, {done}{names}"


def _since_start(stack: Stack, at: datetime) -> str:
    began = stack.events[0].at if stack.events else at
    return duration((at - began).total_seconds())
