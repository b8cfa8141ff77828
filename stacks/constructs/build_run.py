"""BuildRun: a build whose result is there before what consumes it, in the consumer's own stack.

Not an export of the builds' stack: CloudFormation refuses to change an export while it is in use. Everything
that makes one result differ from another is a property of its own, so that a diff says what moved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.build_run_provider import BuildRunProvider
from stacks.model_settings import MODELS_PREFIX

RESOURCE_TYPE: Final = "Custom::BuildRun"
MANIFEST: Final = "model-manifest.json"


@dataclass(frozen=True)
class Build:
    """What is common to all builds.

    `content_hash` is 64 hexadecimal digits, `source_location` BUCKET/KEY of a zip, `timeout_minutes` how long
    the resource waits, time in the queue included.
    """

    project_name: str
    content_hash: str
    source_location: str
    environment: Mapping[str, str]
    timeout_minutes: int


class ImageBuildRun(Construct):
    """`image_uri` is the image by digest, known once it is there."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        provider: BuildRunProvider,
        build: Build,
        repository_name: str,
        repository_arn: str,
        repository_uri: str,
        image_tag: str,
        base_image_digest: str,
    ) -> None:
        super().__init__(scope, construct_id)
        provider.allow("Image", ["ecr:DescribeImages"], [repository_arn])
        run = _resource(
            self,
            provider,
            build,
            {
                "Kind": "image",
                "RepositoryName": repository_name,
                "RepositoryUri": repository_uri,
                "ImageTag": image_tag,
                "BaseImageDigest": base_image_digest,
            },
        )
        self.image_uri = run.get_att_string("ImageUri")


class ArchiveBuildRun(Construct):
    """`model_uri`, `file` (the first GGUF's name) and `sha256` are known once the archive is there."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        provider: BuildRunProvider,
        build: Build,
        bucket_name: str,
        prefix: str,
        model_revision: str,
        model_sha256: str,
    ) -> None:
        super().__init__(scope, construct_id)
        bucket = f"arn:{cdk.Aws.PARTITION}:s3:::{bucket_name}"
        # Not this prefix alone: a policy that changed with each model would not be in force at once.
        provider.allow("Manifest", ["s3:GetObject"], [f"{bucket}/{MODELS_PREFIX}*/{MANIFEST}"])
        provider.allow(
            "ManifestListing",
            ["s3:ListBucket"],
            [bucket],
            {"StringLike": {"s3:prefix": [f"{MODELS_PREFIX}*"]}},
        )
        run = _resource(
            self,
            provider,
            build,
            {
                "Kind": "archive",
                "BucketName": bucket_name,
                "Prefix": prefix,
                "ModelRevision": model_revision,
                "ModelSha256": model_sha256,
            },
        )
        self.model_uri = run.get_att_string("ModelUri")
        self.file = run.get_att_string("File")
        self.sha256 = run.get_att_string("Sha256")


def _resource(
    scope: Construct, provider: BuildRunProvider, build: Build, own: Mapping[str, str]
) -> cdk.CustomResource:
    resource = cdk.CustomResource(
        scope,
        "Build",
        service_token=provider.service_token,
        resource_type=RESOURCE_TYPE,
        properties={
            "ProjectName": build.project_name,
            "ContentHash": build.content_hash,
            "SourceLocation": build.source_location,
            "Environment": dict(build.environment),
            "TimeoutMinutes": str(build.timeout_minutes),
            **own,
        },
    )
    # The functions and their rights outlive the resource, whose deletion stops what it started.
    resource.node.add_dependency(provider)
    return resource
