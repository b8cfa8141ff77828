"""The command line of `semif package-model`: flags and environment → a recipe and a job."""

import os
import re
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from semif.aws import open_aws
from semif.errors import UsageError
from semif.package_model.acquire import Ports
from semif.package_model.convert import Tools, make_gguf
from semif.package_model.http_source import DEFAULT_HUB, Hub, client
from semif.package_model.outputs import BucketOutput, FolderOutput, Layout, Output
from semif.package_model.package import Job, package
from semif.package_model.recipe import DEFAULT, HubSource, Recipe, UriSource, checked, parse_recipe

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def recipe_from_flags(
    source: str | None, *, revision: str | None, file: str | None, sha256: str | None, quantize: str | None,
    convert: bool, shard_bytes: int | None, license_name: str | None,
) -> Recipe:  # fmt: skip
    """The recipe that the flags describe; without a source the default model. Raises `UsageError`."""
    made = quantize or ("F16" if convert else None)
    if source is None:
        if any(value is not None for value in (revision, file, sha256, made)):
            raise UsageError("no_source", "flags describe a source, but none is named",
                             next_step="name OWNER/NAME, an address or a path first")  # fmt: skip
        return checked(Recipe(DEFAULT.source, DEFAULT.file, DEFAULT.sha256, None, shard_bytes, license_name))
    parsed = _parse_source(source, revision)
    return checked(Recipe(parsed, file or _file_of(parsed, made), sha256, made, shard_bytes, license_name))


def run(
    recipe: Recipe | str, *, bucket: str | None, prefix: str, layout: str, output: Path | None,
    work: Path | None, region: str | None, profile: str | None, tools: Tools, say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> str:  # fmt: skip
    """Package; returns the archive's address. `recipe` may be its JSON."""
    wanted = parse_recipe(recipe) if isinstance(recipe, str) else recipe
    if layout not in get_args(Layout):
        raise UsageError(
            "bad_format", f"{layout!r} is no format", field="--format", next_step="use prefix or tar.gz"
        )
    if (bucket is None) == (output is None):
        raise UsageError(
            "no_output" if bucket is None else "several_outputs",
            "the archive goes to a bucket or a folder", next_step="give --bucket or --output, one of them",
        )  # fmt: skip
    clients: list[S3Client] = []

    def s3() -> "S3Client":
        if not clients:
            clients.append(open_aws(region=region, profile=profile).s3())
        return clients[0]

    kind: Layout = "tar.gz" if layout == "tar.gz" else "prefix"
    folder = work or _cache(environment)
    place: Output
    if output is not None:
        place = FolderOutput(output, kind, say, folder)
    else:
        place = BucketOutput(s3(), str(bucket), kind, say)
    hub = Hub((environment.get("HF_ENDPOINT") or DEFAULT_HUB).rstrip("/"), environment.get("HF_TOKEN") or "")
    with client() as http:
        return package(wanted, Job(
            output=place,
            ports=Ports(http, hub, s3, say, time.sleep),
            work=folder,
            make=lambda acquired, made, into: make_gguf(acquired, made, into, tools, say),
            prefix=prefix,
            invocation=environment.get("CODEBUILD_BUILD_ARN", ""),
            builder="https://aws.amazon.com/codebuild"
            if environment.get("CODEBUILD_BUILD_ARN") else "urn:semif-sagemaker:by-hand",
            tools={"semif-sagemaker": _version()},
        ))  # fmt: skip


def _parse_source(source: str, revision: str | None) -> HubSource | UriSource:
    if "://" in source or Path(source).exists() or not _REPOSITORY.fullmatch(source):
        if revision is not None:
            raise UsageError("no_repository", f"{source} has no revisions", field="--revision",
                             next_step="leave --revision out")  # fmt: skip
        return UriSource(source)
    return HubSource(source, revision or "main")


def _file_of(source: HubSource | UriSource, made: str | None) -> str:
    if isinstance(source, HubSource):
        if made is None:
            raise UsageError("no_file", "a repository holds many files", field="--file",
                             next_step="name the GGUF with --file")  # fmt: skip
        return f"{source.repository.rpartition('/')[2]}-{made}.gguf"
    name = Path(source.uri.partition("?")[0].rstrip("/")).name
    return name if made is None else f"{name.removesuffix('.gguf')}-{made}.gguf"


def _cache(environment: Mapping[str, str]) -> Path:
    root = environment.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "semif-sagemaker" / "packages"


def _version() -> str:
    try:
        return version("semif-sagemaker")
    except PackageNotFoundError:  # in CodeBuild the package runs from its folder
        return "from source"
