"""What is known at one moment: the project's builds, and whether the wanted content is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class BuildStatus(StrEnum):
    """buildStatus of BatchGetBuilds; a status that AWS adds later reads as UNKNOWN, which is waited for."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAULT = "FAULT"
    TIMED_OUT = "TIMED_OUT"
    IN_PROGRESS = "IN_PROGRESS"
    STOPPED = "STOPPED"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def _missing_(cls, value: object) -> "BuildStatus":
        return cls.UNKNOWN


@dataclass(frozen=True)
class Build:
    """One build. `ended_at` is None exactly while it runs; the last three come from its environment.

    `phase` is the phase that failed of one that ended badly, else the current one; `context` is what
    CodeBuild says of it.
    """

    id: str
    status: BuildStatus
    phase: str
    context: str
    started_at: datetime
    ended_at: datetime | None
    log_group: str
    log_stream: str
    link: str
    content_hash: str
    request_id: str
    stack_id: str

    @property
    def running(self) -> bool:
        """Whether it is queued, under way or being stopped."""
        return self.ended_at is None


@dataclass(frozen=True)
class Observation:
    """The basis of one decision.

    `content` holds the attributes that the resource answers, once the content is there; else None. It is read
    after `builds`, so a build that is seen to have succeeded has had its chance to show its content.
    """

    now: datetime
    builds: tuple[Build, ...]
    content: Mapping[str, str] | None
