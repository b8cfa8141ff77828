"""What CloudFormation sends, and a resource whose operations are polled as the Provider does."""

from typing import Any
from unittest.mock import patch

from build_run import handler
from build_run.reconcile import Apis

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/semif-dev-decisions/0a1b"
HASH, OTHER_HASH = "a" * 64, "b" * 64


def image_properties(content_hash: str = HASH, project: str = "semif-dev-image-cpu") -> dict[str, Any]:
    """As CloudFormation sends them: the tag follows the content's hash."""
    tag = f"cpu-{content_hash[:16]}"
    repository = "semif-dev-endpoint"
    return {
        "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:framework",
        "ProjectName": project,
        "Kind": "image",
        "ContentHash": content_hash,
        "SourceLocation": "cdk-assets-123456789012-us-east-1/0123.zip",
        "Environment": {"SEMIF_IMAGE_TAG": tag, "SEMIF_SCAN_SEVERITY": "CRITICAL"},
        "TimeoutMinutes": "30",
        "RepositoryName": repository,
        "RepositoryUri": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{repository}",
        "ImageTag": tag,
        "BaseImageDigest": f"sha256:{'c' * 64}",
    }


def archive_properties(content_hash: str = HASH, sha256: str = "d" * 64) -> dict[str, Any]:
    """As CloudFormation sends them."""
    prefix = f"models/{content_hash}/"
    image = image_properties(content_hash)
    common = ("ServiceToken", "ProjectName", "ContentHash", "SourceLocation", "TimeoutMinutes")
    return {
        **{name: image[name] for name in common},
        "Kind": "archive",
        "Environment": {"SEMIF_BUCKET": "models", "SEMIF_PREFIX": prefix},
        "BucketName": "models",
        "Prefix": prefix,
        "ModelRevision": "4168f45a16a1290d65a4ec0fa312ae917a4c15d6",
        "ModelSha256": sha256,
    }


class Resource:
    """Polls operations of one stack's resource, with time passing between the polls."""

    def __init__(self, aws: Any, stack_id: str = STACK_ID) -> None:
        self.aws = aws
        self.stack_id = stack_id
        self.requests = 0
        self.event: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        """What the function's process remembered is lost."""
        self._apis = Apis.of(lambda _: self.aws, lambda: self.aws.now)

    def begin(self, request_type: str = "Create", properties: dict[str, Any] | None = None) -> str:
        """A request of CloudFormation arrives; returns its id."""
        self.requests += 1
        request_id = f"{self.stack_id[-4:]}-request-{self.requests}"
        self.event = {
            "RequestType": request_type,
            "RequestId": request_id,
            "StackId": self.stack_id,
            "LogicalResourceId": "Build",
            "PhysicalResourceId": "semif-dev-image-cpu-build-run",
            "ResourceProperties": image_properties() if properties is None else properties,
            "Data": {"StartedAt": self.aws.now.isoformat()},
        }
        self.aws.resource_status = f"{request_type.upper()}_IN_PROGRESS"
        return request_id

    def poll(self) -> dict[str, Any]:
        """One poll of the operation that began last."""
        with patch.object(handler, "_apis", lambda: self._apis):
            return handler.is_complete(self.event, None)

    def until_complete(self) -> dict[str, Any]:
        """Poll as the Provider does, for its 55 minutes; answers the attributes."""
        for _ in range(55 * 4):
            answer = self.poll()
            if answer["IsComplete"]:
                data: dict[str, Any] = answer["Data"]
                return data
            self.aws.advance(15)
        raise AssertionError("did not end")
