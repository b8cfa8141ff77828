"""BuildStack: the CodeBuild projects that make the model archive and the images. It holds no data.

Which builds run is not decided here but by the BuildRun resources of the stacks that consume the results, so
nothing of this stack is exported: they know its projects by name.
"""

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.artifacts import ArtifactsStack, publish
from stacks.build_names import PROVENANCE_PREFIX, archive_project, image_project, log_group_name
from stacks.build_settings import QUEUED_TIMEOUT_MINUTES, ImageBuildSettings
from stacks.build_sources import (
    ARCHIVE_BUILDSPEC,
    IMAGE_BUILDSPEC,
    archive_source,
    image_source,
    location,
)
from stacks.constructs.build_role import BuildRole
from stacks.constructs.repository_arn import own_repository_arn
from stacks.model_settings import MODELS_PREFIX, BuiltModel, S3Place, UriSource
from stacks.settings import EnvironmentSettings

BUILD_IMAGE: Final = "aws/codebuild/amazonlinux-x86_64-standard:5.0"


class BuildStack(cdk.Stack):
    """Projects of one environment: only those whose result is wanted."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=f"semif-{environment.name}-builds",
            termination_protection=environment.protect,
        )
        self._environment = environment
        self._artifacts = artifacts
        self._log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=log_group_name(environment.name),
            removal_policy=cdk.RemovalPolicy.DESTROY,
            retention=logs.RetentionDays.THREE_MONTHS,
        )
        outputs = {"LogGroup": log_group_name(environment.name)}
        if environment.built_models:
            self._archive_project(environment.built_models)
            outputs["ArchiveProject"] = archive_project(environment.name)
        for flavour, image in environment.build.images.items():
            self._image_project(image)
            outputs[f"Image{flavour.capitalize()}Project"] = image_project(environment.name, flavour)
        publish(self, f"/semif/{environment.name}/builds", outputs)

    def _archive_project(self, models: Sequence[BuiltModel]) -> None:
        role = BuildRole(self, "ArchiveRole", log_group=self._log_group)
        source = archive_source(self)
        role.allow_source(source)
        role.allow_archive(
            self._artifacts.bucket.bucket_name, MODELS_PREFIX, f"{PROVENANCE_PREFIX}{MODELS_PREFIX}"
        )
        sources = {model.source.uri for model in models if isinstance(model.source, UriSource)}
        places = [S3Place.of(uri) for uri in sorted(sources) if uri.startswith("s3://")]
        if places:
            role.allow_model_sources(places)
        variables = []
        # The settings allow one secret to all models of an environment.
        for secret in sorted({model.token_secret for model in models if model.token_secret is not None}):
            role.allow_secret(secret)
            variables.append(
                codebuild.CfnProject.EnvironmentVariableProperty(
                    name="HF_TOKEN", type="SECRETS_MANAGER", value=secret
                )
            )
        self._project(
            "Archive",
            name=archive_project(self._environment.name),
            description="Makes model archives",
            role=role,
            source=source,
            buildspec=ARCHIVE_BUILDSPEC,
            # Quantizing holds a checkpoint's tensors in memory; everything else streams. Not the images'
            # size, because quotas count builds by size.
            compute_type="BUILD_GENERAL1_LARGE"
            if any(m.quantize for m in models)
            else "BUILD_GENERAL1_SMALL",
            privileged=False,
            variables=variables,
        )

    def _image_project(self, image: ImageBuildSettings) -> None:
        name = f"Image{image.flavour.capitalize()}"
        role = BuildRole(self, f"{name}Role", log_group=self._log_group)
        source = image_source(self, image)
        role.allow_source(source)
        role.allow_push(own_repository_arn(self, self._artifacts.repository.repository_name))
        for base in (image.base_image, image.python_image):
            if base.repository is not None:
                role.allow_pull(base.repository)
        role.allow_documents(
            self._artifacts.bucket.bucket_name, f"{PROVENANCE_PREFIX}images/{image.flavour}-"
        )
        self._project(
            name,
            name=image_project(self._environment.name, image.flavour),
            description=f"Makes {image.flavour} images",
            role=role,
            source=source,
            buildspec=IMAGE_BUILDSPEC,
            compute_type="BUILD_GENERAL1_MEDIUM",
            privileged=True,
            variables=[],
        )

    def _project(
        self,
        construct_id: str,
        *,
        name: str,
        description: str,
        role: iam.Role,
        source: assets.Asset,
        buildspec: str,
        compute_type: str,
        privileged: bool,
        variables: Sequence[codebuild.CfnProject.EnvironmentVariableProperty],
    ) -> None:
        project = codebuild.CfnProject(
            self,
            construct_id,
            name=name,
            description=f"{description} for {self._environment.name}; started by deployments",
            service_role=role.role_arn,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image=BUILD_IMAGE,
                compute_type=compute_type,
                # A Docker engine inside the build needs it.
                privileged_mode=privileged,
                environment_variables=list(variables) or None,
            ),
            source=codebuild.CfnProject.SourceProperty(
                type="S3", location=location(source), build_spec=buildspec
            ),
            encryption_key="alias/aws/s3",
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=self._log_group.log_group_name, stream_name=name
                )
            ),
            # No ConcurrentBuildLimit: with one, StartBuild is refused instead of queued.
            timeout_in_minutes=self._environment.build.timeout_minutes,
            queued_timeout_in_minutes=QUEUED_TIMEOUT_MINUTES,
        )
        project.node.add_dependency(role)
