"""Recorded deployments as short tables: what CloudFormation and SageMaker hold at each second."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from semif.attempts import Attempt
from semif.builds import Build
from semif.deployment import (
    BUILD_TYPE,
    POOL_TYPE,
    STACK_TYPE,
    Endpoint,
    Snapshot,
    Stack,
    StackEvent,
    last_operation,
)
from semif.progress import Progress, Step

PROJECT = "semif-dev-image-cpu"
NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@dataclass
class RecordedStack:
    """A stack whose events, endpoint and attempts grow as the recording goes on."""

    name: str
    generation: int = 1
    status: str = "REVIEW_IN_PROGRESS"
    reason: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    events: list[StackEvent] = field(default_factory=list)
    endpoint: Endpoint | None = None
    attempts: list[Attempt] = field(default_factory=list)
    builds: dict[str, Build] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"arn:aws:cloudformation:eu-central-1:111122223333:stack/{self.name}/{self.generation}"

    def own(self, second: float, status: str, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        self._event(second, (self.name, STACK_TYPE, self.id), status, reason)

    def resource(
        self, second: float, logical_id: str, status: str, reason: str = "", kind: str = "AWS::IAM::Role"
    ) -> None:
        self._event(second, (logical_id, kind, f"{logical_id}-physical"), status, reason)

    def pool(
        self, second: float, status: str, reason: str = "", endpoint: str = "semif-dev-decisions"
    ) -> None:
        self._event(second, ("Endpoint", POOL_TYPE, endpoint), status, reason)

    def try_type(self, second: float, pool: Sequence[str], position: int, walk: str = "0a1b2c3d4e") -> None:
        """Try one type of a pool that is walked type by type."""
        self.try_round(second, [(name,) for name in pool], position, walk)

    def try_round(
        self,
        second: float,
        rounds: Sequence[tuple[str, ...]],
        position: int,
        walk: str = "0a1b2c3d4e",
        **more: Any,
    ) -> None:
        attempt = Attempt(
            types=rounds[position - 1],
            outcome="",
            reason="",
            seconds=None,
            position=position,
            rounds=len(rounds),
            started_at=at(second),
            configuration=f"{self.name}-{walk}-{position - 1}",
            next_types=rounds[position] if position < len(rounds) else (),
        )
        self.attempts.append(replace(attempt, **more))

    def end_type(self, second: float, outcome: str, reason: str = "", dropped: str = "") -> None:
        last = self.attempts[-1]
        spent_s = (at(second) - last.started_at).total_seconds()
        self.attempts[-1] = replace(last, outcome=outcome, reason=reason, seconds=spent_s, dropped=dropped)

    def build_run(self, second: float, status: str, reason: str = "", project: str = PROJECT) -> None:
        properties = {"ProjectName": project, "ContentHash": "a" * 64, "TimeoutMinutes": "50"}
        self._event(
            second,
            ("ImageCpuBuild", BUILD_TYPE, f"{project}-build-run"),
            status,
            reason,
            json.dumps(properties),
        )

    def build(self, second: float, phase: str, ahead: int = 0, project: str = PROJECT) -> None:
        """The project's build enters a phase; its first phase begins it."""
        build_id = f"{project}:0001"
        last = self.builds.get(build_id)
        self.builds[build_id] = Build(
            id=build_id,
            status="IN_PROGRESS",
            phase=phase,
            phase_since=last.phase_since if last and last.phase == phase else at(second),
            started_at=last.started_at if last else at(second),
            ended_at=None,
            content_hash="a" * 64,
            ahead=ahead,
        )

    def end_build(self, second: float, status: str, project: str = PROJECT, **more: object) -> None:
        build_id = f"{project}:0001"
        over = {"status": status, "ended_at": at(second), **more}
        self.builds[build_id] = replace(self.builds[build_id], **over)  # type: ignore[arg-type]

    def view(self) -> Stack:
        return Stack(
            name=self.name,
            id=self.id,
            status=self.status,
            reason=self.reason,
            outputs=dict(self.outputs),
            events=last_operation(self.events, self.id),
            endpoint=self.endpoint,
            attempts=tuple(self.attempts),
            builds=tuple(self.builds.values()),
        )

    def _event(
        self,
        second: float,
        resource: tuple[str, str, str],
        status: str,
        reason: str,
        properties: str = "",
    ) -> None:
        logical_id, kind, physical_id = resource
        event_id = f"{self.name}-{self.generation}-{len(self.events)}"
        self.events.append(
            StackEvent(event_id, at(second), logical_id, physical_id, kind, status, reason, properties)
        )


@dataclass
class Watcher:
    """Feeds snapshots to one `Progress` and collects what it says."""

    stacks: list[RecordedStack] = field(default_factory=list)
    progress: Progress = field(
        default_factory=lambda: Progress("dev", "eu-central-1", tz=UTC, expected=["semif-dev-decisions"])
    )
    said: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def look(self, second: float) -> Step:
        """Take one snapshot; after the outcome nobody looks any more."""
        assert self.exit_code is None, "watched on after the outcome"
        step = self.progress.step(Snapshot(at(second), tuple(stack.view() for stack in self.stacks)))
        self.said += step.lines
        if step.outcome:
            self.said += step.outcome.lines
            self.exit_code = step.outcome.exit_code
        return step

    def look_until(self, first: int, last: int, every: int = 2) -> None:
        for second in range(first, last + 1, every):
            self.look(second)
