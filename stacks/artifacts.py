"""ArtifactsStack: the model bucket and the image repository. Stateful: both stay when the stack goes."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

# More than a repository can hold (its quota is 100,000 images), so the rules that protect never expire one.
_UNREACHABLE_COUNT: Final = 1_000_000
_LEFTOVER_DAYS: Final = 7


class ArtifactsStack(cdk.Stack):
    """What endpoints are made from.

    `bucket` and `repository` keep the logical ids ModelBucket and ImageRepository for ever: another id would
    be another, empty resource. `repository_uri` is the repository's name in image URIs.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment_name: str, region: str, protect: bool
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=f"semif-{environment_name}-artifacts",
            termination_protection=protect,
        )
        self.bucket = self._model_bucket()
        self.repository = self._image_repository()
        # Exported for ever, whoever uses it: CloudFormation refuses to change an export that is in use.
        self.export_value(self.bucket.bucket_name)
        self.export_value(self.repository.repository_name)
        registry = f"{cdk.Aws.ACCOUNT_ID}.dkr.ecr.{region}.{cdk.Aws.URL_SUFFIX}"
        self.repository_uri = f"{registry}/{self.repository.repository_name}"
        publish(
            self,
            f"/semif/{environment_name}/artifacts",
            {
                "BucketName": self.bucket.bucket_name,
                "RepositoryUri": self.repository_uri,
            },
        )

    def _model_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "ModelBucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(7))],
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=cdk.RemovalPolicy.RETAIN,
            versioned=True,
        )
        _keep_logical_id(bucket, "ModelBucket")
        return bucket

    def _image_repository(self) -> ecr.Repository:
        # ECR encrypts with AES-256 where no other key is named. Naming AES256 would change nothing and yet
        # replace a repository that exists, so there is no EncryptionConfiguration.
        repository = ecr.Repository(
            self,
            "ImageRepository",
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            lifecycle_rules=_lifecycle_rules(),
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        _keep_logical_id(repository, "ImageRepository")
        # SageMaker checks for these three in the repository's own policy when it creates a model; whether it
        # finds them behind a condition is not documented, so there is none.
        repository.add_to_resource_policy(
            iam.PolicyStatement(
                sid="SageMakerPull",
                principals=[iam.ServicePrincipal("sagemaker.amazonaws.com")],
                actions=[
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
            )
        )
        return repository


def _lifecycle_rules() -> list[ecr.LifecycleRule]:
    """Expire what builds leave behind, never an image that a model may name.

    An image that matches a rule's tags cannot be expired by a later rule, so the first two protect each
    finished image for ever, even one that still has its candidate's tag.
    """
    finished = [
        ecr.LifecycleRule(
            description=f"Never expire a finished {flavour} image",
            rule_priority=priority,
            tag_prefix_list=[f"{flavour}-"],
            max_image_count=_UNREACHABLE_COUNT,
        )
        for priority, flavour in enumerate(("cpu", "cuda"), start=1)
    ]
    leftovers = [
        ecr.LifecycleRule(
            description="Candidates of builds that did not end well",
            rule_priority=3,
            tag_prefix_list=["candidate-"],
            max_image_age=cdk.Duration.days(_LEFTOVER_DAYS),
        ),
        ecr.LifecycleRule(
            description="Images without a tag",
            rule_priority=4,
            tag_status=ecr.TagStatus.UNTAGGED,
            max_image_age=cdk.Duration.days(_LEFTOVER_DAYS),
        ),
    ]
    return finished + leftovers


def publish(stack: cdk.Stack, parameter_path: str, values: dict[str, str]) -> None:
    """Give each value as a stack output and as an SSM parameter: BucketName is PATH/bucket-name."""
    for name, value in values.items():
        cdk.CfnOutput(stack, name, value=value)
        kebab = "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")
        ssm.StringParameter(
            stack, f"{name}Parameter", parameter_name=f"{parameter_path}/{kebab}", string_value=value
        )


def _keep_logical_id(resource: cdk.Resource, logical_id: str) -> None:
    element = resource.node.default_child
    if not isinstance(element, cdk.CfnElement):
        raise TypeError(f"bug: {resource.node.path} has no CloudFormation element of its own")
    element.override_logical_id(logical_id)
