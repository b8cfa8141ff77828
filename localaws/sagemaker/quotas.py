"""Quotas of instances for endpoint usage, and the check that CreateEndpoint and UpdateEndpoint make."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from localaws.sagemaker import messages

DEFAULT_INSTANCES = 20


class QuotaExceededError(Exception):
    """An instance type of the configuration has too small a quota. The text is SageMaker's."""


class QuotaTableError(ValueError):
    """A quota table that cannot be read. The text names the instance type and what is allowed."""


class Quotas:
    """Instances that every account may have in every region, by type. Safe for threads.

    A type without an entry has `DEFAULT_INSTANCES`; one whose entry is None is not offered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: dict[str, int | None] = {}

    def put(self, mapping: Mapping[str, Any], known: tuple[str, ...]) -> None:
        """Replace the table by `{"ml.g6e.xlarge": 2, "ml.p5.48xlarge": null}`.

        Raises:
            QuotaTableError: an entry cannot be read.
        """
        for name, value in mapping.items():
            if name not in known:
                raise QuotaTableError(f"{name}: is no instance type of SageMaker's endpoints.")
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100_000
            ):
                raise QuotaTableError(f"{name}: {value!r} is neither null nor a whole number from 0.")
        with self._lock:
            self._table = dict(mapping)

    def render(self) -> dict[str, int | None]:
        """Return the table as it was put."""
        with self._lock:
            return dict(self._table)

    def of(self, instance_type: str) -> int | None:
        """Return a type's quota, None if it is not offered."""
        with self._lock:
            return self._table.get(instance_type, DEFAULT_INSTANCES)

    def check(self, wanted: Mapping[str, int], in_use: Mapping[str, int]) -> None:
        """Raise QuotaExceededError for the first type that has no room for the instances wanted beside
        those in use. A pool does not fall back on that, so every listed type is wanted."""
        used = Counter(in_use)
        for name, delta in wanted.items():
            quota = self.of(name) or 0
            if used[name] + delta > quota:
                raise QuotaExceededError(messages.no_quota(name, delta, quota=quota, in_use=used[name]))
