"""The attempts of one walk over an instance pool, read from the tags of its endpoint configurations. Pure.

The walk gives every type it tries an endpoint configuration named `<endpoint>-<hex of the content>-<index>`
with the tags `semif:endpoint`, `semif:pool` (types joined by one space), `semif:position` ("2/3") and
`semif:request-id` (of the CloudFormation request); `semif:started-at` once SageMaker accepted the call;
and once the try is over `semif:ended-at`, `semif:reason` and `semif:outcome` (in-service, capacity, quota,
failed).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

POSITION = re.compile(r"(\d{1,3})/(\d{1,3})")
MAX_TAG = 256
MAX_NAME_IN_CONFIGURATION = 48  # characters of the endpoint's name that its configurations' names begin with


@dataclass(frozen=True)
class Attempt:
    """One instance type that the walk tried, or is trying.

    `outcome` is "" while it lasts; `seconds` is how long it took, None while it lasts. `started_at` is when
    SageMaker accepted the call, or when the configuration was made if it did not (yet).
    """

    instance_type: str
    outcome: str
    reason: str
    seconds: float | None
    position: int
    pool: tuple[str, ...]
    started_at: datetime
    configuration: str
    request_id: str = ""

    @property
    def ended_at(self) -> datetime | None:
        """When the outcome was known."""
        if self.seconds is None:
            return None
        return datetime.fromtimestamp(self.started_at.timestamp() + self.seconds, UTC)

    @property
    def walk(self) -> str:
        """What all attempts of one walk share: the name without its index, and the request."""
        return f"{self.configuration.rpartition('-')[0]} {self.request_id}".strip()

    @property
    def next_type(self) -> str | None:
        """The type that the walk tries after this one, if it moves on."""
        return self.pool[self.position] if self.position < len(self.pool) else None


def read_attempt(
    configuration: str, tags: Mapping[str, str], endpoint: str, *, made_at: datetime
) -> Attempt | None:
    """The attempt that `tags` describe; None if they are not of a walk for `endpoint`, or not readable.

    `made_at` is the configuration's creation time.
    """
    position = POSITION.fullmatch(tags.get("semif:position", ""))
    if tags.get("semif:endpoint") != endpoint or position is None:
        return None
    index, count = int(position[1]), int(position[2])
    pool = _pool(tags.get("semif:pool", ""), count)
    if not 1 <= index <= len(pool):
        return None
    started_at = _moment(tags.get("semif:started-at", "")) or made_at
    ended_at = _moment(tags.get("semif:ended-at", ""))
    return Attempt(
        instance_type=pool[index - 1],
        outcome=tags.get("semif:outcome", ""),
        reason=tags.get("semif:reason", ""),
        seconds=None if ended_at is None else max(0.0, (ended_at - started_at).total_seconds()),
        position=index,
        pool=pool,
        started_at=started_at,
        configuration=configuration,
        request_id=tags.get("semif:request-id", ""),
    )


def latest_walk(attempts: Iterable[Attempt], *, since: datetime | None = None) -> list[Attempt]:
    """The attempts of the newest walk in order of position; none if it began before `since`."""
    found = [attempt for attempt in attempts if since is None or attempt.started_at >= since]
    if not found:
        return []
    newest = max(found, key=lambda attempt: attempt.started_at)
    return sorted((a for a in found if a.walk == newest.walk), key=lambda a: (a.position, a.started_at))


def _pool(text: str, count: int) -> tuple[str, ...]:
    """The pool's types; of a pool too long for a tag (256 characters) the last are known by number only."""
    types = text.split()
    whole = types[:-1] if len(text) >= MAX_TAG else types[:count]
    return (*whole, *(f"type {number}" for number in range(len(whole) + 1, count + 1)))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
