"""What CloudFormation sends, parsed once: the operation, and the content that it wants.

CloudFormation sends every scalar property of a custom resource as a string.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from build_run.failures import BuildRunError, shortened

RequestType = Literal["Create", "Update", "Delete"]
CONTENT_HASH: Final = "SEMIF_CONTENT_HASH"
REQUEST_ID: Final = "SEMIF_REQUEST_ID"
STACK_ID: Final = "SEMIF_STACK_ID"
OWN_VARIABLES: Final = (CONTENT_HASH, REQUEST_ID, STACK_ID)
"""Set by StartBuild on each build: what it makes, and who asked. The only record of a request."""
STARTED_AT: Final = "StartedAt"
"""Member of the Data that `on_event` answers and the Provider hands to each poll."""
PHYSICAL_ID_SUFFIX: Final = "-build-run"

_COMMON: Final = frozenset(
    {
        "ServiceToken",
        "ServiceTimeout",
        "ProjectName",
        "Kind",
        "ContentHash",
        "SourceLocation",
        "Environment",
        "TimeoutMinutes",
    }
)
_IMAGE: Final = frozenset({"RepositoryName", "RepositoryUri", "ImageTag", "BaseImageDigest"})
_ARCHIVE: Final = frozenset({"BucketName", "Prefix", "ModelRevision", "ModelSha256"})
_PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{1,149}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+")


class PropertyError(BuildRunError):
    """A property that cannot be used; the text names it and what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"invalid_property: {shortened(f'{name} {problem}', 700)}."
            " Next: correct the resource's property, deploy again."
        )


@dataclass(frozen=True)
class Image:
    """The image that a build gives its final tag once every proof has passed."""

    repository_name: str
    repository_uri: str
    tag: str


@dataclass(frozen=True)
class Archive:
    """A model archive under one prefix; its manifest is written last. `sha256`: "" if not known before."""

    bucket_name: str
    prefix: str
    sha256: str


@dataclass(frozen=True)
class Wanted:
    """The content, and how a build makes it. `timeout_minutes`: how long the request waits for a build."""

    content_hash: str
    source_location: str
    environment: tuple[tuple[str, str], ...]
    timeout_minutes: int
    result: Image | Archive


@dataclass(frozen=True)
class Operation:
    """One request of CloudFormation: who asks since when, and what is wanted (None for Delete)."""

    request_type: RequestType
    request_id: str
    stack_id: str
    logical_id: str
    project_name: str
    started_at: datetime
    wanted: Wanted | None


def physical_resource_id(event: Mapping[str, object]) -> str:
    """`<ProjectName>-build-run`: known before anything is built, the same over updates."""
    if event["RequestType"] == "Delete":
        return str(event["PhysicalResourceId"])
    return f"{_project_name(_properties(event))}{PHYSICAL_ID_SUFFIX}"


def parse_operation(event: Mapping[str, object]) -> Operation:
    """Read an event as `is_complete` gets it.

    Delete goes by the physical id, so that bad properties never block it.
    """
    request_type = event["RequestType"]
    if request_type not in {"Create", "Update", "Delete"}:
        raise PropertyError("RequestType", f"is {request_type!r}, not Create, Update or Delete")
    return Operation(
        request_type=request_type,
        request_id=str(event["RequestId"]),
        stack_id=str(event["StackId"]),
        logical_id=str(event.get("LogicalResourceId", "")),
        project_name=physical_resource_id(event).removesuffix(PHYSICAL_ID_SUFFIX),
        started_at=_started_at(event),
        wanted=None if request_type == "Delete" else parse_wanted(_properties(event)),
    )


def parse_wanted(properties: Mapping[str, object]) -> Wanted:
    """Read the resource's properties; raises PropertyError with the property's name."""
    _project_name(properties)
    kind = _text(properties, "Kind")
    if kind not in {"image", "archive"}:
        raise PropertyError("Kind", f"is {kind!r}, not image or archive")
    known = _COMMON | (_IMAGE if kind == "image" else _ARCHIVE)
    if unknown := sorted(set(properties) - known):
        raise PropertyError(unknown[0], f"is not a property of Custom::BuildRun of kind {kind}")
    return Wanted(
        content_hash=_matching(properties, "ContentHash", _HASH, "64 hex digits"),
        source_location=_matching(properties, "SourceLocation", _SOURCE, "a bucket, a slash and a key"),
        environment=_environment(properties),
        timeout_minutes=_integer(properties, "TimeoutMinutes", 1, 480),
        result=_image(properties) if kind == "image" else _archive(properties),
    )


def _image(properties: Mapping[str, object]) -> Image:
    # The base image's digest only tells people what changed: the content's hash covers it.
    _optional(properties, "BaseImageDigest")
    return Image(
        repository_name=_text(properties, "RepositoryName"),
        repository_uri=_text(properties, "RepositoryUri"),
        tag=_text(properties, "ImageTag"),
    )


def _archive(properties: Mapping[str, object]) -> Archive:
    _optional(properties, "ModelRevision")
    prefix = _text(properties, "Prefix")
    if not prefix.endswith("/") or prefix.startswith("/"):
        raise PropertyError("Prefix", f"is {prefix!r}, not a key prefix that ends with one slash")
    sha256 = _optional(properties, "ModelSha256")
    if sha256 and not _HASH.fullmatch(sha256):
        raise PropertyError("ModelSha256", f"is {sha256!r}, neither empty nor 64 hex digits")
    return Archive(bucket_name=_text(properties, "BucketName"), prefix=prefix, sha256=sha256)


def _started_at(event: Mapping[str, object]) -> datetime:
    data = event.get("Data")
    text = data.get(STARTED_AT) if isinstance(data, Mapping) else None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise PropertyError(
            f"Data.{STARTED_AT}", f"is {text!r}, not the time with its zone that on_event answered: a bug"
        )
    return moment


def _properties(event: Mapping[str, object]) -> Mapping[str, object]:
    properties = event.get("ResourceProperties")
    if not isinstance(properties, Mapping):
        raise PropertyError("ResourceProperties", "is missing")
    return properties


def _project_name(properties: Mapping[str, object]) -> str:
    return _matching(properties, "ProjectName", _PROJECT, "2 to 150 letters, digits, hyphens and underscores")


def _text(properties: Mapping[str, object], name: str) -> str:
    value = properties.get(name)
    if not isinstance(value, str) or not value:
        raise PropertyError(name, f"is {value!r}, not a non-empty string")
    return value


def _optional(properties: Mapping[str, object], name: str) -> str:
    value = properties.get(name, "")
    if not isinstance(value, str):
        raise PropertyError(name, f"is {value!r}, not a string")
    return value


def _matching(properties: Mapping[str, object], name: str, pattern: re.Pattern[str], what: str) -> str:
    value = _text(properties, name)
    if not pattern.fullmatch(value):
        raise PropertyError(name, f"is {value!r}, not {what}")
    return value


def _integer(properties: Mapping[str, object], name: str, low: int, high: int) -> int:
    value = _text(properties, name)
    if not re.fullmatch(r"[0-9]{1,6}", value) or not low <= int(value) <= high:
        raise PropertyError(name, f"is {value!r}, not a whole number from {low} to {high}")
    return int(value)


def _environment(properties: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    value = properties.get("Environment", {})
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise PropertyError("Environment", "is not a map of strings")
    for name in value:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise PropertyError("Environment", f"names {name!r}, which is no variable's name")
        if name in OWN_VARIABLES:
            raise PropertyError("Environment", f"names {name}, which each build gets by itself")
    return tuple(sorted(value.items()))
