"""AWS's public price list, read without an account."""

import json

import httpx

from semif.errors import (
    NotFoundError,
    NotReadableError,
    RetryableError,
    ServiceError,
    UnreachableError,
    UsageError,
)
from semif.prices import RegionPrices, hosting_prices

BASE_URL = "https://pricing.us-east-1.amazonaws.com"
"""One host for all regions; it needs no signature."""


def fetch_prices(region: str, *, base_url: str, timeout_s: float) -> RegionPrices:
    """Read the current list of SageMaker's prices in a region.

    Raises `UsageError` where prices are not in US dollars, `UnreachableError`, `NotFoundError`,
    `RetryableError`, `ServiceError` or `NotReadableError`.
    """
    if region.startswith("cn-"):
        raise UsageError(
            "no_usd_prices",
            f"{region}: prices in China are in CNY, on a list of their own",
            next_step="leave it out; prices there stay unknown, and max_hourly_usd cannot be used",
        )
    source = f"{base_url}/offers/v1.0/aws/AmazonSageMaker/current/{region}/index.json"
    try:
        response = httpx.get(source, timeout=timeout_s, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreachableError(
            "price_list_unreachable",
            f"{source}: {error or type(error).__name__}",
            next_step="check the connection to the internet; nothing was written",
        ) from error
    _check(response, source, region)
    try:
        offer = json.loads(response.content)
    except ValueError as error:
        raise NotReadableError(
            "price_list_differs", f"{source} is no JSON ({error})", next_step="nothing was written; ask again"
        ) from error
    return hosting_prices(offer, region=region, source=source)


def _check(response: httpx.Response, source: str, region: str) -> None:
    if response.status_code in {httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND}:
        raise NotFoundError(
            "no_price_list",
            f"{source}: HTTP {response.status_code}; AWS has no such list",
            next_step=f"check the region's name: {region}",
        )
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
        raise RetryableError(
            "price_list_busy", f"{source}: HTTP {response.status_code}", next_step="ask again later"
        )
    if response.status_code != httpx.codes.OK:
        raise ServiceError(
            "price_list_refused",
            f"{source}: HTTP {response.status_code} {response.text[:200]}",
            next_step="look at the address",
        )
