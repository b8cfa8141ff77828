"""AWS's public price list of SageMaker, and the project's price file that is written from it.

The app that reads the file is no part of this package, so what they share is the file's form: by region a
list of sources, each with `source`, `date`, `note` and `hourly_usd` by instance type.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from semif.errors import NotReadableError, UsageError

PRICES_FILE: Final = Path("stacks/prices.json")
_HOSTING: Final = re.compile(r"(?:[A-Z0-9]+-)?Host:(ml\.[a-z0-9-]+\.[a-z0-9]+)")
"""Usage types of real-time endpoints, such as USE1-Host:ml.m5.xlarge; AsyncInf, Train and others are not."""


@dataclass(frozen=True)
class RegionPrices:
    """Hourly on-demand prices of real-time endpoints by instance type, and where they are listed."""

    region: str
    source: str
    published: datetime
    hourly_usd: Mapping[str, Decimal]


def hosting_prices(offer: object, *, region: str, source: str) -> RegionPrices:
    """Read the price list of a region, as parsed from JSON.

    Raises `NotReadableError` if it is not the list of SageMaker in that region, or has no such prices.
    """
    try:
        return _hosting_prices(offer, region, source)
    except (LookupError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
        raise NotReadableError(
            "price_list_differs",
            f"{source} is not a price list as it is known here ({type(error).__name__}: {error})",
            next_step="nothing was written; look at the address, and report it",
        ) from error


def _hosting_prices(offer: Any, region: str, source: str) -> RegionPrices:
    if offer["offerCode"] != "AmazonSageMaker":
        raise ValueError(f"offer {offer['offerCode']}")
    prices: dict[str, Decimal] = {}
    for sku, product in offer["products"].items():
        attributes = product["attributes"]
        usage = _HOSTING.fullmatch(attributes.get("usagetype", ""))
        if usage is None or attributes.get("regionCode", region) != region:
            continue
        usd = _hourly_usd(offer["terms"]["OnDemand"].get(sku, {}))
        if usd is not None:
            prices[usage[1]] = usd
    if not prices:
        raise ValueError(f"no hourly prices of real-time endpoints in {region}")
    return RegionPrices(region, source, datetime.fromisoformat(offer["publicationDate"]), prices)


def _hourly_usd(terms: Mapping[str, Any]) -> Decimal | None:
    """The price that the latest term names for the first hour; None where there is none in dollars."""
    for term in sorted(terms.values(), key=lambda term: str(term["effectiveDate"]), reverse=True):
        for dimension in term["priceDimensions"].values():
            usd = dimension["pricePerUnit"].get("USD")
            if dimension["unit"] == "Hrs" and dimension.get("beginRange", "0") == "0" and usd is not None:
                return Decimal(usd) if Decimal(usd) > 0 else None
    return None


def read_file(path: Path) -> dict[str, Any]:
    """Read the price file, or begin one where there is none. Raises `UsageError` if it is another file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value["regions"], dict):
            raise TypeError("regions is no object")
    except FileNotFoundError:
        if path.parent.is_dir():
            return {"regions": {}}
        raise UsageError(
            "no_prices_file",
            f"{path.parent} does not exist",
            next_step="run it in the project's folder, or give --file",
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            "bad_prices_file", f"{path} is no price file ({error})", next_step="restore it, or give --file"
        ) from None
    return dict(value)


def known_usd(file: Mapping[str, Any], region: str) -> dict[str, float]:
    """The file's prices of a region, whatever their source."""
    groups = sorted(file["regions"].get(region, []), key=lambda group: str(group["date"]))
    return {name: usd for group in groups for name, usd in group["hourly_usd"].items()}


def with_region(file: Mapping[str, Any], prices: RegionPrices) -> dict[str, Any]:
    """The file with a region's prices replaced by those of the list."""
    group = {
        "source": prices.source,
        "date": prices.published.date().isoformat(),
        "note": f"usage types Host:…, published {prices.published.isoformat()}",
        "hourly_usd": {name: float(usd) for name, usd in sorted(prices.hourly_usd.items())},
    }
    regions = {**file["regions"], prices.region: [group]}
    return {**file, "regions": dict(sorted(regions.items()))}


def summary(before: Mapping[str, float], prices: RegionPrices) -> str:
    """Say what changes in a region."""
    changed = [
        f"  {name}  {before[name]:g} -> {float(usd):g} USD an hour"
        for name, usd in sorted(prices.hourly_usd.items())
        if name in before and before[name] != float(usd)
    ]
    gone = [f"  {name}  no longer listed" for name in sorted(set(before) - set(prices.hourly_usd))]
    head = f"{prices.region}: {len(prices.hourly_usd)} prices, published {prices.published.isoformat()}"
    return "\n".join([head, *changed, *gone])
