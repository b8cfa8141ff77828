"""An attempt at some instance types, and the tags on its endpoint configuration that are its only record."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

STACK_ID: Final = "semif:stack-id"
ENDPOINT: Final = "semif:endpoint"
POOL: Final = "semif:pool"
NEXT: Final = "semif:next"
POSITION: Final = "semif:position"
LAST_RESORT: Final = "semif:last-resort"
SKIPPED: Final = "semif:skipped"
REQUEST_ID: Final = "semif:request-id"
STARTED_AT: Final = "semif:started-at"
REASON_BEFORE: Final = "semif:reason-before"
ENDED_AT: Final = "semif:ended-at"
OUTCOME: Final = "semif:outcome"
DROPPED: Final = "semif:dropped"
REASON: Final = "semif:reason"
OWN_TAGS: Final = "semif:"
"""What the names of all tags begin with that the walk itself sets."""

TAG_VALUE_LIMIT: Final = 256
ATTEMPTS_LIMIT_BYTES: Final = 1000
SEPARATOR: Final = " / "
_SKIPPED_TAGS: Final = 6
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_TAG_PUNCTUATION: Final = frozenset("_.:/=+-@")


class Outcome(StrEnum):
    """How an attempt ended."""

    IN_SERVICE = "in-service"
    CAPACITY = "capacity"
    QUOTA = "quota"
    FAILED = "failed"

    @property
    def moves_on(self) -> bool:
        """Whether the walk tries other instance types after this outcome."""
        return self in {Outcome.CAPACITY, Outcome.QUOTA}


@dataclass(frozen=True)
class Attempt:
    """What the tags of one configuration say. `started_at` is set once SageMaker accepted the call.

    `dropped` is the type that a quota refusal named; `skipped` says which types were not tried, each
    `TYPE: why`; `reason_before` is the FailureReason that the endpoint still showed when the update began.
    """

    request_id: str
    types: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    dropped: str = ""
    skipped: tuple[str, ...] = ()
    reason_before: str = ""


def first_tags(
    *,
    stack_id: str,
    endpoint_name: str,
    request_id: str,
    types: Sequence[str],
    next_types: Sequence[str],
    index: int,
    rounds: int,
    last_resort: bool,
    skipped: Sequence[str],
) -> dict[str, str]:
    """Tags a configuration is made with: who owns it, what it tries, and where in the pool it stands."""
    tags = {
        STACK_ID: tag_value(stack_id),
        ENDPOINT: tag_value(endpoint_name),
        POOL: tag_value(" ".join(types)),
        POSITION: f"{index + 1}/{rounds}",
        REQUEST_ID: tag_value(request_id),
        **_skipped_tags(skipped),
    }
    if next_types:
        tags[NEXT] = tag_value(" ".join(next_types))
    if last_resort:
        tags[LAST_RESORT] = "true"
    return tags


def started_tags(now: datetime, reason_before: str = "") -> dict[str, str]:
    """Tags for an attempt whose CreateEndpoint or UpdateEndpoint SageMaker accepted."""
    before = {REASON_BEFORE: tag_value(reason_before)} if reason_before else {}
    return {STARTED_AT: _format_time(now), **before}


def ended_tags(outcome: Outcome, reason: str, now: datetime, dropped: str = "") -> dict[str, str]:
    """Tags for an attempt that has ended; the reason is cut to what a tag can hold."""
    tags = {OUTCOME: outcome.value, REASON: tag_value(reason), ENDED_AT: _format_time(now)}
    return tags | ({DROPPED: tag_value(dropped)} if dropped else {})


def parse_attempt(tags: Mapping[str, str]) -> Attempt:
    """Read an attempt back; tags that somebody changed into nonsense count as absent."""
    outcome = tags.get(OUTCOME, "")
    keys = [SKIPPED, *(f"{SKIPPED}-{number}" for number in range(2, _SKIPPED_TAGS + 1))]
    return Attempt(
        request_id=tags.get(REQUEST_ID, ""),
        types=tuple(tags.get(POOL, "").split()),
        outcome=Outcome(outcome) if outcome in set(Outcome) else None,
        reason=tags.get(REASON, ""),
        started_at=_parse_time(tags.get(STARTED_AT, "")),
        ended_at=_parse_time(tags.get(ENDED_AT, "")),
        dropped=tags.get(DROPPED, ""),
        skipped=tuple(entry for key in keys for entry in tags.get(key, "").split(SEPARATOR) if entry),
        reason_before=tags.get(REASON_BEFORE, ""),
    )


def tag_value(text: str) -> str:
    r"""Text as a SageMaker tag value: pattern `[\p{L}\p{Z}\p{N}_.:/=+\-@]*`, at most 256 characters."""
    kept = "".join(c if c in _TAG_PUNCTUATION or unicodedata.category(c)[0] in "LN" else " " for c in text)
    return " ".join(kept.split())[:TAG_VALUE_LIMIT].strip()


def attempt_text(attempt: Attempt, serving: Sequence[str] = ()) -> str:
    """One attempt in words, such as `ml.g6e.xlarge: no capacity after 9 m 12 s`.

    Of a round that serves, `serving` are the types that really do.
    """
    words = {
        None: "not ended",
        Outcome.IN_SERVICE: "in service",
        Outcome.CAPACITY: "no capacity",
        Outcome.QUOTA: "no quota",
        Outcome.FAILED: "failed",
    }[attempt.outcome]
    types: Sequence[str] = attempt.types
    if attempt.outcome is Outcome.IN_SERVICE and serving:
        types = serving
    elif attempt.outcome is Outcome.QUOTA and attempt.dropped in attempt.types:
        types = (attempt.dropped,)
    text = f"{', '.join(types)}: {words}"
    if attempt.started_at is None or attempt.ended_at is None:
        return text
    seconds = max(0, round((attempt.ended_at - attempt.started_at).total_seconds()))
    return f"{text} after {_duration_text(seconds)}"


def passed_over(attempt: Attempt, serving: Sequence[str]) -> tuple[str, ...]:
    """Types of a round that serves that come before one that serves and that SageMaker did not take."""
    if attempt.outcome is not Outcome.IN_SERVICE or not set(serving) & set(attempt.types):
        return ()
    last = max(index for index, name in enumerate(attempt.types) if name in serving)
    return tuple(name for name in attempt.types[:last] if name not in serving)


def joined(entries: Sequence[str], limit_bytes: int = ATTEMPTS_LIMIT_BYTES) -> str:
    """All entries in order, at most `limit_bytes`; of too many, those in the middle are only counted."""
    for left_out in range(len(entries)):
        kept = len(entries) - left_out
        head, tail = entries[: kept // 2], entries[len(entries) - (kept - kept // 2) :]
        text = "; ".join([*head, f"{left_out} more", *tail] if left_out else entries)
        if len(text.encode()) <= limit_bytes:
            return text
    return f"{len(entries)} entries" if entries else ""


def _skipped_tags(skipped: Sequence[str]) -> dict[str, str]:
    """As many tags as the entries need, six at most; what is left out is counted in the last."""
    values: list[str] = []
    for number, entry in enumerate(skipped):
        text = " ".join(word for word in tag_value(entry).split() if word != SEPARATOR.strip())
        rest = f"{len(skipped) - number} more types"
        if values and len(values[-1]) + len(SEPARATOR) + len(text) <= TAG_VALUE_LIMIT:
            values[-1] += SEPARATOR + text
        elif len(values) < _SKIPPED_TAGS - 1:
            values.append(text)
        else:
            values.append(rest)
            break
    return {SKIPPED if n == 0 else f"{SKIPPED}-{n + 1}": value for n, value in enumerate(values)}


def _duration_text(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_TIME_FORMAT)


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
