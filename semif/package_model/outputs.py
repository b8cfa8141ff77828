"""Where an archive goes: a bucket's prefix, one model.tar.gz in a bucket, or a folder."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from semif.archive import (
    MANIFEST,
    FileRange,
    ModelArchive,
    ModelFile,
    described,
    is_there,
    put_file,
    upload,
    write_manifest,
)
from semif.aws import ClientError, aws_errors, describe
from semif.errors import UsageError
from semif.package_model.documents import Product
from semif.package_model.recipe import Recipe
from semif.package_model.tarball import BLOCK_BYTES, tar_gz
from semif.s3_upload import put_stream

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

TARBALL = "model.tar.gz"
SBOM, PROVENANCE = "sbom.cdx.json", "provenance.json"
Layout = Literal["prefix", "tar.gz"]
Papers = Callable[[list[Product]], tuple[bytes, bytes]]
"""Bill of materials and provenance of what was, or is about to be, written."""


class Output(Protocol):
    """A place for archives."""

    def complete(self, recipe: Recipe, archive_id: str) -> str | None:
        """The address of the recipe's archive, if it and its papers are there; nothing is written."""

    def put(self, archive: ModelArchive, recipe: Recipe, papers: Papers) -> str:
        """Write the archive with its papers and return its address.

        Its manifest appears last, so that an archive with a manifest has its papers too. A provenance of the
        same making that is there already stays.
        """


@dataclass
class BucketOutput:
    """`models/<id>/` or `archives/<id>/model.tar.gz`, and `provenance/models/<id>/`."""

    s3: "S3Client"
    bucket: str
    layout: Layout
    say: Callable[[str], None]

    def complete(self, recipe: Recipe, archive_id: str) -> str | None:
        """See `Output`."""
        with aws_errors(f"s3://{self.bucket}"):
            if any(self._read(_paper_key(archive_id, name)) is None for name in (SBOM, PROVENANCE)):
                return None
            if self.layout == "tar.gz":
                head = self._head(_tarball_key(archive_id))
                is_it = head is not None and head["Metadata"].get("recipe-sha256") == _recipe_sha256(recipe)
                return f"s3://{self.bucket}/{_tarball_key(archive_id)}" if is_it else None
            prefix = f"models/{archive_id}/"
            manifest = _document(self._read(prefix + MANIFEST))
            if manifest.get("version") != 2 or manifest.get("recipe") != recipe.to_json():
                return None
            for entry in manifest["files"]:
                key = prefix + entry["file"]
                if not is_there(self.s3, self.bucket, key, size_bytes=entry["bytes"], sha256=entry["sha256"]):
                    return None
            return f"s3://{self.bucket}/{prefix}"

    def put(self, archive: ModelArchive, recipe: Recipe, papers: Papers) -> str:
        """See `Output`; what a tarball comes to shows only when it is written, so its papers follow it."""
        if self.layout == "prefix":
            self._put_papers(archive.id, *papers(_products(archive)))
            return upload(self.s3, self.bucket, archive, say=self.say)
        key = _tarball_key(archive.id)
        manifest = described(MANIFEST, [archive.manifest()])
        files = [*archive.files, manifest]
        metadata = {"recipe-sha256": _recipe_sha256(recipe), "manifest-sha256": manifest.sha256}
        digest, counted = hashlib.sha256(), 0

        def counting() -> Iterator[bytes]:
            nonlocal counted
            for chunk in tar_gz(files):
                digest.update(chunk)
                counted += len(chunk)
                yield chunk

        with aws_errors(f"s3://{self.bucket}/{key}"):
            head = self._head(key)
            if head is not None and all(head["Metadata"].get(k) == v for k, v in metadata.items()):
                self.say(f"{TARBALL}: already there")
                for _chunk in counting():
                    pass
            else:
                size_bytes = sum(file.size_bytes + 2 * BLOCK_BYTES for file in files)
                self.say(f"{TARBALL}: sending {size_bytes / 1e6:.1f} MB")
                put_stream(
                    self.s3, self.bucket, key, counting(), size_bytes=size_bytes, metadata=metadata,
                    content_type="application/gzip",
                )  # fmt: skip
        self._put_papers(archive.id, *papers([Product(TARBALL, counted, digest.hexdigest())]))
        return f"s3://{self.bucket}/{key}"

    def _put_papers(self, archive_id: str, sbom: bytes, provenance: bytes) -> None:
        with aws_errors(f"s3://{self.bucket}"):
            put_file(self.s3, self.bucket, _paper_key(archive_id, SBOM), described(SBOM, [sbom]), self.say)
            key = _paper_key(archive_id, PROVENANCE)
            if not _same_making(self._read(key), provenance):
                put_file(self.s3, self.bucket, key, described(PROVENANCE, [provenance]), self.say)

    def _read(self, key: str) -> bytes | None:
        try:
            return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if describe(error)[0] in {"404", "NoSuchKey"}:
                return None
            raise

    def _head(self, key: str) -> Any:
        try:
            return self.s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if describe(error)[0] in {"404", "NoSuchKey"}:
                return None
            raise


