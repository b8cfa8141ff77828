"""The bucket's folder provenance/images/: what is known of each image.

An image's documents lie first under its digest, where no other build writes, then beside its tag:

    provenance/images/<tag>/<64 hex of the digest>/{sbom.cdx.json,provenance.json}
    provenance/images/<tag>/{sbom.cdx.json,provenance.json}

The build's role needs s3:GetObject and s3:PutObject there.
"""

from typing import TYPE_CHECKING, Final

import boto3

from image_build.ecr_api import RETRIES, call
from image_build.errors import AwsError
from image_build.provenance import Documents

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SBOM: Final = "sbom.cdx.json"
PROVENANCE: Final = "provenance.json"
_ABSENT: Final = frozenset({"NoSuchKey", "404", "AccessDenied"})
"""S3 answers AccessDenied for a key that is not there to a role that may not list the bucket."""


def connect(region: str) -> "S3Client":
    """Connect as the SDK's environment says."""
    return boto3.client("s3", region_name=region, config=RETRIES)


class DocumentsApi:
    """The documents of one tag."""

    def __init__(self, client: "S3Client", bucket: str, tag: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"provenance/images/{tag}/"

    @property
    def uri(self) -> str:
        """Where the documents of the tagged image lie."""
        return f"s3://{self._bucket}/{self._prefix}"

    def put(self, documents: Documents, digest: str | None = None) -> None:
        """Store the documents of the image `digest`, or of the tag; the provenance goes last."""
        self._put(digest, SBOM, documents.sbom, "application/vnd.cyclonedx+json")
        self._put(digest, PROVENANCE, documents.provenance, "application/vnd.in-toto+json")

    def get(self, digest: str | None = None) -> Documents | None:
        """Read the documents of the image `digest`, or of the tag; None if they are not whole."""
        sbom, provenance = self._get(digest, SBOM), self._get(digest, PROVENANCE)
        return None if sbom is None or provenance is None else Documents(sbom, provenance)

    def _key(self, digest: str | None, name: str) -> str:
        folder = f"{digest.partition(':')[2]}/" if digest else ""
        return f"{self._prefix}{folder}{name}"

    def _put(self, digest: str | None, name: str, body: bytes, content_type: str) -> None:
        key = self._key(digest, name)
        call(self._client.put_object, Bucket=self._bucket, Key=key, Body=body, ContentType=content_type)

    def _get(self, digest: str | None, name: str) -> bytes | None:
        try:
            answer = call(self._client.get_object, Bucket=self._bucket, Key=self._key(digest, name))
        except AwsError as error:
            if error.aws_code in _ABSENT:
                return None
            raise
        body: bytes = answer["Body"].read()
        return body
