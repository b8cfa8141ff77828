"""What a decision can say: the one next step, each with its reason."""

from dataclasses import dataclass
from typing import Literal

from instance_pool.attempts import Outcome


@dataclass(frozen=True)
class Wait:
    """Ask again at the next poll."""

    reason: str


@dataclass(frozen=True)
class Start:
    """Make the configuration at `index`, if it is not there, and create or update the endpoint with it."""

    index: int
    how: Literal["create", "update"]
    reason: str


@dataclass(frozen=True)
class Record:
    """Write down how the attempt at `index` ended, on its configuration, before anything is deleted."""

    index: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class DeleteEndpoint:
    """Delete the endpoint, which is ours."""

    reason: str


@dataclass(frozen=True)
class DeleteConfigurations:
    """Delete configurations, all ours and none in use."""

    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Done:
    """The endpoint serves the wanted pool's type at `index`."""

    index: int
    attempts: str
    reason: str


@dataclass(frozen=True)
class Gone:
    """Nothing of ours is left."""

    reason: str


@dataclass(frozen=True)
class Fail:
    """Stop for good. `code` is stable, `reason` is the cause, `advice` the one thing to do."""

    code: str
    reason: str
    advice: str
    attempts: str = ""


Step = Wait | Start | Record | DeleteEndpoint | DeleteConfigurations | Done | Gone | Fail
