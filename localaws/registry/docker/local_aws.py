"""The local AWS's registry, as `docker` reaches it: on this machine, with folders in place of uploads."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class DockerError(Exception):
    """A command that failed. The text is what docker would say."""


class LocalRegistry:
    """Requests to the local AWS, and the logins of a home folder."""

    def __init__(self, url: str) -> None:
        self._url = url

    def log_in(self, host: str, user: str, password: str) -> None:
        """Check a password and remember the login, as `docker login` does."""
        self._ask("login", {"host": host, "user": user, "password": password})
        logins = _logins()
        logins.parent.mkdir(parents=True, exist_ok=True)
        logins.write_text(json.dumps([*_hosts(), host]))

    def push_format(self, reference: str) -> str:
        """Ask how an image is to be packed: `v2s2` or `oci`."""
        self._check_login(reference)
        return str(self._ask("push", {"reference": reference})["format"])

    def push(self, reference: str, folder: Path) -> dict[str, Any]:
        """Hand over an image in the layout `dir:`; returns its `digest` and the manifest's `bytes`."""
        return self._ask("push", {"reference": reference, "folder": str(folder)})

    def pull(self, reference: str, folder: Path) -> None:
        """Have an image laid out in a folder."""
        self._check_login(reference)
        self._ask("pull", {"reference": reference, "folder": str(folder)})

    @staticmethod
    def _check_login(reference: str) -> None:
        host = reference.partition("/")[0]
        if host not in _hosts():
            raise DockerError(f"no basic auth credentials for {host}: run docker login first")

    def _ask(self, action: str, document: object) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the local AWS
            f"{self._url}/_localaws/registry/{action}", json.dumps(document).encode(), method="PUT"
        )
        # No proxy stands between this machine and itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=600) as answered:
                answer: dict[str, Any] = json.load(answered)
                return answer
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(said)["message"]
            raise DockerError(said) from error
        except OSError as error:
            raise DockerError(f"the local AWS at {self._url} does not answer: {error}") from error


def _logins() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "localaws-logins.json"


def _hosts() -> list[str]:
    try:
        found: list[str] = json.loads(_logins().read_text())
    except (FileNotFoundError, ValueError):
        return []
    return found
