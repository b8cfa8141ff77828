"""What an instance costs: the dated prices of stacks/prices.json, and the limit that a user sets on them.

A price that has no source and date is not in the file, and what is not in the file is unknown: nothing here
guesses. `semif prices REGION` writes a region's part anew from AWS's public price list.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from stacks.mapping_reader import MappingReader, SettingsError, matching

PRICES_FILE: Final = Path(__file__).with_name("prices.json")
HOURS_PER_MONTH: Final = 730
_LARGEST_USD: Final = 100_000
_INSTANCE_TYPE: Final = (r"ml\.[a-z0-9-]+\.[a-z0-9]+", "an instance type such as ml.c6i.2xlarge")


@dataclass(frozen=True)
class Price:
    """On-demand price of one instance of a real-time endpoint for an hour; `date` is that of `source`."""

    usd: float
    source: str
    date: date


@dataclass(frozen=True)
class Prices:
    """Known prices by region and instance type."""

    by_region: Mapping[str, Mapping[str, Price]]

    def price(self, region: str, instance_type: str) -> Price | None:
        """The price, or None if it is unknown."""
        return self.by_region.get(region, {}).get(instance_type)

    def hourly_usd(self, region: str, instance_type: str) -> float | None:
        """The price in US dollars, or None if it is unknown."""
        price = self.price(region, instance_type)
        return None if price is None else price.usd


@dataclass(frozen=True)
class Affordable:
    """The types of a pool within the limit, in their order, and why each other one is left out."""

    kept: tuple[str, ...]
    left_out: Mapping[str, str]


@cache
def load_prices(path: Path = PRICES_FILE) -> Prices:
    """Read the file. Raises SettingsError if it is not in order."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(path.name, f"cannot be read: {error}; write it anew by semif prices") from None
    regions = MappingReader.of(value, path.name, ("regions",)).mapping("regions", None)
    return Prices({region: _region(regions, region) for region in regions.value})


def read_max_hourly_usd(reader: MappingReader) -> float | None:
    """Read `max_hourly_usd`, the most that one instance may cost in an hour, or None where it is absent."""
    if not reader.has("max_hourly_usd"):
        return None
    return _usd(reader.value["max_hourly_usd"], reader.at("max_hourly_usd"))


def within_limit(
    pool: Sequence[str], max_hourly_usd: float | None, *, region: str, prices: Prices, path: str
) -> Affordable:
    """Drop the types of a pool that cost more, or whose price is not known, where there is a limit.

    Raises SettingsError at `path` if nothing is left.
    """
    if max_hourly_usd is None:
        return Affordable(tuple(pool), {})
    left_out = {}
    for instance_type in pool:
        usd = prices.hourly_usd(region, instance_type)
        if usd is None:
            left_out[instance_type] = (
                f"its price in {region} is unknown, and max_hourly_usd is {max_hourly_usd:g};"
                f" semif prices {region} looks it up"
            )
        elif usd > max_hourly_usd:
            left_out[instance_type] = (
                f"its price of {usd:g} USD an hour is over max_hourly_usd, {max_hourly_usd:g}"
            )
    if len(left_out) == len(set(pool)):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise SettingsError(
            path, f"has no type left under max_hourly_usd: {reasons}. Raise it, or add a type"
        )
    return Affordable(tuple(name for name in pool if name not in left_out), left_out)


def _region(regions: MappingReader, region: str) -> Mapping[str, Price]:
    groups = regions.value[region]
    path = regions.at(region)
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        raise SettingsError(path, "must be a list of sources")
    prices: dict[str, Price] = {}
    for i, value in enumerate(groups):
        group = MappingReader.of(value, f"{path}[{i}]", ("source", "date", "note", "hourly_usd"))
        source = group.text("source", r"https://\S+", "an address that begins with https://")
        day = _day(group.text("date", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a day such as 2026-09-20"), group)
        listed = group.mapping("hourly_usd", None)
        for name, usd in listed.value.items():
            matching(name, listed.at(name), *_INSTANCE_TYPE)
            price = Price(_usd(usd, listed.at(name)), source, day)
            if name not in prices or prices[name].date < day:
                prices[name] = price
    return prices


def _day(text: str, group: MappingReader) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SettingsError(group.at("date"), f"is no day: {text}") from None


def _usd(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST_USD:
        raise SettingsError(path, f"must be a number of US dollars over 0 and up to {_LARGEST_USD}")
    return float(value)
