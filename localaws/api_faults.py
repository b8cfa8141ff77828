"""Faults of single API calls: refused, slow, or without an answer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from localaws.protocol import HttpAnswer, HttpRequest, ServiceError, operation_name, refused

PREFIX = "api:"
"""Keys of the fault table that are about calls: `api:OPERATION`, such as `api:DescribeEndpoint`."""

SERVICES = {
    "sagemaker": "sagemaker",
    "servicequotas": "service-quotas",
    "application-autoscaling": "application-autoscaling",
}
"""Services whose calls can fail, by the name that requests are signed for."""


class ApiFaultMode(StrEnum):
    """What happens to a call."""

    THROTTLE = "throttle"
    """ThrottlingException."""
    ERROR = "error"
    """Refused with `code`, `message` and `status`."""
    DENIED = "denied"
    """AccessDeniedException."""
    YOUNG_ROLE = "young-role"
    """`Could not assume role`, as within seconds of the role's creation."""
    REPOSITORY_ACCESS = "repository-access"
    """The repository's policy does not let SageMaker pull."""
    LOST = "lost"
    """Carried out, but the connection ends without an answer."""
    DROPPED = "dropped"
    """Not carried out: the connection ends."""
    SLOW = "slow"
    """Carried out after `seconds`."""


_REFUSALS = {
    ApiFaultMode.THROTTLE: ("ThrottlingException", "Rate exceeded"),
    ApiFaultMode.DENIED: ("AccessDeniedException", "User is not authorized to perform: {operation}"),
    ApiFaultMode.YOUNG_ROLE: (
        "ValidationException",
        "Could not assume role arn:aws:iam::123456789012:role/execution. Please ensure that the role exists"
        ' and allows principal "sagemaker.amazonaws.com" to assume the role.',
    ),
    ApiFaultMode.REPOSITORY_ACCESS: (
        "ValidationException",
        "The repository of your image 123456789012.dkr.ecr.us-east-1.amazonaws.com/semif does not grant"
        " ecr:GetDownloadUrlForLayer, ecr:BatchGetImage, ecr:BatchCheckLayerAvailability permission to"
        " sagemaker.amazonaws.com service principal.",
    ),
}


class ApiFaultError(ValueError):
    """An entry that cannot be read. The text names the key and what is allowed."""


class ConnectionDroppedError(ConnectionError):
    """The caller is to get no answer."""


@dataclass(frozen=True, slots=True)
class ApiFault:
    """One entry: it strikes the `first` calls, or every `every`-th one; without either, all."""

    mode: ApiFaultMode
    first: int | None = None
    every: int | None = None
    seconds: float = 0.0
    code: str | None = None
    message: str | None = None
    status: int = 400

    def refusal(self, operation: str) -> ServiceError | None:
        """Return the error that the caller gets, None if the call goes through."""
        if self.mode is ApiFaultMode.ERROR:
            return ServiceError(self.code or "InternalFailure", self.message or "", self.status)
        if self.mode not in _REFUSALS:
            return None
        code, message = _REFUSALS[self.mode]
        return ServiceError(self.code or code, self.message or message.format(operation=operation))


class ApiFaults:
    """The table, replaced as a whole; counting begins anew then. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: Mapping[str, Mapping[str, Any]] = {}
        self._faults: Mapping[str, ApiFault] = {}
        self._calls: Counter[str] = Counter()

    def put(self, table: Mapping[str, Any]) -> None:
        """Replace the table by one that `check` took."""
        with self._lock:
            self._entries = dict(table)
            self._faults = check(table)
            self._calls.clear()

    def render(self) -> dict[str, Any]:
        """Return the table as it was put."""
        return dict(self._entries)

    def around(
        self, service: str, request: HttpRequest, carry_out: Callable[[], HttpAnswer | None]
    ) -> HttpAnswer | None:
        """Carry a request out unless a fault of its operation says otherwise.

        Raises:
            ConnectionDroppedError: the caller is to get no answer.
        """
        if service not in SERVICES or "X-Amz-Target" not in request.headers:
            return carry_out()
        operation = operation_name(request)
        fault = self.strike(operation)
        if fault is None:
            return carry_out()
        error = fault.refusal(operation)
        if error is not None:
            return refused(SERVICES[service], error)
        if fault.mode is ApiFaultMode.DROPPED:
            raise ConnectionDroppedError
        time.sleep(fault.seconds)
        found = carry_out()
        if fault.mode is ApiFaultMode.LOST:
            raise ConnectionDroppedError
        return found

    def strike(self, operation: str) -> ApiFault | None:
        """Count a call and return what happens to it."""
        with self._lock:
            fault = self._faults.get(operation)
            if fault is None:
                return None
            self._calls[operation] += 1
            count = self._calls[operation]
        if fault.first is not None:
            return fault if count <= fault.first else None
        if fault.every is not None:
            return fault if count % fault.every == 0 else None
        return fault


def check(table: Mapping[str, Any]) -> dict[str, ApiFault]:
    """Read a table, by operation.

    Raises:
        ApiFaultError: an entry cannot be read.
    """
    return {key.removeprefix(PREFIX): _parse(key, entry) for key, entry in table.items()}


def _parse(key: str, entry: Any) -> ApiFault:
    allowed = ("mode", "first", "every", "seconds", "code", "message", "status")
    if not isinstance(entry, Mapping):
        raise ApiFaultError(f'{key}: must be an object such as {{"mode": "throttle", "first": 3}}.')
    for name in sorted(set(entry) - set(allowed)):
        raise ApiFaultError(f"{key}.{name}: unknown key; allowed: {', '.join(allowed)}.")
    if entry.get("mode") not in list(ApiFaultMode):
        raise ApiFaultError(f"{key}.mode: {entry.get('mode')!r} is none of: {', '.join(ApiFaultMode)}.")
    numbers = {"first": (int, 0, 10_000), "every": (int, 1, 10_000), "status": (int, 400, 599)}
    for name, (kind, low, high) in (numbers | {"seconds": (int | float, 0, 3600)}).items():
        value = entry.get(name, low)
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            raise ApiFaultError(f"{key}.{name}: {value!r} is not a number from {low} to {high}.")
    if "first" in entry and "every" in entry:
        raise ApiFaultError(f"{key}: has first and every; one of them goes.")
    for name in ("code", "message"):
        if not isinstance(entry.get(name, ""), str):
            raise ApiFaultError(f"{key}.{name}: {entry[name]!r} is no text.")
    return ApiFault(**{**entry, "mode": ApiFaultMode(entry["mode"])})
