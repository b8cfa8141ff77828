"""Container images as settings name them."""

import re
from dataclasses import dataclass
from typing import Final

from stacks.mapping_reader import MappingReader, SettingsError

DIGEST: Final = r"sha256:[0-9a-f]{64}"
_ECR: Final = (
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?"
    r"/(?P<repository>[a-z0-9]+([._/-][a-z0-9]+)*)"
)
_ECR_IMAGE: Final = (
    rf"{_ECR}@{DIGEST}",
    "an image in ECR by digest: ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY@sha256:DIGEST",
)
# Without a tag: some tools refuse a name that has both, and the digest says it all.
_PINNED_IMAGE: Final = (
    rf"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+@{DIGEST}",
    "an image by digest: REGISTRY/REPOSITORY@sha256:DIGEST, without a tag",
)


@dataclass(frozen=True)
class EcrRepository:
    """A private repository; `region` may be another than the endpoint's where only a build reads it."""

    account: str
    region: str
    name: str


@dataclass(frozen=True)
class ImageSettings:
    """A container image in ECR, in the endpoint's own region."""

    uri: str
    repository: EcrRepository


@dataclass(frozen=True)
class PinnedImage:
    """An image that a build starts from; `repository` is None where any caller may pull it."""

    uri: str
    repository: EcrRepository | None

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hexadecimal digits."""
        return self.uri.rpartition("@")[2]


def read_image(reader: MappingReader, key: str, region: str) -> ImageSettings | None:
    """Read an object with the image's `uri`, or None where the key is absent or null."""
    if not reader.has(key):
        return None
    image = reader.mapping(key, ("uri",))
    uri = image.text("uri", *_ECR_IMAGE)
    repository = _ecr_repository(uri)
    if repository is None:
        raise AssertionError("bug: the pattern matched a moment ago")
    if repository.region != region:
        raise SettingsError(
            image.at("uri"),
            f"is in {repository.region}; SageMaker takes images of its own region only: {region}",
        )
    return ImageSettings(uri, repository)


def ecr_image(uri: str) -> ImageSettings:
    """An image in ECR whose URI is known to be in order."""
    repository = _ecr_repository(uri)
    if repository is None:
        raise AssertionError(f"bug: {uri} is not in ECR")
    return ImageSettings(uri, repository)


def pinned_image(uri: str) -> PinnedImage:
    """An image whose URI is known to be in order."""
    return PinnedImage(uri, _ecr_repository(uri))


def read_pinned_image(reader: MappingReader, key: str) -> PinnedImage | None:
    """Read an image by digest, or None where the key is absent or null."""
    uri = reader.optional_text(key, *_PINNED_IMAGE)
    return None if uri is None else pinned_image(uri)


def _ecr_repository(uri: str) -> EcrRepository | None:
    parts = re.match(rf"{_ECR}[@:]", uri)
    return EcrRepository(parts["account"], parts["region"], parts["repository"]) if parts else None
