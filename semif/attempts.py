"""The attempts of one walk over an instance pool, read from the tags of its endpoint configurations. Pure.

The walk gives each attempt an endpoint configuration named `<endpoint>-<hex of the content>-<round>`, with
six hex digits more where it tries a part of a round. Its tags: `semif:endpoint`, `semif:position` ("2/3": the
round), `semif:pool` (the types of the attempt, joined by one space), `semif:next` (those of the next round),
`semif:skipped` and `semif:skipped-2` onwards (types passed over, each `TYPE: why`, joined by " / "),
`semif:last-resort` ("true") and `semif:request-id` (of the CloudFormation request, or of the climb);
`semif:started-at` once SageMaker accepted the call; and once the try is over `semif:ended-at`,
`semif:reason`, `semif:outcome` (in-service, capacity, quota, failed) and `semif:dropped` (the type that a
quota refusal named).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

POSITION = re.compile(r"(\d{1,3})/(\d{1,3})")
MAX_NAME_IN_CONFIGURATION = 40  # characters of the endpoint's name that its configurations' names begin with
SKIPPED_SEPARATOR = " / "
_NAME_END = re.compile(r"-\d{1,3}(-[0-9a-f]{6})?")


@dataclass(frozen=True)
class Attempt:
    """Types that the walk tried, or is trying, together.

    `outcome` is "" while it lasts; `seconds` is how long it took, None while it lasts. `started_at` is when
    SageMaker accepted the call, or when the configuration was made if it did not (yet). `position` counts the
    rounds from 1.
    """

    types: tuple[str, ...]
    outcome: str
    reason: str
    seconds: float | None
    position: int
    rounds: int
    started_at: datetime
    configuration: str
    next_types: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    last_resort: bool = False
    dropped: str = ""
    request_id: str = ""

    @property
    def instance_type(self) -> str:
        """Its types in one text; most often it is one."""
        return ", ".join(self.types)

    @property
    def ended_at(self) -> datetime | None:
        """When the outcome was known."""
        if self.seconds is None:
            return None
        return datetime.fromtimestamp(self.started_at.timestamp() + self.seconds, UTC)

    @property
    def walk(self) -> str:
        """What all attempts of one walk share: the name without its end, and the request."""
        stem = self.configuration
        if end := list(_NAME_END.finditer(stem)):
            stem = stem[: end[-1].start()]
        return f"{stem} {self.request_id}".strip()

    @property
    def moves_on(self) -> bool:
        """Whether the walk goes on to other types after this outcome."""
        return self.outcome in {"capacity", "quota"}

    @property
    def following(self) -> tuple[int, tuple[str, ...]] | None:
        """Round and types that come next if this outcome moves on; those left of a refused round first."""
        if self.outcome == "quota" and self.dropped in self.types and len(self.types) > 1:
            return self.position, tuple(name for name in self.types if name != self.dropped)
        return (self.position + 1, self.next_types) if self.next_types else None


def read_attempt(
    configuration: str, tags: Mapping[str, str], endpoint: str, *, made_at: datetime
) -> Attempt | None:
    """The attempt that `tags` describe; None if they are not of a walk for `endpoint`, or not readable.

    `made_at` is the configuration's creation time.
    """
    position = POSITION.fullmatch(tags.get("semif:position", ""))
    types = tuple(tags.get("semif:pool", "").split())
    if tags.get("semif:endpoint") != endpoint or position is None or not types:
        return None
    index, count = int(position[1]), int(position[2])
    if not 1 <= index <= count:
        return None
    started_at = _moment(tags.get("semif:started-at", "")) or made_at
    ended_at = _moment(tags.get("semif:ended-at", ""))
    return Attempt(
        types=types,
        outcome=tags.get("semif:outcome", ""),
        reason=tags.get("semif:reason", ""),
        seconds=None if ended_at is None else max(0.0, (ended_at - started_at).total_seconds()),
        position=index,
        rounds=count,
        started_at=started_at,
        configuration=configuration,
        next_types=tuple(tags.get("semif:next", "").split()),
        skipped=_skipped(tags),
        last_resort=tags.get("semif:last-resort") == "true",
        dropped=tags.get("semif:dropped", ""),
        request_id=tags.get("semif:request-id", ""),
    )


def latest_walk(attempts: Iterable[Attempt], *, since: datetime | None = None) -> list[Attempt]:
    """The attempts of the newest walk in their order; none if it began before `since`."""
    found = [attempt for attempt in attempts if since is None or attempt.started_at >= since]
    if not found:
        return []
    newest = max(found, key=lambda attempt: attempt.started_at)
    same = (attempt for attempt in found if attempt.walk == newest.walk)
    # Within a round a refusal leaves fewer types for the next attempt.
    return sorted(same, key=lambda a: (a.position, -len(a.types), a.started_at))


def _skipped(tags: Mapping[str, str]) -> tuple[str, ...]:
    numbered = sorted(
        (int(key.rpartition("-")[2]), value)
        for key, value in tags.items()
        if re.fullmatch(r"semif:skipped-\d{1,2}", key)
    )
    values = [tags.get("semif:skipped", ""), *(value for _, value in numbered)]
    return tuple(entry for value in values for entry in value.split(SKIPPED_SEPARATOR) if entry)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
