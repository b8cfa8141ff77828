"""The walk of one stack as lines: each type that ends, what comes next, the time left. Pure.

The time left counts from CloudFormation's *_IN_PROGRESS event of the custom resource: the Provider framework
gives up `WALK_BUDGET_S` later.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from semif.attempts import Attempt, latest_walk
from semif.deployment import Run, Stack, pool_runs
from semif.terminal import duration, printable, time_left

WALK_BUDGET_S = 55 * 60
# The tags hold whole seconds, so an attempt may seem to begin just before the event that caused it.
CLOCK_SLACK = timedelta(seconds=2)


@dataclass
class WalkLines:
    """Remembers which attempts of a stack's walks have been spoken of."""

    _begun: set[tuple[str, int]] = field(default_factory=set)
    _over: set[tuple[str, datetime]] = field(default_factory=set)

    def lines(self, stack: Stack) -> list[tuple[datetime, str]]:
        """What is new, with the moment it happened."""
        lines = []
        runs = pool_runs(stack.events)
        for attempt in current_walk(stack, runs):
            if (attempt.walk, attempt.position) not in self._begun:
                self._begun.add((attempt.walk, attempt.position))
                # The tag's whole second may lie before the event that caused the attempt.
                began_at = max(attempt.started_at, runs[0].started_at)
                lines.append((began_at, f"{_place(attempt)}, {_left(runs, began_at)}"))
            ended_at, key = attempt.ended_at, (attempt.configuration, attempt.started_at)
            if not attempt.outcome or ended_at is None or key in self._over:
                continue
            self._over.add(key)
            text = f"{attempt.instance_type} {_result(attempt)}"
            if attempt.outcome not in {"capacity", "quota"}:
                lines.append((ended_at, text))
            elif next_type := attempt.next_type:
                self._begun.add((attempt.walk, attempt.position + 1))
                coming = f"{next_type}, {attempt.position + 1} of {len(attempt.pool)}"
                lines.append((ended_at, f"{text} → {coming}, {_left(runs, ended_at)}"))
            else:
                lines.append(
                    (ended_at, f"{text}, {attempt.position} of {len(attempt.pool)}, no type is left")
                )
        return lines


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
    last = attempts[-1]
    if not last.outcome:
        spent = duration((now - last.started_at).total_seconds())
        place = f"{last.position} of {len(last.pool)}"
        return f"{last.instance_type} for {spent}, {place}, {endpoint}, {_left(runs, now)}"
    if last.next_type and last.outcome in {"capacity", "quota"}:
        return (
            f"{last.next_type}, {last.position + 1} of {len(last.pool)}, next, {endpoint}, {_left(runs, now)}"
        )
    return f"{last.instance_type} {_result(last)}, {endpoint}, {_left(runs, now)}"


def _place(attempt: Attempt) -> str:
    return f"{attempt.instance_type}, {attempt.position} of {len(attempt.pool)}"


def _result(attempt: Attempt) -> str:
    after = f" after {duration(attempt.seconds or 0)}"
    reason = f": {printable(attempt.reason)}" if attempt.reason else ""
    match attempt.outcome:
        case "in-service":
            return f"in service{after}"
        case "capacity":
            return f"no capacity{after}"
        case "quota":
            return "no quota"
        case "failed":
            return f"failed{after}{reason}"
        case other:
            return f"{printable(other)}{after}{reason}"


def _left(runs: list[Run], at: datetime) -> str:
    begun = [run.started_at for run in runs if run.started_at - CLOCK_SLACK <= at]
    spent = at - (begun[-1] if begun else runs[0].started_at)
    return time_left(WALK_BUDGET_S - spent.total_seconds())
