"""The setting `build`: where builds take their parts from, and their limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from stacks.dlc import Flavour, base_image_uri
from stacks.images import PinnedImage, pinned_image, read_pinned_image
from stacks.mapping_reader import MappingReader

Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "NONE"]
SEVERITIES: Final[tuple[Severity, ...]] = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "NONE")
MAX_TIMEOUT_MINUTES: Final = 45
"""With QUEUED_TIMEOUT_MINUTES and some polls it fits into the 55 minutes that the custom resource has."""
QUEUED_TIMEOUT_MINUTES: Final = 5
PYTHON_IMAGE: Final = (
    "public.ecr.aws/docker/library/python"
    "@sha256:411fa4dcfdce7e7a3057c45662beba9dcd4fa36b2e50a2bfcd6c9333e59bf0db"
)
"""3.12-slim-bullseye: its glibc 2.31 is older than Amazon Linux 2023's, so its programs run there."""

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
    """What an image is made from. `bindings` None means the requirements file that the Dockerfile names."""

    flavour: Flavour
    base_image: PinnedImage
    python_image: PinnedImage
    bindings: str | None


@dataclass(frozen=True)
class BuildSettings:
    """`image` None: none is to be built. `package_index` and `hub` None: the tools' own defaults."""

    image: ImageBuildSettings | None
    package_index: str | None
    hub: str | None
    scan_severity: Severity
    timeout_minutes: int


def read_build(parent: MappingReader, *, region: str, flavour: Flavour | None) -> BuildSettings:
    """Read `build`, all of whose keys are optional. Raises SettingsError with the key's path."""
    reader = parent.mapping("build", _KEYS) if parent.has("build") else MappingReader({}, parent.at("build"))
    bases = {flavour: read_pinned_image(reader, f"base_image_{_SUFFIX[flavour]}") for flavour in _SUFFIX}
    bindings = {
        flavour: reader.optional_text(f"bindings_{_SUFFIX[flavour]}", *_BINDINGS) for flavour in _SUFFIX
    }
    python_image = read_pinned_image(reader, "python_image") or pinned_image(PYTHON_IMAGE)
    image = None
    if flavour is not None:
        base = bases[flavour] or pinned_image(
            base_image_uri(
                region,
                flavour,
                region_path=parent.at("region"),
                override_path=reader.at(f"base_image_{_SUFFIX[flavour]}"),
            )
        )
        image = ImageBuildSettings(flavour, base, python_image, bindings[flavour])
    return BuildSettings(
        image=image,
        package_index=reader.optional_text("package_index", *_URL),
        hub=reader.optional_text("hub", *_URL),
        scan_severity=reader.choice("scan_severity", SEVERITIES) or "CRITICAL",
        timeout_minutes=reader.whole("timeout_minutes", MAX_TIMEOUT_MINUTES, 5, MAX_TIMEOUT_MINUTES),
    )
