"""The way from a recipe to an archive: resolve, fetch, verify, make, describe, put. It wires the steps."""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from semif.archive import FileRange, ModelArchive, described
from semif.errors import NotFoundError, UsageError
from semif.package_model.acquire import Acquired, Ports, acquire, work_key
from semif.package_model.documents import Product, Run, provenance, sbom
from semif.package_model.facts import memory_facts, model_facts
from semif.package_model.gguf_file import GgufFile, read_gguf
from semif.package_model.hub_facts import Revision, read_revision
from semif.package_model.outputs import Output
from semif.package_model.recipe import HubSource, Recipe
from semif.package_model.shards import shard_name, shards

Make = Callable[[Acquired, Recipe, Path], Path]


@dataclass(frozen=True)
class Job:
    """Everything of one run but its recipe.

    prefix: what the caller expects the archive's prefix to be, "" for no expectation. work: a folder for
    what is fetched. make: turns a checkpoint or GGUF into the GGUF that the recipe asks for, deletes what
    it used up, and returns it. builder, invocation and tools go into the provenance.
    """

    output: Output
    ports: Ports
    work: Path
    make: Make
    prefix: str = ""
    builder: str = "urn:semif-sagemaker:by-hand"
    invocation: str = ""
    tools: Mapping[str, str] | None = None


def package(recipe: Recipe, job: Job) -> str:
    """Make the recipe's archive and return its address; what is there already is not made again.

    Raises SemifError. Nothing is written to the output before every source file is verified.
    """
    started = _now()
    revision = _revision(recipe, job.ports)
    known = revision.files if revision else {}
    if revision:
        recipe = recipe.at_commit(revision.commit)
    if recipe.id is not None:
        _check_prefix(job.prefix, recipe.id)
        if there := job.output.complete(recipe, recipe.id):
            job.ports.say("already there, with its papers")
            return there
    with _work_folder(job.work / work_key(recipe)) as work:
        acquired = acquire(recipe, known, work, job.ports)
        if recipe.quantize is not None:
            made = job.make(acquired, recipe, work)
            acquired = replace(acquired, paths=(made,), owned=True)
        archive = _archive(recipe, acquired, revision)
        _check_prefix(job.prefix, archive.id)

        def papers(products: list[Product]) -> tuple[bytes, bytes]:
            run = Run(job.builder, job.invocation, started, _now())
            return (
                sbom(archive.id, products, acquired.sources, archive.facts or {}),
                provenance(recipe, products, acquired.sources, job.tools or {}, run),
            )

        address = job.output.put(archive, recipe, papers)
        acquired.discard()
    return address


def _archive(recipe: Recipe, acquired: Acquired, revision: Revision | None) -> ModelArchive:
    ggufs = [read_gguf(path) for path in acquired.paths]
    first = ggufs[0]
    if recipe.shard_bytes is not None:
        pieces = shards(first, recipe.shard_bytes)
        names = [recipe.file]
        if len(pieces) > 1:
            names = [shard_name(recipe.file, index, len(pieces)) for index in range(len(pieces))]
        files = tuple(described(name, parts) for name, parts in zip(names, pieces, strict=True))
    else:
        names = [recipe.file, *(gguf.path.name for gguf in ggufs[1:])]
        files = tuple(
            described(name, [FileRange(gguf.path, 0, gguf.size_bytes)])
            for name, gguf in zip(names, ggufs, strict=True)
        )
    facts = {
        "recipe": recipe.to_json(),
        "sources": [source.to_json() for source in acquired.sources],
        "license": recipe.license or (revision and revision.license) or first.text("general.license"),
        "model": model_facts(whole(ggufs)),
        "memory": memory_facts(whole(ggufs)),
    }
    return ModelArchive(files, id=recipe.id or files[0].sha256, facts=facts)


def whole(ggufs: list[GgufFile]) -> GgufFile:
    """The facts of a set of shards as of one file: the first one's pairs, and all tensors."""
    tensors = tuple(tensor for gguf in ggufs for tensor in gguf.tensors)
    size = sum(gguf.size_bytes - gguf.data_start for gguf in ggufs) + ggufs[0].data_start
    return replace(ggufs[0], tensors=tensors, size_bytes=size)


def _revision(recipe: Recipe, ports: Ports) -> Revision | None:
    """What the hub says; None for other sources, and for a mirror without the hub's API."""
    source = recipe.source
    if not isinstance(source, HubSource):
        return None
    try:
        return read_revision(ports.http, ports.hub, source)
    except NotFoundError:
        if source.is_pinned and recipe.quantize is None:
            return None
        raise


def _check_prefix(expected: str, archive_id: str) -> None:
    found = f"models/{archive_id}/"
    if expected and expected != found:
        raise UsageError(
            "prefix_mismatch", f"this recipe's archive lies under {found}, not {expected}", field="--prefix",
            next_step="leave --prefix out, or correct the recipe",
        )  # fmt: skip


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """The folder, for this process alone; removed afterwards if nothing is left to resume."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise UsageError(
            "not_writable", f"{folder}: {error.strerror}", field="--work", next_step="name another folder"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                "busy", f"another run works in {folder}", field="--work", next_step="wait for it to end"
            ) from None
        try:
            yield folder
        finally:
            if [path.name for path in folder.iterdir()] == [".lock"]:
                (folder / ".lock").unlink()
                folder.rmdir()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
