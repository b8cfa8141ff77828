"""Sending a request: to a local server by HTTP, to an endpoint through the SageMaker runtime.

Both return the response's bytes as the server wrote them, or raise a `SemifError`.
"""

import ipaddress
from typing import Protocol

import httpx

from semif.decide import server_error
from semif.errors import UnreachableError, UsageError


class Target(Protocol):
    """Where decisions are made."""

    def invoke(self, body: bytes) -> bytes:
        """Send one JSON body and return the JSON answer."""


class Server:
    """A SemIf server at a base address such as http://127.0.0.1:8080."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        try:
            self.url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise _bad_url(url, str(error)) from error
        if self.url.scheme not in {"http", "https"} or not self.url.host:
            raise _bad_url(url, "it needs http:// or https:// and a host")
        if self.url.port is not None and not 0 < self.url.port < 65536:
            raise _bad_url(url, "a port is 1 to 65535")
        self.timeout_s = timeout_s

    def invoke(self, body: bytes) -> bytes:
        """POST to /invocations under the base address."""
        address = self.url.copy_with(path=f"{self.url.path.rstrip('/')}/invocations")
        try:
            # A proxy of the environment is for other machines, not for this one.
            with httpx.Client(timeout=self.timeout_s, trust_env=not _loopback(self.url.host)) as client:
                response = client.post(address, content=body, headers={"content-type": "application/json"})
        except UnicodeError as error:  # a label of the host's name that is empty or too long
            raise _bad_url(str(self.url), str(error)) from error
        except httpx.TimeoutException as error:
            raise UnreachableError(
                "timeout",
                f"no answer from {self.url} within {self.timeout_s:g} s",
                next_step="give a longer --timeout",
            ) from error
        except httpx.HTTPError as error:
            raise UnreachableError(
                "no_connection",
                f"{self.url}: {error}",
                next_step="start the server (python -m semif_server), or give --url, --endpoint or --env",
            ) from error
        if response.status_code != httpx.codes.OK:
            raise server_error(response.status_code, response.content)
        return response.content


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bad_url(url: str, why: str) -> UsageError:
    return UsageError(
        "bad_url",
        f"{url!r} is no address: {why}",
        field="--url",
        next_step="write --url http://127.0.0.1:8080",
    )
