"""A build's output in S3: the files that the buildspec names, as a zip or one by one."""

from __future__ import annotations

import fnmatch
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import ClientError

from localaws.codebuild.buildspec import Artifacts


class ArtifactError(Exception):
    """The output cannot be uploaded; the text is the phase's message."""


def upload(
    s3: Any,
    settings: Mapping[str, Any],
    wanted: Artifacts | None,
    *,
    source: Path,
    work: Path,
    build_uuid: str,
) -> dict[str, Any]:
    """Upload what the build made and return the build's `artifacts` as in the API.

    Raises:
        ArtifactError: no file fits, or the buildspec names none.
    """
    if settings["type"] == "NO_ARTIFACTS":
        return {}
    if wanted is None:
        raise ArtifactError("no artifacts in the buildspec, though the project has artifacts of type S3")
    base = (source / wanted.base_directory).resolve()
    files = _matching(base, wanted)
    if not files:
        raise ArtifactError(
            f"no matching artifact paths found: {', '.join(wanted.files)} in {base}"
            if base.is_dir()
            else f"no matching base directory path found for {wanted.base_directory}"
        )
    bucket: str = settings["location"].removeprefix("arn:aws:s3:::")
    name = (wanted.name if settings.get("overrideArtifactName") else None) or settings["name"]
    parts = [
        settings.get("path", ""),
        build_uuid if settings.get("namespaceType") == "BUILD_ID" else "",
        name,
    ]
    key = "/".join(part.strip("/") for part in parts if part.strip("/"))
    names = {file: file.name if wanted.discard_paths else str(file.relative_to(base)) for file in files}
    packed = settings.get("packaging", "NONE") == "ZIP"
    try:
        made = _upload_zip(s3, bucket, key, names, work) if packed else _upload_all(s3, bucket, key, names)
    except (Boto3Error, ClientError) as error:
        raise ArtifactError(str(error)) from error
    return {"location": f"arn:aws:s3:::{bucket}/{key}"} | made


def _upload_all(s3: Any, bucket: str, key: str, names: Mapping[Path, str]) -> dict[str, Any]:
    for file, inner in names.items():
        s3.upload_file(str(file), bucket, f"{key}/{inner}")
    return {}


def _upload_zip(s3: Any, bucket: str, key: str, names: Mapping[Path, str], work: Path) -> dict[str, Any]:
    archive = work / "artifact.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for file, inner in names.items():
            opened.write(file, inner)
    s3.upload_file(str(archive), bucket, key)
    with archive.open("rb") as file_object:
        return {"sha256sum": hashlib.file_digest(file_object, "sha256").hexdigest()}


def _matching(base: Path, wanted: Artifacts) -> list[Path]:
    """Return the files under `base` that fit a pattern and no exclusion; a folder's name means all in it."""
    return [
        path
        for path in sorted(base.rglob("*"))
        if path.is_file()
        and any(_fits(path.relative_to(base).as_posix(), pattern) for pattern in wanted.files)
        and not any(_fits(path.relative_to(base).as_posix(), pattern) for pattern in wanted.exclude_paths)
    ]


def _fits(name: str, pattern: str) -> bool:
    """`**/*` is everything, `*` stays in its folder, and a plain path is itself or its content."""
    pattern = pattern.removeprefix("./")
    if pattern in {"**/*", "**"}:
        return True
    if pattern.endswith("/**/*"):
        return name.startswith(pattern.removesuffix("**/*"))
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(name.rsplit("/", 1)[-1], pattern.removeprefix("**/"))
    folders, given = name.split("/"), pattern.split("/")
    if len(folders) == len(given):
        return all(map(fnmatch.fnmatchcase, folders, given))
    return name.startswith(f"{pattern}/")
