"""A model archive: one GGUF (or its shards), a manifest with checksums, and a prompt profile if there is one.

In the bucket it lies, uncompressed, under `models/<id>/`, with `model-manifest.json`:
`{"version": 1, "files": [{"file": "X.gguf", "bytes": 123, "sha256": "…"}]}`; version 2 adds facts about the
model (docs/model-archive.md). The id of an unchanged model is the SHA-256 of its first GGUF.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semif.aws import ClientError, aws_errors, describe
from semif.errors import UsageError
from semif.s3_upload import put_stream

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MANIFEST = "model-manifest.json"
PROFILE = "profile.json"
SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf")
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileRange:
    """Bytes of a file on disk, from `start` up to `stop`."""

    path: Path
    start: int
    stop: int

    def chunks(self) -> Iterator[bytes]:
        """The bytes, a mebibyte at a time. Raises `UsageError` if the file can't be read or is too short."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.start)
                left = self.stop - self.start
                while left:
                    chunk = stream.read(min(CHUNK_BYTES, left))
                    if not chunk:
                        raise _unusable(
                            "changed_file", f"{self.path} became shorter", "run the command again"
                        )
                    left -= len(chunk)
                    yield chunk
        except OSError as error:
            raise _unusable(
                "not_readable", f"{self.path}: {error.strerror}", "make the file readable"
            ) from error


Piece = bytes | FileRange


@dataclass(frozen=True)
class ModelFile:
    """One file of the archive, made of pieces of files on disk. `sha256`: 64 hexadecimal digits."""

    name: str
    pieces: tuple[Piece, ...]
    size_bytes: int
    sha256: str

    def chunks(self) -> Iterator[bytes]:
        """Its bytes."""
        return _chunks(self.pieces)


@dataclass(frozen=True)
class ModelArchive:
    """`ggufs` in the order of their shards; `profile` beside them, or None.

    id: what names the archive; "" for the checksum of the first GGUF. facts: the manifest's members beside
    `version` and `files`; none at all make it version 1.
    """

    ggufs: tuple[ModelFile, ...]
    profile: ModelFile | None = None
    id: str = ""
    facts: Mapping[str, Any] | None = None

    @property
    def sha256(self) -> str:
        """The checksum of the first GGUF."""
        return self.ggufs[0].sha256

    @property
    def prefix(self) -> str:
        """Where the archive lies in a bucket; ends with a slash."""
        return f"models/{self.id or self.sha256}/"

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """All files but the manifest."""
        return (*self.ggufs, *([self.profile] if self.profile else []))

    def manifest(self) -> bytes:
        """The manifest's text, the same for the same files and facts."""
        files = [{"file": f.name, "bytes": f.size_bytes, "sha256": f.sha256} for f in self.ggufs]
        document = {"version": 1 if self.facts is None else 2, "files": files, **(self.facts or {})}
        return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


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
    profile = (path if path.is_dir() else path.parent) / PROFILE
    return ModelArchive(ggufs, _checked(profile) if profile.is_file() else None)


def described(name: str, pieces: Sequence[Piece]) -> ModelFile:
    """The file made of these pieces; reads every byte once for its checksum."""
    digest, size_bytes = hashlib.sha256(), 0
    for chunk in _chunks(pieces):
        digest.update(chunk)
        size_bytes += len(chunk)
    return ModelFile(name, tuple(pieces), size_bytes, digest.hexdigest())


def write_manifest(archive: ModelArchive, folder: Path) -> Path:
    """Write model-manifest.json into the folder of the GGUF, whole or not at all."""
    unfinished = folder / f".{MANIFEST}.part"
    unfinished.write_bytes(archive.manifest())
    return unfinished.replace(folder / MANIFEST)


def upload(
    s3: "S3Client", bucket: str, archive: ModelArchive, *, say: Callable[[str], None] = lambda _line: None
) -> str:
    """Bring the archive into the bucket; what is already there, by size and checksum, is not sent again.

    Returns `s3://BUCKET/models/<id>/`. The manifest goes last, so an archive with a manifest is whole.
    Raises `UsageError` if the prefix holds other files: SageMaker would give them to the server as well.
    """
    uri = f"s3://{bucket}/{archive.prefix}"
    manifest = described(MANIFEST, [archive.manifest()])
    with aws_errors(uri):
        expected = {archive.prefix + file.name for file in (*archive.files, manifest)}
        if others := sorted(set(_keys(s3, bucket, archive.prefix)) - expected):
            raise _unusable(
                "other_files",
                f"{uri} holds files that are not of this archive: {', '.join(others)}",
                "delete them",
            )
        for file in (*archive.files, manifest):
            put_file(s3, bucket, archive.prefix + file.name, file, say)
    return uri


def put_file(
    s3: "S3Client", bucket: str, key: str, file: ModelFile, say: Callable[[str], None] = lambda _line: None
) -> None:
    """Send one file, unless an object of this size and checksum is there."""
    if is_there(s3, bucket, key, size_bytes=file.size_bytes, sha256=file.sha256):
        say(f"{file.name}: already there")
        return
    say(f"{file.name}: sending {file.size_bytes / 1e6:.1f} MB")
    put_stream(
        s3, bucket, key, file.chunks(), size_bytes=file.size_bytes, metadata={"sha256": file.sha256},
        content_type="application/json" if key.endswith(".json") else "application/octet-stream",
    )  # fmt: skip


def is_there(s3: "S3Client", bucket: str, key: str, *, size_bytes: int, sha256: str) -> bool:
    """Whether an object of this size, sent with this checksum, lies under the key."""
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if describe(error)[0] in {"404", "NoSuchKey"}:
            return False
        raise
    return head["ContentLength"] == size_bytes and head["Metadata"].get("sha256") == sha256


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
        size_bytes = path.stat().st_size
    except OSError as error:
        raise _unusable("not_readable", f"{path}: {error.strerror}", "make the file readable") from error
    return described(path.name, [FileRange(path, 0, size_bytes)])


def _chunks(pieces: Sequence[Piece]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            yield from piece.chunks()


def _unusable(code: str, message: str, next_step: str) -> UsageError:
    return UsageError(code, message, next_step=next_step)
