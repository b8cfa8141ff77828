"""An attempt at one instance type, and the tags on its endpoint configuration that are its only record."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

STACK_ID: Final = "semif:stack-id"
ENDPOINT: Final = "semif:endpoint"
POOL: Final = "semif:pool"
POSITION: Final = "semif:position"
REQUEST_ID: Final = "semif:request-id"
STARTED_AT: Final = "semif:started-at"
ENDED_AT: Final = "semif:ended-at"
OUTCOME: Final = "semif:outcome"
REASON: Final = "semif:reason"

TAG_VALUE_LIMIT: Final = 256
ATTEMPTS_LIMIT_BYTES: Final = 1000
_TOLD_REASON_LENGTH: Final = 120
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
        """Whether the walk tries the next instance type after this outcome."""
        return self in {Outcome.CAPACITY, Outcome.QUOTA}


@dataclass(frozen=True)
class Attempt:
    """What the tags of one configuration say. `started_at` is set once SageMaker accepted the call."""

    request_id: str
    outcome: Outcome | None = None
    reason: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


def first_tags(
    *, stack_id: str, endpoint_name: str, instance_types: Sequence[str], index: int, request_id: str
) -> dict[str, str]:
    """Tags a configuration is made with: who owns it and where in the pool it stands."""
    return {
        STACK_ID: tag_value(stack_id),
        ENDPOINT: tag_value(endpoint_name),
        POOL: tag_value(" ".join(instance_types)),
        POSITION: f"{index + 1}/{len(instance_types)}",
        REQUEST_ID: tag_value(request_id),
    }


def started_tags(now: datetime) -> dict[str, str]:
    """Tags for an attempt whose CreateEndpoint or UpdateEndpoint SageMaker accepted."""
    return {STARTED_AT: _format_time(now)}


def ended_tags(outcome: Outcome, reason: str, now: datetime) -> dict[str, str]:
    """Tags for an attempt that has ended; the reason is cut to what a tag can hold."""
    return {OUTCOME: outcome.value, REASON: tag_value(reason), ENDED_AT: _format_time(now)}


def parse_attempt(tags: Mapping[str, str]) -> Attempt:
    """Read an attempt back; tags that somebody changed into nonsense count as absent."""
    outcome = tags.get(OUTCOME, "")
    return Attempt(
        request_id=tags.get(REQUEST_ID, ""),
        outcome=Outcome(outcome) if outcome in set(Outcome) else None,
        reason=tags.get(REASON, ""),
        started_at=_parse_time(tags.get(STARTED_AT, "")),
        ended_at=_parse_time(tags.get(ENDED_AT, "")),
    )


def tag_value(text: str) -> str:
    r"""Text as a SageMaker tag value: pattern `[\p{L}\p{Z}\p{N}_.:/=+\-@]*`, at most 256 characters."""
    kept = "".join(c if c in _TAG_PUNCTUATION or unicodedata.category(c)[0] in "LN" else " " for c in text)
    return " ".join(kept.split())[:TAG_VALUE_LIMIT].strip()


def attempt_text(instance_type: str, attempt: Attempt) -> str:
    """One attempt in words, such as `ml.g6e.xlarge: no capacity after 9 m 12 s`."""
    words = {
        None: "not ended",
        Outcome.IN_SERVICE: "in service",
        Outcome.CAPACITY: "no capacity",
        Outcome.QUOTA: "no quota",
        Outcome.FAILED: "failed",
    }[attempt.outcome]
    if attempt.started_at is None or attempt.ended_at is None:
        return f"{instance_type}: {words}"
    seconds = max(0, round((attempt.ended_at - attempt.started_at).total_seconds()))
    return f"{instance_type}: {words} after {_duration_text(seconds)}"


def attempts_text(
    attempts: Iterable[tuple[str, Attempt]],
    limit_bytes: int = ATTEMPTS_LIMIT_BYTES,
    *,
    with_reasons: bool = False,
) -> str:
    """All attempts in order, at most `limit_bytes`; of too many, those in the middle are only counted."""
    entries = [
        attempt_text(instance_type, attempt)
        + (f" ({attempt.reason[:_TOLD_REASON_LENGTH]})" if with_reasons and attempt.reason else "")
        for instance_type, attempt in attempts
    ]
    for left_out in range(len(entries)):
        kept = len(entries) - left_out
        head, tail = entries[: kept // 2], entries[len(entries) - (kept - kept // 2) :]
        text = "; ".join([*head, f"{left_out} more", *tail] if left_out else entries)
        if len(text.encode()) <= limit_bytes:
            return text
    return f"{len(entries)} attempts" if entries else ""


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
