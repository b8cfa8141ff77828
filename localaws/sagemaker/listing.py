"""The List operations: filter, sort and pages, over summaries with SageMaker's keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from localaws.protocol import ServiceError

DEFAULT_PAGE = 10
_TIMES = {
    "CreationTimeBefore": ("CreationTime", -1),
    "CreationTimeAfter": ("CreationTime", 1),
    "LastModifiedTimeBefore": ("LastModifiedTime", -1),
    "LastModifiedTimeAfter": ("LastModifiedTime", 1),
}

Summary = dict[str, Any]


def page(
    summaries: Iterable[Summary], params: Mapping[str, Any], name_key: str
) -> tuple[list[Summary], str | None]:
    """Return one page of what `params` asks for, and the token of the next page.

    The default order is SageMaker's: newest first, ten to a page. A token is the last entry's place in the
    order, so entries that come or go between two pages shift nothing.

    Raises:
        ServiceError: ValidationException for a token that is not of this listing.
    """
    sort_by = params.get("SortBy", "CreationTime")
    descending = params.get("SortOrder", "Descending") == "Descending"
    listing = [sort_by, descending]

    def place(summary: Summary) -> list[Any]:
        name = summary[name_key]
        values = {"Name": name, "Status": str(summary.get("EndpointStatus"))}
        return [values.get(sort_by, summary["CreationTime"].timestamp()), name]

    chosen = sorted((entry for entry in summaries if _matches(entry, params, name_key)), key=place)
    if descending:
        chosen.reverse()
    token = params.get("NextToken")
    if token:
        last = _read(token, listing)
        try:
            chosen = [e for e in chosen if (place(e) < last if descending else place(e) > last)]
        except TypeError as error:
            raise _bad_token() from error
    size = params.get("MaxResults", DEFAULT_PAGE)
    shown = chosen[:size]
    following = _write(listing, place(shown[-1])) if len(chosen) > size else None
    return shown, following


def result(key: str, shown: list[Summary], token: str | None) -> dict[str, Any]:
    """Return the answer of a List operation."""
    return {key: shown} | ({"NextToken": token} if token else {})


def _matches(summary: Summary, params: Mapping[str, Any], name_key: str) -> bool:
    if params.get("NameContains", "").lower() not in summary[name_key].lower():
        return False
    if params.get("StatusEquals") not in {None, summary.get("EndpointStatus")}:
        return False
    for parameter, (key, sign) in _TIMES.items():
        limit = params.get(parameter)
        if limit is not None and sign * (summary[key].timestamp() - _seconds(limit)) <= 0:
            return False
    return True


def _seconds(value: datetime | float | str) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return float(value)


def _write(listing: list[Any], last: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps([listing, last]).encode()).decode()


def _read(token: str, listing: list[Any]) -> list[Any]:
    try:
        of, last = json.loads(base64.urlsafe_b64decode(token))
    except ValueError as error:
        raise _bad_token() from error
    if of != listing or not isinstance(last, list):
        raise _bad_token()
    return last


def _bad_token() -> ServiceError:
    return ServiceError("ValidationException", "The NextToken is not one of this listing. Start it again.")
