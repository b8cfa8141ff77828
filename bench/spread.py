"""Repetitions → median and range, and ratios of repetitions that were measured side by side. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, lowest and highest of some repetitions."""

    median: float
    low: float
    high: float
    count: int

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit. factor: positive."""
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.count)


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError for no values, or for one that is no finite number."""
    if not values or not all(math.isfinite(value) for value in values):
        raise ValueError("a spread needs at least one value, all of them finite")
    return Spread(median(values), min(values), max(values), len(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Spread of the ratios of repetitions that belong together by their place.

    A machine that slows down between two repetitions slows both sides of each, so it moves no ratio.
    """
    if len(numerators) != len(denominators):
        raise ValueError("ratios need as many numerators as denominators")
    return spread([above / below for above, below in zip(numerators, denominators, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed. share: over 0, at most 1."""
    if not values or not 0 < share <= 1:
        raise ValueError("a percentile needs values and a share over 0, at most 1")
    return sorted(values)[math.ceil(share * len(values)) - 1]
