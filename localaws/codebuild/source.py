"""A build's source from S3: a zip, or all objects under a prefix."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

_CHUNK_BYTES = 1 << 20


class SourceError(Exception):
    """The source cannot be fetched; the text is the phase's message."""


def fetch(s3: Any, location: str, *, version: str | None, target: Path, archive: Path) -> None:
    """Put the source at `location` (BUCKET/KEY.zip or BUCKET/PREFIX/) into the folder `target`.

    `archive` is where a zip lies meanwhile.

    Raises:
        SourceError: with S3's own text, or that the object is no zip.
    """
    bucket, _, key = location.removeprefix("arn:aws:s3:::").partition("/")
    try:
        if not key or key.endswith("/"):
            _fetch_folder(s3, bucket, key, target)
        else:
            _download(
                s3, {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}, archive
            )
            _unzip(archive, target, location)
    except ClientError as error:
        detail = error.response["Error"]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raise SourceError(
            f"{detail['Code']}: {detail['Message']} status code: {status} for primary source {location}"
        ) from error


def _download(s3: Any, where: Mapping[str, str], target: Path) -> None:
    with target.open("wb") as file:
        for chunk in s3.get_object(**where)["Body"].iter_chunks(_CHUNK_BYTES):
            file.write(chunk)


def _unzip(archive: Path, target: Path, location: str) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            for item in opened.infolist():
                path = Path(opened.extract(item, target))
                mode = item.external_attr >> 16 & 0o777
                if mode and not item.is_dir():
                    path.chmod(mode)
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"The object {location} cannot be unzipped: {error}") from error
    finally:
        archive.unlink()


def _fetch_folder(s3: Any, bucket: str, prefix: str, target: Path) -> None:
    found = False
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            path = (target / item["Key"].removeprefix(prefix)).resolve()
            if item["Key"].endswith("/") or not path.is_relative_to(target.resolve()):
                continue
            found = True
            path.parent.mkdir(parents=True, exist_ok=True)
            _download(s3, {"Bucket": bucket, "Key": item["Key"]}, path)
    if not found:
        raise SourceError(f"NoSuchKey: no object lies under {bucket}/{prefix}")
