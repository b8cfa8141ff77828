"""The documents beside an image: its SBOM as the image holds it, and how it was made.

Pure but for `hash_folder`.

The provenance is an in-toto Statement v1 with a SLSA provenance v1 predicate; it is not signed.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from image_build.errors import RefusedError
from image_build.manifest import PLATFORM, Manifest
from image_build.settings import PinnedImage, Settings

SBOM_PATH: Final = "/opt/semif/sbom.cdx.json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:semif-sagemaker:image-build:v1"
_IGNORED: Final = "__pycache__"


@dataclass(frozen=True)
class Documents:
    """What is stored beside an image, byte by byte."""

    sbom: bytes
    provenance: bytes


def check_sbom(text: bytes) -> bytes:
    """Return `text`, a CycloneDX document. Raises `RefusedError` if it is none."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _no_sbom(f"is no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("bomFormat") != "CycloneDX":
        raise _no_sbom("is no CycloneDX document")
    if not found.get("components"):
        raise _no_sbom("lists no component")
    return text


def documents(
    settings: Settings, manifest: Manifest, sbom: bytes, *, source_hash: str, finished_at: datetime
) -> Documents:
    """Return the SBOM and the statement of the image that `manifest` is. `source_hash`: see `hash_folder`."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": settings.repository_uri, "digest": _digest(manifest.digest)}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": _definition(settings, source_hash),
            "runDetails": {
                "builder": _builder(settings),
                "metadata": {
                    **({"invocationId": settings.run.build_arn} if settings.run.build_arn else {}),
                    "startedOn": _time(settings.run.started_at),
                    "finishedOn": _time(finished_at),
                },
                "byproducts": [
                    {
                        "name": "sbom.cdx.json",
                        "mediaType": "application/vnd.cyclonedx+json",
                        "digest": {"sha256": hashlib.sha256(sbom).hexdigest()},
                    }
                ],
            },
        },
    }
    return Documents(sbom, json.dumps(statement, indent=1).encode() + b"\n")


def hash_folder(folder: Path) -> str:
    """Hash a folder as in-toto's dirHash: SHA-256 over the sorted lines `<sha256>  <path>`, 64 digits."""
    lines = []
    for path in sorted(folder.rglob("*"), key=lambda found: found.relative_to(folder).as_posix()):
        if path.is_file() and _IGNORED not in path.parts:
            name = path.relative_to(folder).as_posix()
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _definition(settings: Settings, source_hash: str) -> Mapping[str, Any]:
    stages = [image for image in (settings.base_image, settings.python_image) if image]
    run = settings.run
    known = {"contentHash": settings.content_hash, "sourceVersion": run.source_version}
    annotations = {key: value for key, value in known.items() if value}
    source = {
        "name": "source",
        **({"uri": _source_uri(run.source)} if run.source else {}),
        "digest": {"dirHash": source_hash},
        **({"annotations": annotations} if annotations else {}),
    }
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "imageTag": settings.image_tag,
            "dockerfile": settings.dockerfile,
            "platform": PLATFORM,
            "buildArgs": settings.build_args,
            "scanSeverity": settings.severity.name if settings.severity else "NONE",
        },
        "resolvedDependencies": [source, *(_material(image) for image in dict.fromkeys(stages))],
    }


def _source_uri(source: str) -> str:
    """CodeBuild names a source in S3 as BUCKET/KEY."""
    return source if ":" in source else f"s3://{source}"


def _material(image: PinnedImage) -> Mapping[str, Any]:
    return {"uri": f"docker://{image.reference}", "digest": {"sha256": image.sha256}}


def _builder(settings: Settings) -> Mapping[str, Any]:
    project = re.sub(r":build/([^:]+):.*", r":project/\1", settings.run.build_arn)
    version = {"version": {"codebuildImage": settings.run.build_image}} if settings.run.build_image else {}
    return {"id": project or f"{BUILD_TYPE}:by-hand", **version}


def _digest(digest: str) -> dict[str, str]:
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _no_sbom(what: str) -> RefusedError:
    return RefusedError(
        "sbom_missing",
        f"the image's {SBOM_PATH} {what}",
        "see the Dockerfile's step that writes it",
    )
