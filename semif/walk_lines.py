"""The walk of one stack as lines: each attempt that ends, what comes next, the time left. Pure.

The time left counts from CloudFormation's *_IN_PROGRESS event of the custom resource: the walk fails by
itself `WALK_BUDGET_S` later, before the Provider framework gives up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from semif.attempts import Attempt, latest_walk
from semif.deployment import Endpoint, Run, Stack, pool_runs
from semif.terminal import duration, printable, time_left

WALK_BUDGET_S = 50 * 60
# The tags hold whole seconds, so an attempt may seem to begin just before the event that caused it.
CLOCK_SLACK = timedelta(seconds=2)


@dataclass
class WalkLines:
    """Remembers which attempts of a stack's walks have been spoken of."""

    _begun: set[tuple[str, int, tuple[str, ...]]] = field(default_factory=set)
    _over: set[tuple[str, datetime]] = field(default_factory=set)
    _skipped: set[tuple[str, str]] = field(default_factory=set)

    def lines(self, stack: Stack) -> list[tuple[datetime, str]]:
        """What is new, with the moment it happened."""
        lines = []
        runs = pool_runs(stack.events)
        for attempt in current_walk(stack, runs):
            # The tag's whole second may lie before the event that caused the attempt.
            began_at = max(attempt.started_at, runs[0].started_at)
            lines += [(began_at, text) for text in self._begin(attempt, f", {_left(runs, began_at)}")]
            if attempt.ended_at is not None:
                left = f", {_left(runs, attempt.ended_at)}"
                lines += [(attempt.ended_at, text) for text in self._end(attempt, stack.endpoint, left)]
        return lines

    def attempt_lines(self, attempts: Iterable[Attempt], endpoint: Endpoint | None) -> list[str]:
        """What is new of the attempts of a climb: nobody knows the time left, nor what it tries next."""
        lines = []
        for attempt in attempts:
            lines += [*self._begin(attempt, ""), *self._end(attempt, endpoint, None)]
        return lines

    def _begin(self, attempt: Attempt, left: str) -> list[str]:
        lines = []
        for entry in attempt.skipped:
            if (attempt.walk, entry) not in self._skipped:
                self._skipped.add((attempt.walk, entry))
                name, colon, why = entry.partition(": ")
                lines.append(printable(f"{name} skipped{colon}{why}"))
        key = (attempt.walk, attempt.position, attempt.types)
        if key not in self._begun:
            self._begun.add(key)
            lines.append(f"{_place(attempt)}{left}")
        return lines

    def _end(self, attempt: Attempt, endpoint: Endpoint | None, left: str | None) -> list[str]:
        key = (attempt.configuration, attempt.started_at)
        if not attempt.outcome or attempt.ended_at is None or key in self._over:
            return []
        self._over.add(key)
        if not attempt.moves_on:
            serving = endpoint.serving_types if endpoint and attempt.outcome == "in-service" else ()
            return [f"{' and '.join(serving) or _types(attempt.types)} {_result(attempt)}"]
        text = f"{_types(attempt.types)} {_result(attempt)}"
        if left is None:
            return [text]
        if attempt.following is None:
            return [f"{text}, {attempt.position} of {attempt.rounds}, no type is left"]
        position, types = attempt.following
        self._begun.add((attempt.walk, position, types))
        return [f"{text} → {_types(types)}, {position} of {attempt.rounds}{left}"]


def current_walk(stack: Stack, runs: list[Run]) -> list[Attempt]:
    """The attempts of the walk that this operation of the stack began, in order."""
    return latest_walk(stack.attempts, since=runs[0].started_at - CLOCK_SLACK) if runs else []


def walk_state(stack: Stack, now: datetime) -> str:
    """The heartbeat's words while the custom resource works; "" when it does not."""
    runs = pool_runs(stack.events)
    if not runs or runs[-1].ended:
        return ""
    run = runs[-1]
    endpoint = f"endpoint {stack.endpoint.status}" if stack.endpoint else "no endpoint"
    attempts = [a for a in current_walk(stack, runs) if a.started_at >= run.started_at - CLOCK_SLACK]
    if run.verb == "DELETE":
        return f"{stack.name} deletes its endpoint, {endpoint}, {_left(runs, now)}"
    if not attempts:
        doing = "goes back to the endpoint before" if "ROLLBACK" in stack.status else "has tried no type yet"
        return f"{stack.name} {doing}, {endpoint}, {_left(runs, now)}"
    return f"{attempt_state(attempts[-1], now)}, {endpoint}, {_left(runs, now)}"


def attempt_state(last: Attempt, now: datetime) -> str:
    """What the walk is at, whose newest attempt is `last`."""
    if not last.outcome:
        spent = duration((now - last.started_at).total_seconds())
        return f"{_types(last.types)} for {spent}, {last.position} of {last.rounds}"
    if last.moves_on and last.following:
        position, types = last.following
        return f"{_types(types)}, {position} of {last.rounds}, next"
    return f"{_types(last.types)} {_result(last)}"


def _types(types: Sequence[str]) -> str:
    """Types of one native pool: SageMaker takes what it finds, the first ones first."""
    return printable(" or ".join(types))


def _place(attempt: Attempt) -> str:
    resort = ", the last resort" if attempt.last_resort else ""
    return f"{_types(attempt.types)}, {attempt.position} of {attempt.rounds}{resort}"


def _result(attempt: Attempt) -> str:
    after = f" after {duration(attempt.seconds or 0)}"
    reason = f": {printable(attempt.reason)}" if attempt.reason else ""
    match attempt.outcome:
        case "in-service":
            return f"in service{after}{', DEGRADED: it is the last resort' if attempt.last_resort else ''}"
        case "capacity":
            return f"no capacity{after}"
        case "quota":
            return f"no quota{f' for {printable(attempt.dropped)}' if len(attempt.types) > 1 else ''}"
        case "failed":
            return f"failed{after}{reason}"
        case other:
            return f"{printable(other)}{after}{reason}"


def _left(runs: list[Run], at: datetime) -> str:
    begun = [run.started_at for run in runs if run.started_at - CLOCK_SLACK <= at]
    spent = at - (begun[-1] if begun else runs[0].started_at)
    return time_left(WALK_BUDGET_S - spent.total_seconds())
