"""What a build gets, and the name of what comes out: assets of exactly its inputs, and their hash.

Each stack that needs a source makes the asset itself: the same files give the same object, and a deployment
of that stack alone uploads it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import IgnoreMode
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.build_settings import ImageBuildSettings, Severity
from stacks.dlc import Flavour

CONTAINER_SOURCES: Final = Path(__file__).parent.parent / "container"
PROJECT_ROOT: Final = Path(__file__).parent.parent
DOCKERFILES: Final[Mapping[Flavour, str]] = {"cpu": "Dockerfile", "cuda": "Dockerfile.gpu"}
IMAGE_BUILDSPEC: Final = "buildspec.yml"
ARCHIVE_BUILDSPEC: Final = "semif/codebuild/buildspec.yml"
TAG_HASH_LENGTH: Final = 16

_COMPILED: Final = ("__pycache__", "*.pyc")


def image_source(scope: Construct, image: ImageBuildSettings) -> assets.Asset:
    """container/ without the Dockerfiles and the pins of bindings that this image does not use."""
    others = [f"/{dockerfile}" for flavour, dockerfile in DOCKERFILES.items() if flavour != image.flavour]
    return assets.Asset(
        scope,
        f"Image{image.flavour.capitalize()}Source",
        path=str(CONTAINER_SOURCES),
        exclude=[*_COMPILED, *others, "/requirements-bindings-*.txt", f"!/{image.bindings}"],
        ignore_mode=IgnoreMode.GIT,
    )


def archive_source(scope: Construct) -> assets.Asset:
    """The package semif in a folder of its name, as `python -m semif` needs it."""
    return assets.Asset(
        scope,
        "ArchiveSource",
        path=str(PROJECT_ROOT),
        exclude=["/*", "!/semif", *_COMPILED],
        ignore_mode=IgnoreMode.GIT,
    )


def image_content_hash(source: assets.Asset, settings: ImageBuildSettings, scan_severity: Severity) -> str:
    """64 hexadecimal digits over all that the image is made from, and the findings that it may have.

    With the findings, a stricter setting is held against images that are there already.
    """
    inputs = {
        "sources": source.asset_hash,
        "base_image": settings.base_image.digest,
        "python_image": settings.python_image.digest,
        "bindings": settings.bindings,
        "scan_severity": scan_severity,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def image_tag(flavour: Flavour, content_hash: str) -> str:
    """An immutable tag that never needs to move."""
    return f"{flavour}-{content_hash[:TAG_HASH_LENGTH]}"


def location(source: assets.Asset) -> str:
    """BUCKET/KEY, as CodeBuild names a source in S3."""
    return f"{source.s3_bucket_name}/{source.s3_object_key}"
