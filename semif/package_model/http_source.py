"""A file behind an http(s) address, and the hub's two addresses. The token goes to the hub's host alone."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from semif.errors import NotFoundError, NotReadableError, ServiceError
from semif.package_model.download import Answer, BrokenError, ChangedError, Validator
from semif.package_model.recipe import HubSource

DEFAULT_HUB = "https://huggingface.co"
_TIMEOUT = httpx.Timeout(60, connect=20)
_COMES_BACK = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True)
class Hub:
    """A Hugging Face hub, or a server with its paths. url: without a slash at its end. token: "" for none."""

    url: str = DEFAULT_HUB
    token: str = ""

    def file_url(self, source: HubSource, file: str) -> str:
        """Where a file of a repository lies."""
        return f"{self.url}/{source.repository}/resolve/{quote(source.revision, safe='')}/{quote(file)}"

    def headers(self, url: str) -> dict[str, str]:
        """The token, for addresses of the hub itself; never in the clear but to this machine."""
        of_hub = _origin(url) == _origin(self.url)
        parts = urlsplit(url)
        protected = parts.scheme == "https" or parts.hostname in {"127.0.0.1", "::1", "localhost"}
        return {"Authorization": f"Bearer {self.token}"} if self.token and of_hub and protected else {}


def client() -> httpx.Client:
    """A client that follows redirects; it drops the token when one leads to another host."""
    return httpx.Client(
        follow_redirects=True,
        timeout=_TIMEOUT,
        headers={"Accept-Encoding": "identity", "User-Agent": "semif"},
    )


@dataclass(frozen=True)
class HttpSource:
    """One address, as `download.Source`."""

    http: httpx.Client
    hub: Hub
    url: str

    @property
    def address(self) -> str:
        """The address without its query, which may be a signature, and without a password."""
        return shown(self.url)

    @contextmanager
    def open(self, start: int, validator: Validator | None) -> Iterator[Answer]:
        """See `download.Source`."""
        headers = self.hub.headers(self.url)
        if start and validator is not None:
            headers |= {"Range": f"bytes={start}-", "If-Range": validator.value}
        try:
            with self.http.stream("GET", self.url, headers=headers) as response:
                yield self._answer(response, start, validator)
        except httpx.InvalidURL as error:
            raise ServiceError(
                "bad_address", f"{self.address}: {error}", next_step="correct the address"
            ) from error
        except httpx.TransportError as error:
            raise BrokenError(f"{type(error).__name__}: {error}") from error
        except httpx.TooManyRedirects as error:
            raise ServiceError(
                "http_error", f"{self.address}: {error}", next_step="check the address"
            ) from error

    def _answer(self, response: httpx.Response, start: int, validator: Validator | None) -> Answer:
        status = response.status_code
        if urlsplit(self.url).scheme == "https" and response.url.scheme != "https":
            raise ServiceError(
                "insecure_redirect",
                f"{self.address} leads to {shown(str(response.url))}, which is not https",
                next_step="name another source",
            )
        if status == 416:
            raise ChangedError("the server has no such range")
        if status not in {200, 206}:
            raise_for(status, self.address, has_token=bool(self.hub.token))
        length = response.headers.get("Content-Length")
        size = int(length) if length is not None and length.isdigit() else None
        first = 0
        if status == 206:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not found:
                raise ChangedError("the server sent a part without its place")
            first = int(found[1])
            size = int(found[2]) if found[2] != "*" else None
        value = _validator(response.headers)
        if first and validator is not None and value != validator.value:
            raise ChangedError("the file changed on the server")
        return Answer(first, Validator(self.address, value, size), response.iter_raw())


def get_json(http: httpx.Client, hub: Hub, url: str) -> Any:
    """A small JSON document of the hub. Raises SemifError."""
    try:
        response = http.get(url, headers=hub.headers(url))
    except httpx.HTTPError as error:
        raise ServiceError(
            "source_unreachable",
            f"{shown(url)}: {error}",
            next_step="check the hub's address and the network",
        ) from error
    if response.status_code != 200:
        try:
            raise_for(response.status_code, shown(url), has_token=bool(hub.token))
        except BrokenError as error:
            raise ServiceError(
                "source_unreachable", f"{shown(url)}: {error}", next_step="run it again"
            ) from error
    try:
        return response.json()
    except ValueError as error:
        raise NotReadableError(
            "not_a_hub", f"{shown(url)} answers no JSON", next_step="check the hub's address"
        ) from error


def raise_for(status: int, address: str, *, has_token: bool) -> None:
    """The error that stands for an HTTP status."""
    if status in _COMES_BACK:
        raise BrokenError(f"HTTP {status}")
    if status in {401, 403} and not has_token:
        raise ServiceError(
            "gated_repository",
            f"{address} answers HTTP {status}: the repository is gated or private, and no token was given",
            next_step="accept its terms on its page and set HF_TOKEN (in a deployment: model.token_secret)",
        )
    if status in {401, 403}:
        raise ServiceError(
            "token_refused",
            f"{address} answers HTTP {status}: the token does not open this repository",
            next_step="accept its terms with the token's account, or check HF_TOKEN (model.token_secret)",
        )
    if status in {404, 410}:
        raise NotFoundError(
            "no_such_file",
            f"{address} answers HTTP {status}",
            next_step="check repository, revision and file",
        )
    raise ServiceError("http_error", f"{address} answers HTTP {status}", next_step="check the address")


def shown(url: str) -> str:
    """An address without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _validator(headers: Mapping[str, str]) -> str:
    """A strong ETag, else the date of the last change; "" for neither (a weak ETag can't be resumed by)."""
    etag = headers.get("ETag", "")
    return headers.get("Last-Modified", "") if not etag or etag.startswith("W/") else etag


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
