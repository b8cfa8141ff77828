"""ECR as a build needs it. Every error leaves as AwsError.

The build's role needs, on the repository: BatchCheckLayerAvailability, BatchDeleteImage, BatchGetImage,
CompleteLayerUpload, DescribeImages, DescribeImageScanFindings, GetDownloadUrlForLayer, InitiateLayerUpload,
PutImage, StartImageScan, UploadLayerPart; on `*`: GetAuthorizationToken; and to read the base's registry.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from image_build.errors import AwsError
from image_build.findings import Finding, ScanReport
from image_build.manifest import MEDIA_TYPES, Manifest

if TYPE_CHECKING:
    from mypy_boto3_ecr import ECRClient

RETRIES: Final = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 8}
)
"""Throttles and lost connections are retried by the SDK, with growing pauses up to 20 s."""


def connect(region: str) -> "ECRClient":
    """Connect as the SDK's environment says (credentials, endpoint)."""
    return boto3.client("ecr", region_name=region, config=RETRIES)


def password(client: "ECRClient") -> str:
    """Return a password of the user AWS, good for every registry of the client's region that it may read."""
    answer = call(client.get_authorization_token)
    token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
    return token.partition(":")[2]


class EcrApi:
    """Calls on one repository of an account's registry."""

    def __init__(self, client: "ECRClient", account: str, repository: str) -> None:
        self._client = client
        self._place = {"registryId": account, "repositoryName": repository}

    def digest_of(self, tag: str) -> str | None:
        """Return the digest that a tag names; None if there is no such tag."""
        return self._described({"imageTag": tag}).get("imageDigest")

    def tags_of(self, digest: str) -> tuple[str, ...]:
        """Return the tags of an image; none if it is not there."""
        return tuple(self._described({"imageDigest": digest}).get("imageTags", ()))

    def manifest(self, tag: str) -> Manifest:
        """Read the manifest under a tag, in the form in which it is stored."""
        answer = self._call(
            "batch_get_image", imageIds=[{"imageTag": tag}], acceptedMediaTypes=list(MEDIA_TYPES)
        )
        if not answer["images"]:
            reason = next((f.get("failureReason", "") for f in answer.get("failures", ())), "")
            raise AwsError("batch_get_image", "ImageNotFound", f"{tag}: {reason}")
        image = answer["images"][0]
        return Manifest(
            image["imageId"]["imageDigest"], image["imageManifestMediaType"], image["imageManifest"]
        )

    def scan(self, digest: str) -> ScanReport:
        """Read how far the image's scan is, and what it counted."""
        try:
            answer = self._findings(digest, maxResults=1)
        except AwsError as error:
            if error.aws_code == "ScanNotFoundException":
                return ScanReport(None, "", {})
            raise
        status = answer.get("imageScanStatus", {})
        counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
        return ScanReport(status.get("status"), status.get("description", ""), counts)

    def start_scan(self, digest: str) -> None:
        """Ask for a scan. Raises `AwsError` where scanning is not basic, or one was made today."""
        self._call("start_image_scan", imageId={"imageDigest": digest})

    def findings(self, digest: str) -> Sequence[Finding]:
        """Read every finding of the image, of basic or enhanced scanning."""
        found: list[Finding] = []
        token: dict[str, str] = {}
        while True:
            answer = self._findings(digest, maxResults=1000, **token)
            page = answer.get("imageScanFindings", {})
            found.extend(_basic(item) for item in page.get("findings", ()))
            found.extend(_enhanced(item) for item in page.get("enhancedFindings", ()))
            if not answer.get("nextToken"):
                return found
            token = {"nextToken": answer["nextToken"]}

    def put_tag(self, manifest: Manifest, tag: str) -> bool:
        """Give the image one more tag; False if the tag exists, on this image or another."""
        try:
            self._call(
                "put_image",
                imageManifest=manifest.text,
                imageManifestMediaType=manifest.media_type,
                imageDigest=manifest.digest,
                imageTag=tag,
            )
        except AwsError as error:
            # The first: the same image has it. The second: another has, and tags are immutable.
            if error.aws_code in {"ImageAlreadyExistsException", "ImageTagAlreadyExistsException"}:
                return False
            raise
        return True

    def remove_tag(self, tag: str) -> None:
        """Take a tag away; ECR deletes an image with its last tag. A tag that is gone is fine."""
        answer = self._call("batch_delete_image", imageIds=[{"imageTag": tag}])
        for failure in answer.get("failures", ()):
            if failure.get("failureCode") not in {"ImageNotFound", "ImageTagDoesNotMatchDigest"}:
                raise AwsError(
                    "batch_delete_image", str(failure.get("failureCode")), str(failure.get("failureReason"))
                )

    def _described(self, image_id: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self._call("describe_images", imageIds=[image_id])["imageDetails"][0]
        except AwsError as error:
            if error.aws_code == "ImageNotFoundException":
                return {}
            raise
        return found

    def _findings(self, digest: str, **page: object) -> Mapping[str, Any]:
        return self._call("describe_image_scan_findings", imageId={"imageDigest": digest}, **page)

    def _call(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        return call(getattr(self._client, operation), **self._place, **parameters)


def call(operation: Callable[..., Any], **parameters: object) -> Mapping[str, Any]:
    """Call a client's method. Raises `AwsError` for a refusal, and when no answer comes."""
    name = operation.__name__
    try:
        answer: Mapping[str, Any] = operation(**parameters)
    except ClientError as error:
        details = error.response.get("Error", {})
        raise AwsError(name, details.get("Code", ""), details.get("Message", "")) from error
    except BotoCoreError as error:
        raise AwsError(name, type(error).__name__, str(error)) from error
    return answer


def _basic(item: Mapping[str, Any]) -> Finding:
    attributes = {entry.get("key"): entry.get("value", "") for entry in item.get("attributes", ())}
    package = " ".join(filter(None, (attributes.get("package_name"), attributes.get("package_version"))))
    return Finding(item.get("name", "?"), item.get("severity", ""), package)


def _enhanced(item: Mapping[str, Any]) -> Finding:
    details = item.get("packageVulnerabilityDetails", {})
    packages = details.get("vulnerablePackages", ())
    first = " ".join(filter(None, (packages[0].get("name"), packages[0].get("version")))) if packages else ""
    return Finding(details.get("vulnerabilityId") or item.get("title", "?"), item.get("severity", ""), first)
