"""The registry of container images: what to run instead of a pull and `docker run`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localaws.registry.blobs import Blobs
from localaws.registry.docker.fallback_engine import UNPROVEN
from localaws.registry.manifests import canonical, digest_of, docker_manifest
from localaws.registry.references import parse_ecr, repository_uri
from localaws.registry.registry import Registry

_KEYS = {"uri", "command", "environment", "bind"}
_BIND_KEYS = {"host", "port", "model_dir"}


class ImageSpecError(ValueError):
    """A pushed image that cannot be read. The text names the field and what is allowed."""


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

    @property
    def config(self) -> bytes:
        """The image's configuration, which names the process."""
        process = {
            "command": list(self.command),
            "environment": dict(self.environment),
            "bind": [self.host_variable, self.port_variable, self.model_dir_variable],
        }
        container = {
            "Entrypoint": list(self.command),
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "Labels": {"localaws.process": json.dumps(process, sort_keys=True)},
        }
        root = {"type": "layers", "diff_ids": []}
        return canonical({"architecture": "amd64", "os": "linux", "config": container, "rootfs": root})

    @property
    def manifest(self) -> bytes:
        """The image's manifest, over no layers."""
        return docker_manifest(self.config)

    @property
    def digest(self) -> str:
        """The digest in the URI, or else the manifest's."""
        reference = parse_ecr(self.uri)
        return (reference.digest if reference else None) or digest_of(self.manifest)

    @property
    def resolved(self) -> str:
        """The URI by digest, as DescribeEndpoint's DeployedImages shows it."""
        return f"{repository_uri(self.uri)}@{self.digest}"


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
    return Image(
        uri=uri,
        command=tuple(command),
        environment=environment,
        host_variable=bind.get("host"),
        port_variable=bind["port"],
        model_dir_variable=bind.get("model_dir"),
    )


def _strings(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ImageSpecError(f"{name}: must be an object of strings.")
    for key, item in value.items():
        if not isinstance(item, str):
            raise ImageSpecError(f"{name}.{key}: must be a string, not {type(item).__name__}.")
    return dict(value)


@dataclass(frozen=True, slots=True)
class RootImage:
    """An image that was pushed with its blobs, unpacked: `config` is its configuration, `resolved` its URI.

    `unproven` images stand for ones that could not be built here; their root holds a build's content.
    """

    resolved: str
    root: Path
    config: Mapping[str, Any]
    unproven: bool


class ImageRegistry:
    """Images by what ECR says that a name stands for, so a tag pushed again moves.

    A process image pushed by a digest of its own choice stands for one that nobody can make here, such as
    AWS's: ECR does not know it, and its name alone finds it.
    """

    def __init__(self, registry: Registry, blobs: Callable[[], Blobs] | None = None) -> None:
        self._registry = registry
        self._blobs = blobs
        self._images: dict[str, Image] = {}
        self._lock = threading.Lock()

    def put(self, image: Image) -> None:
        """Push a process image. A refusal of ECR is a ClientError."""
        reference = parse_ecr(image.uri)
        if reference is None:
            raise AssertionError("bug: an image's URI is read with its description")
        named = reference.digest is not None
        with self._lock:
            self._images[image.uri if named else image.digest] = image
        if not named:
            self._registry.put(reference, image.manifest.decode(), image.digest)

    def get(self, uri: str) -> Image | RootImage | None:
        """Return the image that a URI names now, None if it was never pushed.

        Raises:
            UnsupportedManifestError: its manifest is none that SageMaker takes.
            LayerError: its layers cannot be unpacked.
        """
        with self._lock:
            if uri in self._images:
                return self._images[uri]
        manifest = self._registry.find(uri)
        if manifest is None:
            return None
        resolved = f"{repository_uri(uri)}@{manifest.digest}"
        with self._lock:
            image = self._images.get(manifest.digest)
        if image is not None:
            return replace(image, uri=resolved)
        if self._blobs is None:
            return None
        blobs = self._blobs()
        config = blobs.config(manifest.document)
        if config is None:
            return None
        labels = (config.get("config") or {}).get("Labels") or {}
        return RootImage(resolved, blobs.root(manifest.text), config, UNPROVEN in labels)