@dataclass
class FolderOutput:
    """A folder: the archive's files, or model.tar.gz; the papers in its `provenance/`.

    work: a whole file of this folder, which is deleted at the end, is linked instead of copied.
    """

    folder: Path
    layout: Layout
    say: Callable[[str], None]
    work: Path | None = None

    def complete(self, recipe: Recipe, archive_id: str) -> str | None:
        """A folder is always looked through anew."""
        del recipe, archive_id
        return None

    def put(self, archive: ModelArchive, recipe: Recipe, papers: Papers) -> str:
        """See `Output`."""
        del recipe
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.layout == "tar.gz":
            files = [*archive.files, described(MANIFEST, [archive.manifest()])]
            found = self._write(TARBALL, tar_gz(files), sum(file.size_bytes for file in files))
            self._put_papers(*papers([Product(TARBALL, *found)]))
            return str(self.folder / TARBALL)
        names = {file.name for file in archive.files}
        if others := sorted(p.name for p in self.folder.glob("*.gguf") if p.name not in names):
            raise UsageError(
                "other_files", f"{self.folder} holds other models: {', '.join(others)}", field="--output",
                next_step="name another folder",
            )  # fmt: skip
        for file in archive.files:
            if not _has(self.folder / file.name, file) and not self._linked(file):
                self._write(file.name, file.chunks(), file.size_bytes)
        self._put_papers(*papers(_products(archive)))
        write_manifest(archive, self.folder)
        return str(self.folder)

    def _put_papers(self, sbom: bytes, provenance: bytes) -> None:
        papers = self.folder / "provenance"
        papers.mkdir(exist_ok=True)
        (papers / SBOM).write_bytes(sbom)
        old = papers / PROVENANCE
        if not _same_making(old.read_bytes() if old.is_file() else None, provenance):
            old.write_bytes(provenance)

    def _linked(self, file: ModelFile) -> bool:
        """Whether the file could be had without a copy."""
        match file.pieces:
            case (FileRange(path, 0, stop),) if stop == file.size_bytes == path.stat().st_size:
                if self.work is None or not path.is_relative_to(self.work):
                    return False
                try:
                    (self.folder / file.name).unlink(missing_ok=True)
                    (self.folder / file.name).hardlink_to(path)
                except OSError:  # another file system
                    return False
                return True
        return False

    def _write(self, name: str, chunks: Iterator[bytes], size_bytes: int) -> tuple[int, str]:
        free = shutil.disk_usage(self.folder).free
        if free < size_bytes:
            raise UsageError(
                "disk_full", f"{self.folder} has {free:,} bytes free, {name} needs {size_bytes:,}",
                field="--output", next_step="free some space or name another folder",
            )  # fmt: skip
        self.say(f"{name}: writing {size_bytes / 1e6:.1f} MB")
        unfinished = self.folder / f".{name}.part"
        digest, counted = hashlib.sha256(), 0
        try:
            with unfinished.open("wb") as stream:
                for chunk in chunks:
                    stream.write(chunk)
                    digest.update(chunk)
                    counted += len(chunk)
            unfinished.replace(self.folder / name)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise UsageError(
                "not_writable", f"{self.folder / name}: {error.strerror}", field="--output",
                next_step="free some space or name another folder",
            ) from error  # fmt: skip
        return counted, digest.hexdigest()


def _has(path: Path, file: ModelFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size_bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _products(archive: ModelArchive) -> list[Product]:
    return [Product(file.name, file.size_bytes, file.sha256) for file in archive.files]


def _same_making(old: bytes | None, new: bytes) -> bool:
    """Whether two statements differ by who made it and when alone."""
    if old is None:
        return False
    left, right = _document(old), _document(new)
    return (
        left.get("subject") == right.get("subject")
        and (left.get("predicate") or {}).get("buildDefinition") == right["predicate"]["buildDefinition"]
    )


def _document(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _recipe_sha256(recipe: Recipe) -> str:
    return hashlib.sha256(recipe.canonical().encode()).hexdigest()


def _paper_key(archive_id: str, name: str) -> str:
    return f"provenance/models/{archive_id}/{name}"


def _tarball_key(archive_id: str) -> str:
    return f"archives/{archive_id}/{TARBALL}"
