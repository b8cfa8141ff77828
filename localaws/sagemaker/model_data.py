"""Model data in S3: whether it can be used, and fetching it into a folder."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from localaws.sagemaker.models import DataForm, ModelData

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CHUNK_BYTES = 1 << 20


class DownloadError(Exception):
    """Model data cannot be fetched. The text is for the log."""


def bucket_region(s3: S3Client, bucket: str) -> str | None:
    """Return the bucket's region, None if there is no such bucket or it is not ours to read."""
    try:
        return s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] or "us-east-1"
    except ClientError:
        return None


def exists(s3: S3Client, data: ModelData) -> bool:
    """Say whether anything lies at the URL."""
    if data.form is DataForm.PREFIX:
        return bool(s3.list_objects_v2(Bucket=data.bucket, Prefix=data.key, MaxKeys=1).get("Contents"))
    try:
        s3.head_object(Bucket=data.bucket, Key=data.key)
    except ClientError:
        return False
    return True


def fetch(s3: S3Client, data: ModelData, folder: Path, checkpoint: Callable[[], None]) -> None:
    """Put the model data into `folder` and make it read-only, as /opt/ml/model is.

    Args:
        s3: client of the endpoint's account.
        data: where it lies.
        folder: an existing empty folder.
        checkpoint: called after each mebibyte; what it raises ends the fetch.

    Raises:
        DownloadError: nothing lies there, it cannot be read, or a name would leave the folder.
    """
    try:
        match data.form:
            case DataForm.GZIP_TAR:
                with tempfile.NamedTemporaryFile(dir=folder.parent, suffix=".tar.gz") as archive:
                    _copy(s3, data.bucket, data.key, Path(archive.name), checkpoint)
                    with tarfile.open(archive.name, "r:gz") as tar:
                        tar.extractall(folder, filter="data")
            case DataForm.OBJECT:
                _copy(s3, data.bucket, data.key, folder / PurePosixPath(data.key).name, checkpoint)
            case DataForm.PREFIX:
                _fetch_prefix(s3, data, folder, checkpoint)
    except (BotoCoreError, ClientError, OSError, tarfile.TarError) as error:
        raise DownloadError(f"{data.url}: {error}") from error
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)


def _fetch_prefix(s3: S3Client, data: ModelData, folder: Path, checkpoint: Callable[[], None]) -> None:
    found = False
    for key in _keys(s3, data):
        found = True
        relative = PurePosixPath(key[len(data.key) :])
        if relative.is_absolute() or ".." in relative.parts:
            raise DownloadError(f"{data.url}: the key {key} would leave the model's folder")
        target = folder.joinpath(*relative.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(s3, data.bucket, key, target, checkpoint)
    if not found:
        raise DownloadError(f"{data.url}: nothing lies there")


def _keys(s3: S3Client, data: ModelData) -> Iterator[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=data.bucket, Prefix=data.key)
    for page in pages:
        for entry in page.get("Contents", []):
            if not entry["Key"].endswith("/"):
                yield entry["Key"]


def _copy(s3: S3Client, bucket: str, key: str, target: Path, checkpoint: Callable[[], None]) -> None:
    body = s3.get_object(Bucket=bucket, Key=key)["Body"]
    with target.open("wb") as file:
        for chunk in body.iter_chunks(_CHUNK_BYTES):
            file.write(chunk)
            checkpoint()
