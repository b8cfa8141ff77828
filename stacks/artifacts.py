"""ArtifactsStack: the model bucket and the image repository. Stateful: both stay when the stack goes."""

from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.settings import ModelSettings

CONTAINER_SOURCES: Final = Path(__file__).parent.parent / "container"
MODELS_PREFIX: Final = "models/"


class ArtifactsStack(cdk.Stack):
    """What endpoints are made from.

    `bucket` and `repository` keep the logical ids ModelBucket and ImageRepository for ever: another id would
    be another, empty resource. `image_uri` is the project's image, `model_uri` the archive's prefix.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment_name: str, region: str, model: ModelSettings
    ) -> None:
        super().__init__(scope, construct_id, stack_name=f"semif-{environment_name}-artifacts")
        self.bucket = self._model_bucket()
        self.repository = self._image_repository()
        # Exported for ever, whoever uses it: CloudFormation refuses to change an export that is in use.
        self.export_value(self.bucket.bucket_name)
        self.export_value(self.repository.repository_name)
        self.model_uri = f"s3://{self.bucket.bucket_name}/{model_prefix(model)}"
        registry = f"{cdk.Aws.ACCOUNT_ID}.dkr.ecr.{region}.{cdk.Aws.URL_SUFFIX}"
        repository_uri = f"{registry}/{self.repository.repository_name}"
        self.image_uri = f"{repository_uri}:{cpu_image_tag()}"
        publish(
            self,
            f"/semif/{environment_name}/artifacts",
            {
                "BucketName": self.bucket.bucket_name,
                "RepositoryUri": repository_uri,
                "ImageUri": self.image_uri,
                "ModelUri": self.model_uri,
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
        repository = ecr.Repository(
            self,
            "ImageRepository",
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
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


def cpu_image_tag() -> str:
    """Tag of the CPU image: the content of container/, so that an immutable tag never needs to move."""
    fingerprint = cdk.FileSystem.fingerprint(
        str(CONTAINER_SOURCES), exclude=["__pycache__", "*.pyc"], ignore_mode=cdk.IgnoreMode.GIT
    )
    return f"cpu-{fingerprint[:16]}"


def model_prefix(model: ModelSettings) -> str:
    """Key prefix of a model's archive, which holds the GGUF, its manifest and the prompt profile."""
    return f"{MODELS_PREFIX}{model.sha256}/"


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
