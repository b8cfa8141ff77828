"""Environment → frozen settings of one build. The only reader of variables."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from image_build.errors import SettingsError
from image_build.findings import Severity, threshold

DOCKERFILES: Final = ("Dockerfile", "Dockerfile.gpu")
OWN_BUILD_ARGS: Final = ("BASE_IMAGE", "PYTHON_IMAGE", "PIP_INDEX_URL")
"""Build arguments with a variable of their own; SEMIF_BUILD_ARGS may not set them."""
MAX_TAG_CHARS: Final = 128

_ECR_HOST: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
)
_NAME: Final = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
_PINNED: Final = re.compile(rf"(?P<name>(?:[\w.-]+(?::\d+)?/)?{_NAME})@sha256:(?P<sha256>[0-9a-f]{{64}})")
_TAG: Final = re.compile(r"(?:cpu|cuda)-[0-9a-f]{16}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ARGUMENT: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_CONTENT_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Registry:
    """A private ECR registry, which docker must log in to."""

    host: str
    account: str
    region: str


@dataclass(frozen=True)
class PinnedImage:
    """An image by digest; `sha256` is 64 hexadecimal digits."""

    name: str
    sha256: str

    @property
    def reference(self) -> str:
        """What docker is given."""
        return f"{self.name}@sha256:{self.sha256}"

    @property
    def registry(self) -> Registry | None:
        """Its private ECR registry; None for any other, which is read without a login."""
        return _registry(self.name.partition("/")[0])


@dataclass(frozen=True)
class CodeBuildRun:
    """What CodeBuild says of this build; "" where the program runs by hand."""

    build_id: str
    build_arn: str
    build_image: str
    source: str
    source_version: str
    started_at: datetime


@dataclass(frozen=True)
class Settings:
    """One build. `repository_uri` is `<registry.host>/<repository>`; `severity` None asks for no scan.

    `content_hash` is what BuildRun matches builds by; "" by hand. `candidate_tag` is this run's alone.
    """

    image_tag: str
    candidate_tag: str
    registry: Registry
    repository: str
    base_image: PinnedImage
    python_image: PinnedImage | None
    dockerfile: str
    bucket: str
    severity: Severity | None
    index_url: str
    extra_build_args: Mapping[str, str]
    content_hash: str
    run: CodeBuildRun

    @property
    def repository_uri(self) -> str:
        """The repository as docker names it."""
        return f"{self.registry.host}/{self.repository}"

    @property
    def build_args(self) -> dict[str, str]:
        """Every build argument, in the order in which docker gets them."""
        arguments = {"BASE_IMAGE": self.base_image.reference}
        if self.python_image:
            arguments["PYTHON_IMAGE"] = self.python_image.reference
        if self.index_url:
            arguments["PIP_INDEX_URL"] = self.index_url
        return {**arguments, **dict(sorted(self.extra_build_args.items()))}

    @property
    def registries(self) -> tuple[Registry, ...]:
        """The private registries of this build, each once: those of the stages, then our own."""
        stages = (self.base_image, self.python_image)
        found = [image.registry for image in stages if image and image.registry]
        return tuple(dict.fromkeys([*found, self.registry]))


def parse_settings(environ: Mapping[str, str], *, now: datetime) -> Settings:
    """Read the variables; `now` is the start where CodeBuild gives none.

    Raises:
        SettingsError: naming the variable and what is allowed.
    """
    uri = _required(environ, "SEMIF_REPOSITORY_URI")
    host, _, repository = uri.partition("/")
    registry = _registry(host)
    if registry is None or not re.fullmatch(_NAME, repository):
        raise SettingsError(
            "SEMIF_REPOSITORY_URI",
            f"{uri!r} is no repository of a private ECR registry",
            "give ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME without a tag",
        )
    tag = _matching(environ, "SEMIF_IMAGE_TAG", _TAG, "cpu- or cuda- and 16 hexadecimal digits")
    run = _run(environ, now)
    python_image = environ.get("SEMIF_PYTHON_IMAGE", "")
    return Settings(
        image_tag=tag,
        candidate_tag=candidate_tag(tag, run.build_id),
        registry=registry,
        repository=repository,
        base_image=_pinned("SEMIF_BASE_IMAGE", _required(environ, "SEMIF_BASE_IMAGE")),
        python_image=_pinned("SEMIF_PYTHON_IMAGE", python_image) if python_image else None,
        dockerfile=_dockerfile(environ),
        bucket=_matching(environ, "SEMIF_BUCKET", _BUCKET, "the name of an S3 bucket"),
        severity=_severity(environ),
        index_url=_index_url(environ),
        extra_build_args=_extra_build_args(environ),
        content_hash=_content_hash(environ),
        run=run,
    )


def candidate_tag(image_tag: str, build_id: str) -> str:
    """Tag of a run's candidate; no two runs share one, because the repository's tags are immutable."""
    unique = re.sub(r"[^0-9a-f]", "", build_id.rpartition(":")[2])[:32]
    return f"candidate-{image_tag}-{unique or secrets.token_hex(16)}"[:MAX_TAG_CHARS]


def _registry(host: str) -> Registry | None:
    found = _ECR_HOST.fullmatch(host)
    return Registry(host, found["account"], found["region"]) if found else None


def _required(environ: Mapping[str, str], variable: str) -> str:
    value = environ.get(variable, "")
    if not value:
        raise SettingsError(variable, "is not set", "set it in the build's environment")
    return value


def _matching(environ: Mapping[str, str], variable: str, pattern: re.Pattern[str], allowed: str) -> str:
    value = _required(environ, variable)
    if not pattern.fullmatch(value):
        raise SettingsError(variable, f"{value!r} is not allowed", f"give {allowed}")
    return value


def _pinned(variable: str, value: str) -> PinnedImage:
    found = _PINNED.fullmatch(value)
    if not found:
        raise SettingsError(
            variable, f"{value!r} names no image by digest", "give NAME@sha256:DIGEST: a tag may move"
        )
    return PinnedImage(found["name"], found["sha256"])


def _dockerfile(environ: Mapping[str, str]) -> str:
    value = _required(environ, "SEMIF_DOCKERFILE")
    if value not in DOCKERFILES:
        raise SettingsError("SEMIF_DOCKERFILE", f"{value!r} is not known", f"give {' or '.join(DOCKERFILES)}")
    return value


def _severity(environ: Mapping[str, str]) -> Severity | None:
    value = environ.get("SEMIF_SCAN_SEVERITY") or Severity.CRITICAL.name
    try:
        return threshold(value)
    except KeyError as error:
        allowed = ", ".join([*(severity.name for severity in Severity), "NONE"])
        raise SettingsError(
            "SEMIF_SCAN_SEVERITY", f"{value!r} is not known", f"give one of {allowed}"
        ) from error


def _index_url(environ: Mapping[str, str]) -> str:
    value = environ.get("PIP_INDEX_URL", "")
    if "@" in urlsplit(value).netloc:
        # A build argument stays readable in the image's history.
        raise SettingsError(
            "PIP_INDEX_URL",
            "holds a user name or password, which the image's history would show",
            "use a mirror that the build's network may read without one",
        )
    return value


def _extra_build_args(environ: Mapping[str, str]) -> Mapping[str, str]:
    variable = "SEMIF_BUILD_ARGS"
    step = f"give a JSON object of strings, with names such as BINDINGS, none of {', '.join(OWN_BUILD_ARGS)}"
    try:
        found = json.loads(environ.get(variable) or "{}")
    except ValueError as error:
        raise SettingsError(variable, f"is no JSON: {error}", step) from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SettingsError(variable, "is no object of strings", step)
    for name in found:
        if not _ARGUMENT.fullmatch(name) or name in OWN_BUILD_ARGS:
            raise SettingsError(variable, f"{name!r} is not allowed here", step)
    return found


def _content_hash(environ: Mapping[str, str]) -> str:
    value = environ.get("SEMIF_CONTENT_HASH", "")
    if value and not _CONTENT_HASH.fullmatch(value):
        raise SettingsError("SEMIF_CONTENT_HASH", f"{value!r} is not allowed", "give 64 hexadecimal digits")
    return value


def _run(environ: Mapping[str, str], now: datetime) -> CodeBuildRun:
    started_ms = environ.get("CODEBUILD_START_TIME", "")
    known = re.fullmatch(r"\d{12,14}", started_ms)
    return CodeBuildRun(
        build_id=environ.get("CODEBUILD_BUILD_ID", ""),
        build_arn=environ.get("CODEBUILD_BUILD_ARN", ""),
        build_image=environ.get("CODEBUILD_BUILD_IMAGE", ""),
        source=environ.get("CODEBUILD_SOURCE_REPO_URL", ""),
        source_version=environ.get("CODEBUILD_RESOLVED_SOURCE_VERSION", ""),
        started_at=datetime.fromtimestamp(int(started_ms) / 1000, UTC) if known else now,
    )
