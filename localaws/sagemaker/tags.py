"""Tags of models, endpoint configurations and endpoints, by ARN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from localaws.protocol import ServiceError
from localaws.sagemaker import messages

LIMIT = 50
_KINDS = {"model": "model", "endpoint-config": "endpoint configuration", "endpoint": "endpoint"}


def check_tags(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return a request's tags as a mapping. Characters and lengths are checked against the service model.

    Raises:
        ServiceError: ValidationException for a key given twice, a reserved key or too many tags.
    """
    found: dict[str, str] = {}
    for tag in tags:
        key = tag["Key"]
        if key.lower().startswith("aws:"):
            raise _invalid(f"Invalid tag key {key}: keys that start with aws: are reserved for system use.")
        if key in found:
            raise _invalid(f"Duplicate tag keys found: {key}.")
        found[key] = tag["Value"]
    _check_count(found)
    return found


class TagStore:
    """Tags of one account and region. An ARN that is not attached does not exist."""

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, str]] = {}

    def attach(self, arn: str, tags: Mapping[str, str]) -> None:
        """Begin a resource's tags."""
        self._tags[arn] = dict(tags)

    def detach(self, arn: str) -> None:
        """Forget a deleted resource's tags."""
        self._tags.pop(arn, None)

    def add(self, arn: str, tags: Mapping[str, str]) -> dict[str, str]:
        """Set tags, all or none, and return them all.

        Raises:
            ServiceError: ValidationException for an unknown ARN or more than 50 tags.
        """
        merged = {**self.of(arn), **tags}
        _check_count(merged)
        self._tags[arn] = merged
        return dict(merged)

    def remove(self, arn: str, keys: Iterable[str]) -> None:
        """Remove tags; keys that are not there are no error."""
        remaining = self.of(arn)
        for key in keys:
            remaining.pop(key, None)
        self._tags[arn] = remaining

    def of(self, arn: str) -> dict[str, str]:
        """Return a resource's tags.

        Raises:
            ServiceError: ValidationException for an unknown ARN.
        """
        if arn not in self._tags:
            kind = arn.split(":", 5)[-1].partition("/")[0]
            raise _invalid(messages.not_found(_KINDS.get(kind, "resource"), arn))
        return dict(self._tags[arn])


def render(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return tags as SageMaker lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _check_count(tags: Mapping[str, str]) -> None:
    if len(tags) > LIMIT:
        raise _invalid(f"A resource can have at most {LIMIT} tags; this would make {len(tags)}.")


def _invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)
