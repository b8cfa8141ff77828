"""Names of images in private ECR registries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from localaws.protocol import Scope

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
    r"/(?P<repository>[a-z0-9][a-z0-9._/-]*?)(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class EcrReference:
    """Parts of a private ECR image URI; tag and digest where it has them."""

    account: str
    region: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def scope(self) -> Scope:
        """Whose registry it is."""
        return Scope(self.account, self.region)

    @property
    def image_id(self) -> dict[str, str]:
        """ECR's `imageId`: the digest where there is one, else the tag, `latest` if none is named."""
        return {"imageDigest": self.digest} if self.digest else {"imageTag": self.tag or "latest"}


def parse_ecr(uri: str) -> EcrReference | None:
    """Return the parts of a private ECR URI, None for any other image name."""
    found = _ECR.fullmatch(uri)
    return EcrReference(**found.groupdict()) if found else None


def repository_uri(uri: str) -> str:
    """Return an image's name without tag and digest."""
    name = uri.partition("@")[0]
    head, colon, tail = name.rpartition(":")
    return head if colon and "/" not in tail else name
