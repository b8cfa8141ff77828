"""A variant's registration with Application Auto Scaling, and its record in a configuration's tags. Pure.

SageMaker refuses an update that changes the instance types of a registered variant. So the registration is
taken away for the time of the update; what it was lies in tags until it is restored.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

NAMESPACE: Final = "sagemaker"
DIMENSION: Final = "sagemaker:variant:DesiredInstanceCount"
RECORD: Final = "semif:scaling"
_CHUNK: Final = 256  # characters of a tag's value
_DIGEST: Final = 10
_TARGET: Final = ("MinCapacity", "MaxCapacity", "SuspendedState")
_POLICY: Final = (
    "PolicyName",
    "PolicyType",
    "TargetTrackingScalingPolicyConfiguration",
    "StepScalingPolicyConfiguration",
    "PredictiveScalingPolicyConfiguration",
)
_ACTION: Final = (
    "ScheduledActionName",
    "Schedule",
    "Timezone",
    "StartTime",
    "EndTime",
    "ScalableTargetAction",
)


class ScalingRecordError(ValueError):
    """The tags hold a record that somebody changed or cut."""


@dataclass(frozen=True)
class Scaling:
    """What registers a variant again: parameters of RegisterScalableTarget, PutScalingPolicy and so on.

    Without what names the variant; times are ISO texts.
    """

    target: Mapping[str, Any]
    policies: tuple[Mapping[str, Any], ...] = ()
    scheduled_actions: tuple[Mapping[str, Any], ...] = ()


def resource_id(endpoint_name: str, variant_name: str) -> str:
    """The variant's name at Application Auto Scaling."""
    return f"endpoint/{endpoint_name}/variant/{variant_name}"


def scaling(
    target: Mapping[str, Any],
    policies: Iterable[Mapping[str, Any]],
    scheduled_actions: Iterable[Mapping[str, Any]],
) -> Scaling:
    """Take out of the descriptions what restores them."""
    return Scaling(
        _only(target, _TARGET),
        tuple(_only(policy, _POLICY) for policy in policies),
        tuple(_only(action, _ACTION) for action in scheduled_actions),
    )


def record_tags(found: Scaling) -> dict[str, str]:
    """The tags that hold a registration: `semif:scaling` (count and digest) and `semif:scaling-1` onwards."""
    packed = zlib.compress(json.dumps(asdict(found), separators=(",", ":")).encode(), 9)
    text = base64.urlsafe_b64encode(packed).decode()
    chunks = [text[begin : begin + _CHUNK] for begin in range(0, len(text), _CHUNK)]
    head = {RECORD: f"{len(chunks)}.{_digest(text)}"}
    return head | {f"{RECORD}-{number}": chunk for number, chunk in enumerate(chunks, 1)}


def read_record(tags: Mapping[str, str]) -> Scaling | None:
    """The registration that the tags hold; None if they hold none. Raises ScalingRecordError."""
    if RECORD not in tags:
        return None
    count, _, digest = tags[RECORD].partition(".")
    if not count.isdecimal() or len(count) > 2:
        raise ScalingRecordError(f"{RECORD} is {tags[RECORD]!r}, not a count and a digest")
    text = "".join(tags.get(f"{RECORD}-{number}", "") for number in range(1, int(count) + 1))
    if _digest(text) != digest:
        raise ScalingRecordError(f"the tags {RECORD}-1 to {RECORD}-{count} do not have the digest {digest}")
    try:
        found = json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
        return Scaling(found["target"], tuple(found["policies"]), tuple(found["scheduled_actions"]))
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ScalingRecordError(f"{RECORD} does not decode: {error}") from error


def record_keys(tags: Mapping[str, str]) -> list[str]:
    """The keys of a record's tags, whole or damaged."""
    return sorted(key for key in tags if key == RECORD or key.startswith(f"{RECORD}-"))


def must_deregister(serving: Iterable[str] | None, wanted: Iterable[str]) -> bool:
    """Whether an update to the types `wanted` is refused while registered; `serving` None: not known."""
    return serving is None or set(serving) != set(wanted)


def _only(description: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value := description[name], datetime) else value
        for name in names
        if description.get(name) is not None
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
