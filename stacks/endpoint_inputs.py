"""What an endpoint of this project runs on: given, or brought by a build that the endpoint waits for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets

from stacks.artifacts import ArtifactsStack
from stacks.build_names import archive_project, image_project, log_group_name, projects
from stacks.build_settings import QUEUED_TIMEOUT_MINUTES, BuildSettings, ImageBuildSettings
from stacks.build_sources import (
    DOCKERFILES,
    archive_source,
    image_content_hash,
    image_source,
    image_tag,
    location,
)
from stacks.constructs.build_run import ArchiveBuildRun, Build, ImageBuildRun
from stacks.constructs.build_run_provider import BuildRunProvider
from stacks.constructs.repository_arn import own_repository_arn, repository_arn
from stacks.container_settings import ContainerSettings
from stacks.dlc import Flavour
from stacks.endpoint_settings import EndpointSettings
from stacks.model_settings import MODELS_PREFIX, BuiltModel, ReadyModel, S3Place
from stacks.settings import EnvironmentSettings
from stacks.standard_settings import stock_image


@dataclass(frozen=True)
class ImageInUse:
    """`uri` may be a token. `repository_arn` is what the endpoint's role has to pull from."""

    uri: str
    repository_arn: str


@dataclass(frozen=True)
class ArchiveInUse:
    """`uri`, `file` and `sha256` may be tokens. `place` is what the endpoint's role has to read."""

    uri: str
    file: str
    sha256: str
    place: S3Place
    packed: bool


