"""The role of one CodeBuild project: its log, its source, and what its kind of build needs."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.constructs.repository_arn import repository_arn
from stacks.images import EcrRepository
from stacks.model_settings import S3Place

PULL_ACTIONS = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


class BuildRole(iam.Role):
    """Writes to one log group; each `allow_` adds what one part of a build needs."""

    def __init__(self, scope: Construct, construct_id: str, *, log_group: logs.ILogGroup) -> None:
        super().__init__(
            scope,
            construct_id,
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}},
            ),
        )
        self._registry_known = False
        log_group.grant_write(self)

    def allow_source(self, source: assets.Asset) -> None:
        """Read zips of the CDK's bucket: the one to build from comes with each build."""
        bucket = source.bucket.bucket_arn
        self._allow("Source", ["s3:GetObject", "s3:GetObjectVersion"], f"{bucket}/*.zip")
        self._allow("SourceBucket", ["s3:GetBucketAcl", "s3:GetBucketLocation"], bucket)

    def allow_push(self, repository_arn: str) -> None:
        """Push images, read back what was pushed and found in it, and untag candidates."""
        self._allow_registry()
        self._allow(
            "Push",
            [
                *PULL_ACTIONS,
                "ecr:BatchDeleteImage",
                "ecr:CompleteLayerUpload",
                "ecr:DescribeImageScanFindings",
                "ecr:DescribeImages",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:StartImageScan",
                "ecr:UploadLayerPart",
            ],
            repository_arn,
        )
        # Where the registry's scans are Inspector's, reading findings asks for these; they know no resources.
        self._allow("Inspector", ["inspector2:ListCoverage", "inspector2:ListFindings"], "*")

    def allow_pull(self, repository: EcrRepository) -> None:
        """Pull a base image, which may belong to another account or region."""
        self._allow_registry()
        self._allow(None, list(PULL_ACTIONS), repository_arn(cdk.Stack.of(self), repository))

    def allow_documents(self, bucket_name: str, prefix: str) -> None:
        """Write documents below a prefix, and read those that are there."""
        self._allow("Provenance", ["s3:GetObject", "s3:PutObject"], f"{_bucket_arn(bucket_name)}/{prefix}*")

    def allow_archive(self, bucket_name: str, models_prefix: str, provenance_prefix: str) -> None:
        """Write archives and look at what is there of them, so that nothing is sent twice."""
        bucket = _bucket_arn(bucket_name)
        self._allow(
            "Archive",
            ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:PutObject"],
            [f"{bucket}/{models_prefix}*", f"{bucket}/{provenance_prefix}*"],
        )
        # Without a condition on the prefix: S3 says 404 of a key that is not there, instead of 403, only to
        # who may list the bucket, and a request for one key has no prefix that a condition could match.
        self._allow("Listing", ["s3:ListBucket"], bucket)

    def allow_model_sources(self, sources: Sequence[S3Place]) -> None:
        """Read the models' sources from their buckets."""
        keys = [f"{_bucket_arn(source.bucket)}/{source.key}" for source in sources]
        self._allow("ModelSource", ["s3:GetObject"], keys)

    def allow_secret(self, secret: str) -> None:
        """Read one secret, given by its name or its ARN."""
        if secret.startswith("arn:"):
            arn = secret
        else:
            # Secrets Manager adds a hyphen and six characters to a name.
            arn = cdk.Stack.of(self).format_arn(
                service="secretsmanager",
                resource="secret",
                resource_name=f"{secret}-??????",
                arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
            )
        self._allow("Token", ["secretsmanager:GetSecretValue"], arn)

    def _allow_registry(self) -> None:
        if not self._registry_known:
            # This action knows no resources.
            self._allow("Registry", ["ecr:GetAuthorizationToken"], "*")
            self._registry_known = True

    def _allow(
        self,
        sid: str | None,
        actions: list[str],
        resource: str | list[str],
    ) -> None:
        resources = [resource] if isinstance(resource, str) else resource
        self.add_to_policy(iam.PolicyStatement(sid=sid, actions=actions, resources=resources))


def _bucket_arn(name: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:s3:::{name}"
