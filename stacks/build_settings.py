"""The setting `build`: where builds take their parts from, and their limits."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from stacks.dlc import Flavour, base_image_uri
from stacks.images import PinnedImage, pinned_image, read_pinned_image
from stacks.mapping_reader import MappingReader

Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "NONE"]
SEVERITIES: Final[tuple[Severity, ...]] = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "NONE")
MAX_TIMEOUT_MINUTES: Final = 45
"""With some minutes in the queue it fits into the 52 that the custom resource waits at most."""
QUEUED_TIMEOUT_MINUTES: Final = 50
"""An account may have quota for one build at a time, and a first deployment starts two. The custom resource
gives up, and stops the build, before the queue does."""
PYTHON_IMAGE: Final = (
    "public.ecr.aws/lambda/python@sha256:145350008f3f67d82c0bc6ecd34d9eb0c95aecf11f9b69db6bab7de3d5d3cc61"
)
"""3.12 on Amazon Linux 2023, as the containers are."""
BINDINGS: Final[Mapping[Flavour, str]] = {
    "cpu": "requirements-bindings-cpu.txt",
    "cuda": "requirements-bindings-cuda.txt",
}
"""Pins of llama-cpp-python in container/, whose bindings fit the pinned containers."""

_KEYS: Final = (
    "base_image_cpu",
    "base_image_gpu",
    "python_image",
    "bindings_cpu",
    "bindings_gpu",
    "package_index",
    "hub",
    "scan_severity",
    "timeout_minutes",
)
_SUFFIX: Final[Mapping[Flavour, str]] = {"cpu": "cpu", "cuda": "gpu"}
_URL: Final = (
    r"https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[\w.~/+-]*)?",
    "a URL without credentials: https://HOST/…",
)
_BINDINGS: Final = (
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.txt",
    "the name of a requirements file in container/",
)


@dataclass(frozen=True)
class ImageBuildSettings:
    """What an image is made from; `bindings` is a requirements file in container/."""

    flavour: Flavour
    base_image: PinnedImage
    python_image: PinnedImage
    bindings: str


@dataclass(frozen=True)
class BuildSettings:
    """`images`: those that an endpoint runs. `package_index` and `hub` None: the tools' own defaults."""

    images: Mapping[Flavour, ImageBuildSettings]
    package_index: str | None
    hub: str | None
    scan_severity: Severity
    timeout_minutes: int


def read_build(parent: MappingReader, *, region: str, flavours: Collection[Flavour]) -> BuildSettings:
    """Read `build`, all of whose keys are optional. Raises SettingsError with the key's path."""
    reader = parent.mapping("build", _KEYS) if parent.has("build") else MappingReader({}, parent.at("build"))
    python_image = read_pinned_image(reader, "python_image") or pinned_image(PYTHON_IMAGE)
    images = {}
    for flavour, suffix in _SUFFIX.items():
        base_image = read_pinned_image(reader, f"base_image_{suffix}")
        bindings = reader.optional_text(f"bindings_{suffix}", *_BINDINGS)
        if flavour in flavours:
            images[flavour] = ImageBuildSettings(
                flavour,
                base_image or _container(parent, reader, region, flavour),
                python_image,
                bindings or BINDINGS[flavour],
            )
    return BuildSettings(
        images=images,
        package_index=reader.optional_text("package_index", *_URL),
        hub=reader.optional_text("hub", *_URL),
        scan_severity=reader.choice("scan_severity", SEVERITIES) or "CRITICAL",
        timeout_minutes=reader.whole("timeout_minutes", MAX_TIMEOUT_MINUTES, 5, MAX_TIMEOUT_MINUTES),
    )


def _container(parent: MappingReader, build: MappingReader, region: str, flavour: Flavour) -> PinnedImage:
    uri = base_image_uri(
        region,
        flavour,
        region_path=parent.at("region"),
        override_path=build.at(f"base_image_{_SUFFIX[flavour]}"),
    )
    return pinned_image(uri)
