"""What a decision can say: the one next step, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from instance_pool.attempts import Outcome


@dataclass(frozen=True)
class Wait:
    """Ask again at the next poll."""

    reason: str


@dataclass(frozen=True)
class ReadLimits:
    """Read the account's quotas, then decide again: types are about to be chosen."""

    reason: str


@dataclass(frozen=True)
class Start:
    """Make this configuration, if it is not there; else create or update the endpoint with it.

    `types` of the round at `index`; `skipped`: the types left out on the way here, each `TYPE: why`.
    """

    configuration_name: str
    index: int
    types: tuple[str, ...]
    how: Literal["create", "update"]
    reason: str
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Write down how an attempt ended, on its configuration, before anything is deleted."""

    configuration_name: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class DeleteEndpoint:
    """Delete the endpoint, which is ours. `successor`: the configuration that takes over its scaling."""

    reason: str
    successor: str = ""


@dataclass(frozen=True)
class DeleteConfigurations:
    """Delete configurations, all ours and none in use."""

    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class RestoreScaling:
    """Register the variant with Application Auto Scaling as these configurations have it recorded."""

    configuration_names: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Tag:
    """Give the endpoint the wanted tags and take those away that the resource had before."""

    add: Mapping[str, str]
    remove: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Done:
    """The endpoint serves a fleet of the wanted pool's round at `index`."""

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


Step = (
    Wait
    | ReadLimits
    | Start
    | Record
    | DeleteEndpoint
    | DeleteConfigurations
    | RestoreScaling
    | Tag
    | Done
    | Gone
    | Fail
)
