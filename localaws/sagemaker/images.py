"""The registry of container images: what to run instead of a pull and `docker run`."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
    r"/(?P<repository>[a-z0-9][a-z0-9._/-]*?)(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_KEYS = {"uri", "command", "environment", "bind"}
_BIND_KEYS = {"host", "port", "model_dir"}


class ImageSpecError(ValueError):
    """A pushed image that cannot be read. The text names the field and what is allowed."""


@dataclass(frozen=True, slots=True)
class EcrReference:
    """Parts of a private ECR image URI."""

    account: str
    region: str
    repository: str


@dataclass(frozen=True, slots=True)
class Image:
    """A pushed image: its process is ``command + ["serve"]``.

    `host_variable`, `port_variable` and `model_dir_variable` are names of environment variables.
    """

    uri: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    host_variable: str | None
    port_variable: str
    model_dir_variable: str | None
    digest: str

    @property
    def resolved(self) -> str:
        """The URI by digest, as DescribeEndpoint's DeployedImages shows it."""
        repository = self.uri.partition("@")[0]
        if ":" in repository.rpartition("/")[2]:
            repository = repository.rpartition(":")[0]
        return f"{repository}@{self.digest}"


def parse_ecr(uri: str) -> EcrReference | None:
    """Return the parts of a private ECR URI, None for any other image name."""
    found = _ECR.fullmatch(uri)
    return EcrReference(found["account"], found["region"], found["repository"]) if found else None


def parse_image(spec: Mapping[str, Any]) -> Image:
    """Read `{"uri": …, "command": […], "environment": {…}, "bind": {"host": …, "port": …, "model_dir": …}}`.

    Raises:
        ImageSpecError: naming the field and what is allowed.
    """
    unknown = sorted(set(spec) - _KEYS)
    if unknown:
        raise ImageSpecError(f"{unknown[0]}: unknown key; allowed: {', '.join(sorted(_KEYS))}.")
    uri = spec.get("uri")
    if not isinstance(uri, str) or parse_ecr(uri) is None:
        raise ImageSpecError(
            f"uri: {uri!r} is not a private ECR URI, ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG."
        )
    command = spec.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(part, str) for part in command):
        raise ImageSpecError("command: must be a list of strings with at least the program.")
    environment = _strings("environment", spec.get("environment") or {})
    bind = _strings("bind", spec.get("bind") or {})
    unknown = sorted(set(bind) - _BIND_KEYS)
    if unknown:
        raise ImageSpecError(f"bind.{unknown[0]}: unknown key; allowed: {', '.join(sorted(_BIND_KEYS))}.")
    if "port" not in bind:
        raise ImageSpecError("bind.port: must name the variable that tells the process its port.")
    content = json.dumps([uri.partition("@")[0], command, environment, bind], sort_keys=True)
    named = _ECR.fullmatch(uri)
    digest = named["digest"] if named else None
    return Image(
        uri=uri,
        command=tuple(command),
        environment=environment,
        host_variable=bind.get("host"),
        port_variable=bind["port"],
        model_dir_variable=bind.get("model_dir"),
        digest=digest or f"sha256:{hashlib.sha256(content.encode()).hexdigest()}",
    )


def _strings(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ImageSpecError(f"{name}: must be an object of strings.")
    for key, item in value.items():
        if not isinstance(item, str):
            raise ImageSpecError(f"{name}.{key}: must be a string, not {type(item).__name__}.")
    return dict(value)


class ImageRegistry:
    """Pushed images by URI; a tag pushed again moves, its digest stays reachable."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._lock = threading.Lock()

    def put(self, image: Image) -> None:
        """Push an image."""
        with self._lock:
            self._images[image.uri] = image
            self._images[image.resolved] = image

    def get(self, uri: str) -> Image | None:
        """Return the image that a URI names now, None if it was never pushed."""
        with self._lock:
            return self._images.get(uri)
