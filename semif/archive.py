"""A model archive: one GGUF (or its shards), a manifest with checksums, and a prompt profile if there is one.

In the bucket it lies, uncompressed, under `models/<sha256 of the first GGUF>/`, with `model-manifest.json`:
`{"version": 1, "files": [{"file": "X.gguf", "bytes": 123, "sha256": "…"}]}`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from semif.aws import ClientError, aws_errors, describe
from semif.errors import UsageError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MANIFEST = "model-manifest.json"
PROFILE = "profile.json"
SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf")
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """One file of the archive; `sha256` is 64 hexadecimal digits."""

    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class ModelArchive:
    """`ggufs` in the order of their shards; `profile` beside them, or None."""

    ggufs: tuple[ModelFile, ...]
    profile: ModelFile | None = None

    @property
    def sha256(self) -> str:
        """What names the archive: the checksum of the first GGUF."""
        return self.ggufs[0].sha256

    @property
    def prefix(self) -> str:
        """Where the archive lies in a bucket; ends with a slash."""
        return f"models/{self.sha256}/"

    def manifest(self) -> bytes:
        """The manifest's text, the same for the same files."""
        files = [{"file": f.path.name, "bytes": f.size_bytes, "sha256": f.sha256} for f in self.ggufs]
        return json.dumps({"version": 1, "files": files}, indent=1).encode() + b"\n"


def read_archive(path: Path) -> ModelArchive:
    """Describe the model at `path`: a folder with one GGUF (or one set of shards), or such a file.

    Reads every byte once. Raises `UsageError` if there is no model, or more than one.
    """
    if path.is_file():
        shard = SHARD.fullmatch(path.name)
        found = sorted(path.parent.glob(f"{shard['stem']}-*.gguf")) if shard else [path]
    elif path.is_dir():
        found = sorted(path.glob("*.gguf"))
    else:
        raise _unusable("no_such_path", f"{path} does not exist", "name a GGUF file or its folder")
    ggufs = tuple(_checked(file) for file in _one_model(path, found))
    profile = ggufs[0].path.with_name(PROFILE)
    return ModelArchive(ggufs, _checked(profile) if profile.is_file() else None)


def write_manifest(archive: ModelArchive) -> Path:
    """Write model-manifest.json beside the GGUF, whole or not at all."""
    target = archive.ggufs[0].path.with_name(MANIFEST)
    unfinished = target.with_name(f".{MANIFEST}.part")
    unfinished.write_bytes(archive.manifest())
    return unfinished.replace(target)


def upload(
    s3: "S3Client", bucket: str, archive: ModelArchive, *, say: Callable[[str], None] = lambda _line: None
) -> str:
    """Bring the archive into the bucket; what is already there, by size and checksum, is not sent again.

    Returns `s3://BUCKET/models/<sha256>/`. The manifest goes last, so an archive with a manifest is whole.
    Raises `UsageError` if the prefix holds other files: SageMaker would give them to the server as well.
    """
    files = [*archive.ggufs, *([archive.profile] if archive.profile else [])]
    uri = f"s3://{bucket}/{archive.prefix}"
    with aws_errors(uri):
        expected = {archive.prefix + name for name in (*(f.path.name for f in files), MANIFEST)}
        if others := sorted(set(_keys(s3, bucket, archive.prefix)) - expected):
            raise _unusable(
                "other_files",
                f"{uri} holds files that are not of this archive: {', '.join(others)}",
                "delete them",
            )
        for file in files:
            _put(s3, bucket, archive.prefix, file, say)
        manifest = archive.manifest()
        s3.put_object(
            Bucket=bucket, Key=archive.prefix + MANIFEST, Body=manifest, ContentType="application/json",
            Metadata={"sha256": hashlib.sha256(manifest).hexdigest()},
        )  # fmt: skip
    return uri


def _put(s3: "S3Client", bucket: str, prefix: str, file: ModelFile, say: Callable[[str], None]) -> None:
    key = prefix + file.path.name
    if _is_there(s3, bucket, key, file):
        say(f"{file.path.name}: already there")
        return
    say(f"{file.path.name}: sending {file.size_bytes / 1e6:.1f} MB")
    with file.path.open("rb") as stream:
        s3.upload_fileobj(stream, bucket, key, ExtraArgs={"Metadata": {"sha256": file.sha256}})


def _is_there(s3: "S3Client", bucket: str, key: str, file: ModelFile) -> bool:
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if describe(error)[0] in {"404", "NoSuchKey"}:
            return False
        raise
    return head["ContentLength"] == file.size_bytes and head["Metadata"].get("sha256") == file.sha256


def _keys(s3: "S3Client", bucket: str, prefix: str) -> Iterator[str]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (found["Key"] for found in page.get("Contents", []))


def _one_model(path: Path, found: list[Path]) -> list[Path]:
    """Check that the files are one GGUF or every shard of one."""
    if not found:
        raise _unusable("no_model", f"{path} holds no *.gguf", "name a folder with one")
    shards = [SHARD.fullmatch(file.name) for file in found]
    if len(found) == 1 and shards[0] is None:
        return found
    names = ", ".join(file.name for file in found)
    sets = {
        (shard["stem"], shard["count"]) if shard else (file.name, "")
        for shard, file in zip(shards, found, strict=True)
    }
    if len(sets) > 1:
        raise _unusable("several_models", f"{path} holds several models: {names}", "name one file")
    count = int(next(iter(sets))[1])
    if [int(shard["index"]) for shard in shards if shard] != list(range(1, count + 1)):
        raise _unusable(
            "missing_shards", f"{path} does not hold all {count} shards: {names}", "add the others"
        )
    return found


def _checked(path: Path) -> ModelFile:
    try:
        with path.open("rb") as stream:
            size_bytes, sha256 = _digest(stream)
    except OSError as error:
        raise _unusable("not_readable", f"{path}: {error.strerror}", "make the file readable") from error
    return ModelFile(path, size_bytes, sha256)


def _digest(stream: BinaryIO) -> tuple[int, str]:
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := stream.read(CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
    return size_bytes, digest.hexdigest()


def _unusable(code: str, message: str, next_step: str) -> UsageError:
    return UsageError(code, message, next_step=next_step)
