"""From a recipe's source to verified files on this disk. A local file is used where it lies."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import httpx

from semif.archive import SHARD, FileRange, described
from semif.errors import RefusedError, UsageError
from semif.package_model.download import Source, fetch
from semif.package_model.facts import SourceFile
from semif.package_model.http_source import HttpSource, Hub, shown
from semif.package_model.recipe import HubSource, Recipe, UriSource
from semif.package_model.s3_source import S3Source

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CHECKPOINT_SUFFIXES = {".json", ".safetensors", ".model", ".txt", ".jinja"}


@dataclass(frozen=True)
class Ports:
    """What the network and the clock are here."""

    http: httpx.Client
    hub: Hub
    s3: "Callable[[], S3Client]"
    say: Callable[[str], None]
    pause: Callable[[float], None]


@dataclass(frozen=True)
class Acquired:
    """Files in the order of the shards; for a checkpoint all files of its folder.

    owned: they lie in the work folder, and may be deleted.
    """

    paths: tuple[Path, ...]
    sources: tuple[SourceFile, ...]
    owned: bool

    def discard(self) -> None:
        """Delete what was fetched."""
        if self.owned:
            for path in self.paths:
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Wanted:
    """One file to bring: its name here, where it comes from, and its checksum ("" if that is unknown)."""

    name: str
    origin: Source | Path
    revision: str = ""
    sha256: str = ""


def is_checkpoint(source: HubSource | UriSource) -> bool:
    """Whether a source to quantize is a checkpoint (a repository, or a folder), not a single GGUF."""
    return isinstance(source, HubSource) or (source.scheme == "" and Path(source.uri).is_dir())


def acquire(recipe: Recipe, known: Mapping[str, str], work: Path, ports: Ports) -> Acquired:
    """Bring the recipe's files and check them. known: the hub's own checksums of a revision's files.

    Raises `checksum_mismatch`, after deleting what was fetched; and the errors of `download.fetch`.
    """
    wanted = (
        _checkpoint(recipe, known, ports) if _makes_from_checkpoint(recipe) else _ggufs(recipe, known, ports)
    )
    paths: list[Path] = []
    sources: list[SourceFile] = []
    for entry in wanted:
        path, source = _bring(entry, work, ports)
        paths.append(path)
        sources.append(source)
    return Acquired(tuple(paths), tuple(sources), owned=not any(isinstance(w.origin, Path) for w in wanted))


def _makes_from_checkpoint(recipe: Recipe) -> bool:
    return recipe.quantize is not None and is_checkpoint(recipe.source)


def _bring(entry: _Wanted, work: Path, ports: Ports) -> tuple[Path, SourceFile]:
    if isinstance(entry.origin, Path):
        path, address = entry.origin, entry.origin.name
        if not path.is_file():
            raise UsageError("no_such_path", f"{path} does not exist", next_step="name a file that is there")
    else:
        path, address = work / entry.name, entry.origin.address
        if not entry.sha256:
            path.unlink(missing_ok=True)  # nothing would tell whether it is still the same file
        ports.say(f"{entry.name}: fetching {address}")
        fetch(entry.origin, path, say=ports.say, pause=ports.pause)
    ports.say(f"{entry.name}: checking SHA-256")
    found = described(entry.name, [FileRange(path, 0, path.stat().st_size)])
    if entry.sha256 and found.sha256 != entry.sha256:
        if not isinstance(entry.origin, Path):
            path.unlink()
        raise RefusedError(
            "checksum_mismatch",
            f"{address} has SHA-256 {found.sha256}, expected {entry.sha256}; nothing was uploaded",
            next_step="find out which is right; correct the recipe's sha256 or its source",
        )
    return path, SourceFile(address, entry.revision, found.size_bytes, found.sha256)


def _ggufs(recipe: Recipe, known: Mapping[str, str], ports: Ports) -> list[_Wanted]:
    """The GGUF, or all shards of the set that the recipe's first shard begins."""
    source = recipe.source
    made = recipe.quantize is not None
    shard = None if made else SHARD.fullmatch(recipe.file)
    names = [recipe.file]
    if shard:
        if int(shard["index"]) != 1:
            raise UsageError(
                "later_shard", f"{recipe.file} is a later shard", field="file", next_step="name the first"
            )
        count = int(shard["count"])
        names = [f"{shard['stem']}-{index:05d}-of-{count:05d}.gguf" for index in range(1, count + 1)]
    wanted = []
    for index, name in enumerate(names):
        sha256 = (recipe.sha256 if index == 0 else None) or known.get(name, "")
        if isinstance(source, HubSource):
            origin: Source | Path = HttpSource(ports.http, ports.hub, ports.hub.file_url(source, name))
            wanted.append(_Wanted(name, origin, source.revision, sha256))
        else:
            wanted.append(_Wanted(name, _uri(source, name, first=index == 0, ports=ports), "", sha256))
    if recipe.sha256 is not None and (unknown := [one.name for one in wanted if not one.sha256]):
        raise UsageError(
            "unknown_checksum", f"no checksum is known of {', '.join(unknown)}", field="sha256",
            next_step="take one whole GGUF, or a hub that lists checksums; shard_bytes cuts shards",
        )  # fmt: skip
    return wanted


def _uri(source: UriSource, name: str, *, first: bool, ports: Ports) -> Source | Path:
    """The address itself for the first file, its neighbour of that name for later shards."""
    if source.scheme == "":
        path = Path(source.uri)
        return path / name if path.is_dir() else path if first else path.with_name(name)
    uri = source.uri if first else source.uri.rpartition("/")[0] + "/" + name
    return S3Source(ports.s3(), uri) if source.scheme == "s3" else HttpSource(ports.http, ports.hub, uri)


def _checkpoint(recipe: Recipe, known: Mapping[str, str], ports: Ports) -> list[_Wanted]:
    source = recipe.source
    if isinstance(source, UriSource):
        folder = Path(source.uri)
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        chosen = [_Wanted(name, folder / name) for name in names if _of_checkpoint(name)]
    else:
        chosen = [
            _Wanted(
                name,
                HttpSource(ports.http, ports.hub, ports.hub.file_url(source, name)),
                source.revision,
                sha,
            )
            for name, sha in sorted(known.items())
            if _of_checkpoint(name)
        ]
    if not {"config.json"} <= {entry.name for entry in chosen} or not any(
        entry.name.endswith(".safetensors") for entry in chosen
    ):
        raise UsageError(
            "no_checkpoint",
            f"{_called(source)} holds no checkpoint (config.json and *.safetensors)",
            field="source",
            next_step="name a checkpoint's repository or folder",
        )
    return chosen


def _of_checkpoint(name: str) -> bool:
    path = PurePosixPath(name)
    return len(path.parts) == 1 and path.suffix in _CHECKPOINT_SUFFIXES


def _called(source: HubSource | UriSource) -> str:
    return source.repository if isinstance(source, HubSource) else shown(source.uri)


def work_key(recipe: Recipe) -> str:
    """Names the folder in which this source's files are kept between runs."""
    return hashlib.sha256(f"{recipe.source.to_json()} {recipe.file}".encode()).hexdigest()[:16]
