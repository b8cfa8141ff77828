"""Image manifests: Docker v2 schema 2, which SageMaker takes, and OCI, which it refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"


def digest_of(content: bytes) -> str:
    """Return the digest by which a registry knows some content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the same bytes for the same document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def docker_manifest(config: bytes, layers: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Return a v2 schema 2 manifest over a configuration and layers `{mediaType, size, digest}`."""
    described = {"mediaType": DOCKER_CONFIG, "size": len(config), "digest": digest_of(config)}
    return canonical(
        {"schemaVersion": 2, "mediaType": DOCKER_MANIFEST, "config": described, "layers": list(layers)}
    )


def media_type(manifest: Mapping[str, Any]) -> str:
    """Return a manifest's media type; OCI allows it to be told by what it lists."""
    if "mediaType" in manifest:
        return str(manifest["mediaType"])
    return OCI_INDEX if "manifests" in manifest else OCI_MANIFEST


def size_bytes(manifest: Mapping[str, Any]) -> int:
    """Return what ECR shows as an image's size: its compressed blobs together."""
    blobs = [manifest.get("config", {}), *manifest.get("layers", [])]
    return sum(int(blob.get("size", 0)) for blob in blobs)
