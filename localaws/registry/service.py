"""What the local AWS answers the `docker` of its builds: log in, push, pull."""

from __future__ import annotations

import json
import logging
import re
import shlex
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from localaws.clients import Clients
from localaws.protocol import ServiceError
from localaws.registry.blobs import Blobs
from localaws.registry.buildah import NOT_PROVEN, OwnStorage, can_build
from localaws.registry.faults import FaultMode, RegistryFaults
from localaws.registry.manifests import digest_of
from localaws.registry.references import EcrReference, parse_ecr
from localaws.registry.registry import Registry

log = logging.getLogger("localaws.registry")

_HOST = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?|public\.ecr\.aws")
_TOKEN = re.compile(r"\d{12}-auth-token")
"""The password that moto's GetAuthorizationToken gives."""
_PROJECT = Path(__file__).parents[2]


class RegistryService:
    """Images of one local AWS from the push to the container, and the folder with `docker`.

    Nothing is made on disk before an image is pushed or a build asks for `docker`.
    """

    def __init__(self, clients: Clients, faults: RegistryFaults) -> None:
        self.registry = Registry(clients)
        self._url = clients.url
        self._clients = clients
        self._faults = faults
        self._lock = threading.Lock()
        self._own: OwnStorage | None = None
        self._blobs: Blobs | None = None

    def docker_folder(self, environment: Mapping[str, str]) -> Path:
        """Return a folder with the program `docker` that builds of this local AWS put first on PATH."""
        del environment
        own = self._storage()
        if not can_build():
            log.warning(NOT_PROVEN)
        folder = own.storage.folder / "bin"
        with self._lock:
            if not folder.exists():
                folder.mkdir()
                program = folder / "docker"
                program.write_text(self._program(own))
                program.chmod(0o755)
        return folder

    @property
    def blobs(self) -> Blobs:
        """The blobs of pushed images."""
        self._storage()
        if self._blobs is None:
            raise AssertionError("bug: blobs come with the storage")
        return self._blobs

    def log_in(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`docker login`: {"host", "user", "password"} of GetAuthorizationToken."""
        host = str(request.get("host"))
        if not _HOST.fullmatch(host):
            raise ServiceError("UNKNOWN", f"{host}: the local AWS answers for registries of ECR only")
        if request.get("user") != "AWS" or not _TOKEN.fullmatch(str(request.get("password"))):
            raise ServiceError(
                "UNAUTHORIZED", "authentication required: ask ECR's GetAuthorizationToken", 401
            )
        return {}

    def push(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`docker push`: {"reference"} says how to pack it; with {"folder"}, it is taken from there."""
        reference = _reference(request)
        scope, name = reference.scope, reference.repository
        if self._faults.has(FaultMode.DENIED, name):
            raise ServiceError("DENIED", f"denied: a fault of the local AWS refuses pushes to {name}", 403)
        try:
            self._clients.get("ecr", scope).describe_repositories(repositoryNames=[name])
        except ClientError as error:
            raise ServiceError(
                "NAME_UNKNOWN", f"name unknown: {error.response['Error']['Message']}"
            ) from error
        if "folder" not in request:
            return {"format": "oci" if self._faults.has(FaultMode.OCI, name) else "v2s2"}
        folder = Path(str(request["folder"]))
        text = (folder / "manifest.json").read_text()
        digest = digest_of(text.encode())
        self.blobs.take(json.loads(text), folder)
        try:
            self.registry.put(reference, text, digest)
        except ClientError as error:
            raise ServiceError("TAG_INVALID", f"tag invalid: {error.response['Error']['Message']}") from error
        return {"digest": digest, "bytes": len(text)}

    def pull(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`docker pull`: {"reference", "folder"}; the image is laid out in the folder."""
        manifest = self.registry.manifest(_reference(request))
        if manifest is None or self.blobs.config(manifest.document) is None:
            raise ServiceError("MANIFEST_UNKNOWN", f"manifest for {request['reference']} not found", 404)
        self.blobs.lay_out(manifest.text, Path(str(request["folder"])))
        return {"digest": manifest.digest}

    def close(self) -> None:
        """Remove every image and container that this local AWS made."""
        with self._lock:
            own, self._own, self._blobs = self._own, None, None
        if own is not None:
            own.close()

    def _storage(self) -> OwnStorage:
        with self._lock:
            if self._own is None:
                self._own = OwnStorage()
                self._blobs = Blobs(self._own.storage.folder)
            return self._own

    def _program(self, own: OwnStorage) -> str:
        told = {
            "PYTHONPATH": str(_PROJECT),
            "LOCALAWS_URL": self._url,
            "LOCALAWS_STORAGE": str(own.storage.folder),
            "LOCALAWS_SHARED": str(own.storage.shared),
            "LOCALAWS_BUILDER": "buildah" if can_build() else "fallback",
        }
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
        # -P: the build's own modules in its working folder are not ours.
        python = shlex.quote(sys.executable)
        return f'#!/bin/sh\n{variables} exec {python} -P -m localaws.registry.docker "$@"\n'


def _reference(request: Mapping[str, Any]) -> EcrReference:
    found = parse_ecr(str(request.get("reference")))
    if found is None:
        raise ServiceError("NAME_INVALID", f"{request.get('reference')}: no image name of ECR", 400)
    return found
