"""The model directory: which GGUF is served, whether its files are whole, and who vouches for its checksum.

A model is one *.gguf file, or all shards of one split file (`NAME-00001-of-00003.gguf`, …). Projector
files (`mmproj-….gguf`) are no models. `model-manifest.json`, where present, gives sizes and checksums.

Sizes are held against the manifest at every start, checksums only where the operator asks for it: reading a
model through once takes seconds, and a server is ready sooner. Without a manifest the checksum is computed
beside everything else, and is unknown until then.
"""

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from semif_server.errors import ArchiveError

MANIFEST_NAME: Final = "model-manifest.json"
PROFILE_NAME: Final = "profile.json"
_SHARD: Final = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf")
_GGUF_MAGIC: Final = b"GGUF"
_SHOWN_NAMES: Final = 5


class ManifestFile(BaseModel):
    """One file of the archive."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    file: Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]
    bytes: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """`model-manifest.json`, version 1, or what the server needs of version 2.

    Version 2 states facts about the model as well (docs/model-archive.md). The server reads them from the
    model itself, so it takes no notice of them, whatever later packagers add.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    version: Literal[1, 2]
    files: Annotated[tuple[ManifestFile, ...], Field(min_length=1, strict=False)]


@dataclass(frozen=True, slots=True)
class ModelArchive:
    """One model on disk.

    gguf: the file to load, the first shard of a split model. checksum: that file's SHA-256, when it is known;
    OSError if it can't be. sha256_from: "manifest", which vouches for it; "verified", the manifest's and seen
    to be true; or "computed", where the archive has no manifest. profile: the archive's own prompt profile,
    if it has one.
    """

    gguf: Path
    shards: tuple[Path, ...]
    checksum: Future[str]
    sha256_from: Literal["manifest", "verified", "computed"]
    profile: Path | None

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the file to load, None as long as it is unknown."""
        known = self.checksum.done() and self.checksum.exception() is None
        return self.checksum.result() if known else None


def open_archive(
    model_dir: Path, gguf_path: Path | None, verify: Literal["sizes", "full"] = "sizes"
) -> ModelArchive:
    """Find the model and check its files against the manifest: their sizes, or their contents too.

    Raises ArchiveError that names the file and the next step.
    """
    try:
        return _open(model_dir, gguf_path, verify)
    except OSError as error:
        raise ArchiveError(f"{error.filename}: can't be read: {error.strerror}.") from None


def _open(model_dir: Path, gguf_path: Path | None, verify: Literal["sizes", "full"]) -> ModelArchive:
    gguf = _discover(model_dir) if gguf_path is None else _explicit(gguf_path)
    shards = tuple(_shards_of(gguf))
    for shard in shards:
        _check_is_gguf(shard)
    manifest_path, profile_path = gguf.parent / MANIFEST_NAME, gguf.parent / PROFILE_NAME
    profile = _existing(profile_path)
    checksum: Future[str] = Future()
    if manifest_path.is_file():
        files = _read_manifest(manifest_path, shards)
        if verify == "full":
            _check_contents(files, gguf.parent)
        checksum.set_result(files[gguf.name].sha256)
        return ModelArchive(gguf, shards, checksum, "verified" if verify == "full" else "manifest", profile)
    if verify == "full":
        checksum.set_result(_sha256(gguf))
    else:
        threading.Thread(target=_compute, args=(checksum, gguf), name="checksum", daemon=True).start()
    return ModelArchive(gguf, shards, checksum, "computed", profile)


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _discover(model_dir: Path) -> Path:
    if not model_dir.is_dir():
        raise ArchiveError(f"SEMIF_MODEL_DIR={model_dir}: there is no such directory.")
    found = sorted(path for path in model_dir.glob("*.gguf") if path.is_file())
    models = [path for path in found if not _is_projector(path)]
    heads = [path for path in models if _shard_index(path) in (None, 1)]
    if not heads:
        # Later shards alone are still one model, with its first file missing: the shard check says which.
        if models:
            return _first_shard(models[0])
        beside = " (projector files, mmproj, are no models)" if found else ""
        raise ArchiveError(
            f"{model_dir} holds no *.gguf model{beside}: put one there or set SEMIF_GGUF_PATH."
        )
    if len(heads) > 1:
        names = ", ".join(path.name for path in heads[:_SHOWN_NAMES])
        more = f" and {len(heads) - _SHOWN_NAMES} more" if len(heads) > _SHOWN_NAMES else ""
        raise ArchiveError(
            f"{model_dir} holds {len(heads)} models ({names}{more}): keep one or set SEMIF_GGUF_PATH to one."
        )
    return heads[0]


def _explicit(gguf_path: Path) -> Path:
    if not gguf_path.is_file():
        raise ArchiveError(f"SEMIF_GGUF_PATH={gguf_path}: there is no such file.")
    if _shard_index(gguf_path) not in (None, 1):
        raise ArchiveError(
            f"SEMIF_GGUF_PATH={gguf_path}: this is a later shard; name the first,"
            f" {_first_shard(gguf_path).name}."
        )
    return gguf_path


def _is_projector(path: Path) -> bool:
    return "mmproj" in path.name.lower()


def _shard_index(path: Path) -> int | None:
    match = _SHARD.fullmatch(path.name)
    return int(match["index"]) if match else None


def _first_shard(path: Path) -> Path:
    match = _SHARD.fullmatch(path.name)
    return path.with_name(f"{match['stem']}-00001-of-{match['count']}.gguf") if match else path


def _shards_of(gguf: Path) -> Iterator[Path]:
    match = _SHARD.fullmatch(gguf.name)
    if not match:
        yield gguf
        return
    for index in range(1, int(match["count"]) + 1):
        shard = gguf.with_name(f"{match['stem']}-{index:05d}-of-{match['count']}.gguf")
        if not shard.is_file():
            raise ArchiveError(
                f"{shard.name} is missing from {gguf.parent}: a split model needs all its shards."
            )
        yield shard


def _check_is_gguf(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(len(_GGUF_MAGIC))
    if not start:
        raise ArchiveError(f"{path} is empty: upload the model again.")
    if start != _GGUF_MAGIC:
        raise ArchiveError(f"{path} is no GGUF file (it does not begin with GGUF): upload the model again.")


def _read_manifest(path: Path, shards: Sequence[Path]) -> dict[str, ManifestFile]:
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ArchiveError(f"{path}: {where}: {first['msg']}. Package the model again.") from None
    listed = {entry.file: entry for entry in manifest.files}
    if len(listed) != len(manifest.files):
        raise ArchiveError(f"{path}: a file is listed twice. Package the model again.")
    for entry in manifest.files:
        file = path.parent / entry.file
        if not file.is_file():
            raise ArchiveError(f"{path} lists {entry.file}, which is missing: upload the whole archive.")
        size_bytes = file.stat().st_size
        if size_bytes != entry.bytes:
            raise ArchiveError(
                f"{file} has {size_bytes:,} bytes, but {MANIFEST_NAME} says {entry.bytes:,}: upload it again."
            )
    for shard in shards:
        if shard.name not in listed:
            raise ArchiveError(f"{path} does not list {shard.name}: package the model again.")
    return listed


def _check_contents(files: dict[str, ManifestFile], directory: Path) -> None:
    for entry in files.values():
        sha256 = _sha256(directory / entry.file)
        if sha256 != entry.sha256:
            raise ArchiveError(
                f"{directory / entry.file} has the SHA-256 {sha256}, but {MANIFEST_NAME} says {entry.sha256}:"
                " upload it again."
            )


def _compute(checksum: Future[str], path: Path) -> None:
    try:
        checksum.set_result(_sha256(path))
    except OSError as error:
        checksum.set_exception(error)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
