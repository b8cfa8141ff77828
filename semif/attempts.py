"""The attempts of one walk over an instance pool, read from the tags of its endpoint configurations. Pure.

The walk gives every type it tries an endpoint configuration named `<endpoint>-<hex of the content>-<index>`
with the tags `semif:endpoint`, `semif:pool` (types joined by one space), `semif:position` ("2/3"),
`semif:started-at`, and, once the try is over, `semif:ended-at`, `semif:outcome` (in-service, capacity,
quota, failed) and `semif:reason`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_NAME_IN_CONFIGURATION = 48  # characters of the endpoint's name that its configurations' names begin with


@dataclass(frozen=True)
class Attempt:
    """One instance type that the walk tried, or is trying.

    `outcome` is "" while it lasts; `seconds` is how long it took, None while it lasts.
    """

    instance_type: str
    outcome: str
    reason: str
    seconds: float | None
    position: int
    pool: tuple[str, ...]
    started_at: datetime
    configuration: str

    @property
    def ended_at(self) -> datetime | None:
        """When the outcome was known."""
        if self.seconds is None:
            return None
        return datetime.fromtimestamp(self.started_at.timestamp() + self.seconds, UTC)

    @property
    def walk(self) -> str:
        """What all attempts of one walk share: the configuration's name without its index."""
        return self.configuration.rpartition("-")[0]

    @property
    def next_type(self) -> str | None:
        """The type that the walk tries after this one, if it moves on."""
        return self.pool[self.position] if self.position < len(self.pool) else None


def read_attempt(configuration: str, tags: Mapping[str, str], endpoint: str) -> Attempt | None:
    """The attempt that `tags` describe; None if they are not of a walk for `endpoint`, or not readable."""
    if tags.get("semif:endpoint") != endpoint:
        return None
    pool = tuple(tags.get("semif:pool", "").split())
    index = tags.get("semif:position", "").partition("/")[0]
    started_at = _moment(tags.get("semif:started-at", ""))
    if started_at is None or not index.isdecimal() or not 1 <= int(index) <= len(pool):
        return None
    ended_at = _moment(tags.get("semif:ended-at", ""))
    return Attempt(
        instance_type=pool[int(index) - 1],
        outcome=tags.get("semif:outcome", ""),
        reason=tags.get("semif:reason", ""),
        seconds=None if ended_at is None else (ended_at - started_at).total_seconds(),
        position=int(index),
        pool=pool,
        started_at=started_at,
        configuration=configuration,
    )


def latest_walk(attempts: Iterable[Attempt], *, since: datetime | None = None) -> list[Attempt]:
    """The attempts of the newest walk in order of position; none if it began before `since`."""
    found = [attempt for attempt in attempts if since is None or attempt.started_at >= since]
    if not found:
        return []
    newest = max(found, key=lambda attempt: attempt.started_at)
    return sorted((a for a in found if a.walk == newest.walk), key=lambda a: (a.position, a.started_at))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