class EndpointInputs:
    """Images and archives that `stack` consumes, with the builds behind them as its own resources.

    An endpoint and its last resort share what is the same.
    """

    def __init__(
        self,
        stack: cdk.Stack,
        environment: EnvironmentSettings,
        endpoint: EndpointSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        self._stack = stack
        self._environment = environment
        self._endpoint = endpoint
        self._artifacts = artifacts
        self._provider = self._build_run_provider(endpoint.containers)
        self._built_images: dict[Flavour, ImageInUse] = {}
        self._built_archives: dict[str, ArchiveInUse] = {}
        self._archive_source: assets.Asset | None = None

    def image(self, container: ContainerSettings) -> ImageInUse:
        """The image that a container runs."""
        if container.image is not None:
            repository = repository_arn(self._stack, container.image.repository)
            return ImageInUse(container.image.uri, repository)
        if container.engine.name != "semif":
            stock = stock_image(self._environment.region, container.flavour, path=self._endpoint.path)
            return ImageInUse(stock.uri, repository_arn(self._stack, stock.repository))
        flavour = container.built_flavour
        if flavour is None:
            raise AssertionError("bug: a container without an image of its own, and none is built")
        if flavour not in self._built_images:
            self._built_images[flavour] = self._build_image(flavour)
        return self._built_images[flavour]

    def archive(self, container: ContainerSettings) -> ArchiveInUse | None:
        """The archive with a container's model; None where the container fetches it from the Hub."""
        if container.fetches_model:
            return None
        model = container.model
        if isinstance(model, ReadyModel):
            return ArchiveInUse(model.s3_uri, model.file, model.sha256, model.place, model.packed)
        if model.content_hash not in self._built_archives:
            construct_id = "LastResortArchive" if self._built_archives else "Archive"
            self._built_archives[model.content_hash] = self._build_archive(construct_id, model)
        return self._built_archives[model.content_hash]

    def _build_run_provider(self, containers: Sequence[ContainerSettings]) -> BuildRunProvider | None:
        name = self._environment.name
        flavours = dict.fromkeys(c.built_flavour for c in containers if c.built_flavour is not None)
        consumed = [
            *(image_project(name, flavour) for flavour in flavours),
            *([archive_project(name)] if any(c.built_model for c in containers) else []),
        ]
        if not consumed:
            return None
        return BuildRunProvider(
            self._stack,
            "BuildRun",
            projects=consumed,
            every_project=projects(name),
            log_group_name=log_group_name(name),
        )

    def _build_image(self, flavour: Flavour) -> ImageInUse:
        if self._provider is None:
            raise AssertionError("bug: an image that is built, and nothing that starts the build")
        build = self._environment.build.images[flavour]
        repository = self._artifacts.repository
        arn = own_repository_arn(self._stack, repository.repository_name)
        source = image_source(self._stack, build)
        content_hash = image_content_hash(source, build, self._environment.build.scan_severity)
        tag = image_tag(build.flavour, content_hash)
        run = ImageBuildRun(
            self._stack,
            f"Image{build.flavour.capitalize()}",
            provider=self._provider,
            build=Build(
                project_name=image_project(self._environment.name, build.flavour),
                content_hash=content_hash,
                source_location=location(source),
                environment=image_variables(self._environment.build, build, tag, self._artifacts),
                timeout_minutes=self._environment.build.timeout_minutes + QUEUED_TIMEOUT_MINUTES,
            ),
            repository_name=repository.repository_name,
            repository_arn=arn,
            repository_uri=self._artifacts.repository_uri,
            image_tag=tag,
            base_image_digest=build.base_image.digest,
        )
        return ImageInUse(run.image_uri, arn)

    def _build_archive(self, construct_id: str, model: BuiltModel) -> ArchiveInUse:
        if self._provider is None:
            raise AssertionError("bug: a model that is built, and nothing that starts the build")
        self._archive_source = self._archive_source or archive_source(self._stack)
        bucket_name = self._artifacts.bucket.bucket_name
        run = ArchiveBuildRun(
            self._stack,
            construct_id,
            provider=self._provider,
            build=Build(
                project_name=archive_project(self._environment.name),
                content_hash=model.content_hash,
                source_location=location(self._archive_source),
                environment=archive_variables(self._environment.build, model, bucket_name),
                timeout_minutes=self._environment.build.timeout_minutes + QUEUED_TIMEOUT_MINUTES,
            ),
            bucket_name=bucket_name,
            prefix=model.prefix,
            model_revision=model.revision,
            model_sha256=model.sha256 if model.sha256 and model.unchanged else "",
        )
        return ArchiveInUse(
            uri=run.model_uri,
            # Not the setting: shards are named when they are cut, and an archive that is there already may
            # hold the same bytes under another name.
            file=run.file,
            sha256=run.sha256,
            # Every model's: a rollback starts the endpoint on the former one with this role's new policy.
            place=S3Place(bucket_name, MODELS_PREFIX),
            packed=False,
        )


def image_variables(
    build: BuildSettings, image: ImageBuildSettings, tag: str, artifacts: ArtifactsStack
) -> Mapping[str, str]:
    """Environment of an image's build."""
    variables = {
        "SEMIF_IMAGE_TAG": tag,
        "SEMIF_REPOSITORY_URI": artifacts.repository_uri,
        "SEMIF_BASE_IMAGE": image.base_image.uri,
        "SEMIF_PYTHON_IMAGE": image.python_image.uri,
        "SEMIF_DOCKERFILE": DOCKERFILES[image.flavour],
        "SEMIF_BUILD_ARGS": json.dumps({"BINDINGS": image.bindings}),
        "SEMIF_BUCKET": artifacts.bucket.bucket_name,
        "SEMIF_SCAN_SEVERITY": build.scan_severity,
    }
    return variables | _mirror(build)


def archive_variables(build: BuildSettings, model: BuiltModel, bucket_name: str) -> Mapping[str, str]:
    """Environment of an archive's build; the Hub's token is the project's, never a literal."""
    variables = {
        "SEMIF_RECIPE": model.recipe,
        "SEMIF_BUCKET": bucket_name,
        "SEMIF_PREFIX": model.prefix,
    }
    if build.hub is not None:
        variables["HF_ENDPOINT"] = build.hub
    return variables | _mirror(build)


def _mirror(build: BuildSettings) -> dict[str, str]:
    return {} if build.package_index is None else {"PIP_INDEX_URL": build.package_index}
