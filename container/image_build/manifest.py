"""What a pushed manifest and docker's description say: SageMaker's media type and the added size. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from image_build.errors import RefusedError

DOCKER_V2: Final = "application/vnd.docker.distribution.manifest.v2+json"
MEDIA_TYPES: Final = (
    DOCKER_V2,
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)
"""Every form that a push can leave in ECR; asked for by name, so that ECR answers the stored one."""
PLATFORM: Final = "linux/amd64"
MAX_ADDED_BYTES: Final = 80_000_000


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry stores it: `text` byte by byte, `digest` as sha256:…."""

    digest: str
    media_type: str
    text: str


@dataclass(frozen=True)
class LocalImage:
    """docker's description of an image; `layers` are diff ids from the lowest, `size_bytes` unpacked."""

    platform: str
    layers: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class AddedSize:
    """What our layers add to the base: compressed as they are pulled, unpacked as they lie on disk."""

    layers: int
    compressed_bytes: int
    unpacked_bytes: int


def parse_local(described: Mapping[str, Any]) -> LocalImage:
    """Read what `docker image inspect` says."""
    return LocalImage(
        platform=f"{described.get('Os', '')}/{described.get('Architecture', '')}",
        layers=tuple((described.get("RootFS") or {}).get("Layers") or ()),
        size_bytes=int(described.get("Size") or 0),
    )


def check_local(image: LocalImage, base: LocalImage) -> None:
    """Raise `RefusedError` if the image is for another platform or does not stand on the base."""
    if image.platform != PLATFORM:
        raise RefusedError(
            "wrong_platform",
            f"the image is for {image.platform}, its endpoints run {PLATFORM}",
            f"pin a base image of {PLATFORM}",
        )
    if image.layers[: len(base.layers)] != base.layers or len(image.layers) == len(base.layers):
        raise RefusedError(
            "not_on_base",
            f"the image's {len(image.layers)} layers do not continue the base's {len(base.layers)}",
            "see that the Dockerfile's last stage is FROM ${BASE_IMAGE}",
        )


def check_manifest(manifest: Manifest) -> None:
    """Raise `RefusedError` unless SageMaker takes the manifest: one platform, Docker v2 schema 2."""
    if manifest.media_type != DOCKER_V2:
        raise RefusedError(
            "manifest_not_docker_v2",
            f"SageMaker would refuse the image: Unsupported manifest media type {manifest.media_type}",
            f"push a single-platform image as {DOCKER_V2}: no attestations, and a docker daemon with"
            " its own image store (containerd's writes OCI manifests)",
        )
    digest = f"sha256:{hashlib.sha256(manifest.text.encode()).hexdigest()}"
    if manifest.digest != digest:
        raise RefusedError(
            "manifest_digest_differs",
            f"the registry gives {manifest.digest} for a manifest whose digest is {digest}",
            "report this as a bug",
        )


def added_size(manifest: Manifest, image: LocalImage, base: LocalImage) -> AddedSize:
    """Weigh the layers above the base.

    Raises:
        RefusedError: the pushed manifest lists other layers than docker does.
    """
    layers = json.loads(manifest.text)["layers"]
    if len(layers) != len(image.layers):
        raise RefusedError(
            "manifest_layers_differ",
            f"the pushed manifest lists {len(layers)} layers, docker {len(image.layers)}",
            "report this as a bug",
        )
    added = layers[len(base.layers) :]
    return AddedSize(
        layers=len(added),
        compressed_bytes=sum(int(layer["size"]) for layer in added),
        unpacked_bytes=image.size_bytes - base.size_bytes,
    )


def check_size(size: AddedSize) -> None:
    """Raise `RefusedError` if the added layers are too large to pull quickly."""
    if size.compressed_bytes > MAX_ADDED_BYTES:
        raise RefusedError(
            "image_too_large",
            f"our layers add {size.compressed_bytes / 1e6:.1f} MB compressed, the limit is"
            f" {MAX_ADDED_BYTES / 1e6:.0f} MB",
            "see which layer grew (docker history) and drop what the server does not import",
        )
