"""The builds of one stack as lines: the queue, each phase, the end, and why a build failed. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from semif.builds import Build
from semif.deployment import Stack, build_runs
from semif.terminal import duration, printable, time_left


@dataclass
class BuildLines:
    """Remembers which phases of a stack's builds have been spoken of."""

    _spoken: set[tuple[str, str]] = field(default_factory=set)

    def lines(self, stack: Stack) -> list[tuple[datetime, str]]:
        """What is new, with the moment it happened; not a phase that comes and goes between two looks."""
        lines = []
        for build in stack.builds:
            key = (build.id, build.phase if build.ended_at is None else "over")
            if key in self._spoken:
                continue
            self._spoken.add(key)
            if build.ended_at is None:
                lines.append((build.phase_since, f"{build.project} {_place(build)}"))
            else:
                lines += [(build.ended_at, text) for text in _end(build)]
        return lines


def build_state(stack: Stack, now: datetime) -> str:
    """The heartbeat's words while the stack waits for builds; "" when it does not."""
    running = [build for build in stack.builds if build.ended_at is None]
    texts = []
    for run in build_runs(stack.events):
        if run.last.ended:
            continue
        own = [build for build in running if build.project == run.project]
        state = f"{run.project} {_place(own[0], now)}" if own else f"{run.project} has no build yet"
        if run.last.verb == "DELETE":
            state = f"{state}, being stopped" if own else f"{run.project} is let go"
        elif run.timeout_minutes is not None:
            spent_s = (now - run.last.started_at).total_seconds()
            state = f"{state}, {time_left(run.timeout_minutes * 60 - spent_s)}"
        texts.append(state)
    return "; ".join(texts)


def _place(build: Build, now: datetime | None = None) -> str:
    """Phase, its seconds so far, and the builds of the project that are to go before it."""
    spent = f" for {duration((now - build.phase_since).total_seconds())}" if now else ""
    ahead = ""
    if build.waiting and build.ahead:
        ahead = f" behind {build.ahead} build{'s' if build.ahead > 1 else ''}"
    return f"{build.phase}{spent}{ahead}"


def _end(build: Build) -> list[str]:
    spent = duration(((build.ended_at or build.started_at) - build.started_at).total_seconds())
    if not build.bad:
        return [f"{build.project} {build.status} after {spent}"]
    context = f": {printable(build.context)}" if build.context else ""
    lines = [f"{build.project} {build.status} in {build.phase} after {spent}{context}"]
    lines += [f"{build.project} | {printable(line)}" for line in build.log]
    if build.link and build.status != "STOPPED":
        lines.append(f"{build.project} log: {printable(build.link)}")
    return lines
