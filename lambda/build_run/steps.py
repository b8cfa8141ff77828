"""What a decision can say: the one next step, each with its reason."""

from dataclasses import dataclass

from build_run.observation import Build


@dataclass(frozen=True)
class Wait:
    """Ask again at the next poll."""

    reason: str


@dataclass(frozen=True)
class Start:
    """Start the one build that this request may start."""

    reason: str


@dataclass(frozen=True)
class Stop:
    """Stop these builds, which are this stack's, and ask again at the next poll."""

    build_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Done:
    """The content is there. `build_id` is "" when it was there before this request."""

    build_id: str
    reason: str


@dataclass(frozen=True)
class Gone:
    """No build of this stack runs."""

    reason: str


@dataclass(frozen=True)
class Fail:
    """Stop for good. `code` is stable, `reason` is the cause, `advice` the one thing to do.

    `build` is the build to tell about, if there is one; `build_ids` are to be stopped first.
    """

    code: str
    reason: str
    advice: str
    build: Build | None = None
    build_ids: tuple[str, ...] = ()


Step = Wait | Start | Stop | Done | Gone | Fail
