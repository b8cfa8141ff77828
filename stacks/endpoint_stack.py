"""EndpointStack: an endpoint, its models and its role. Engines differ in what their containers are told."""

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import ArtifactsStack, publish
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.invoke_access import InvokeAccess
from stacks.constructs.pooled_endpoint import Container, ModelArchive, PooledEndpoint
from stacks.container_settings import ContainerSettings
from stacks.costs import Candidate, cost_note
from stacks.endpoint_inputs import EndpointInputs
from stacks.endpoint_settings import EndpointSettings
from stacks.notes import Note, annotate
from stacks.prices import load_prices
from stacks.settings import EnvironmentSettings

MODEL_DIR: Final = "/opt/ml/model"


class EndpointStack(cdk.Stack):
    """An endpoint on models and images, given or built. A subclass gives what is its engine's own."""

    ENDPOINT_ID = "Endpoint"
    """Construct id of the endpoint, a part of logical ids: another would replace everything."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSettings,
        settings: EndpointSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=f"semif-{environment.name}-{settings.key}",
            termination_protection=environment.protect,
        )
        inputs = EndpointInputs(self, environment, settings, artifacts)
        images = [inputs.image(container) for container in settings.containers]
        archives = [inputs.archive(container) for container in settings.containers]
        containers = [
            Container(
                image_uri=image.uri,
                archive=None if archive is None else ModelArchive(archive.uri, archive.packed),
                environment=self.variables(
                    container, None if archive is None else f"{MODEL_DIR}/{archive.file}"
                ),
            )
            for container, image, archive in zip(settings.containers, images, archives, strict=True)
        ]
        role = ExecutionRole(
            self,
            "ExecutionRole",
            archives=[archive.place for archive in archives if archive is not None],
            repository_arns=[image.repository_arn for image in images],
        )
        self.endpoint = PooledEndpoint(
            self,
            self.ENDPOINT_ID,
            environment_name=environment.name,
            settings=settings,
            container=containers[0],
            last_resort=containers[1] if len(containers) > 1 else None,
            execution_role=role,
            tags=environment.tags,
            # A container that fetches its model has to reach the Hub.
            enable_network_isolation=not any(c.fetches_model for c in settings.containers),
        )
        model = archives[0]
        publish(
            self,
            f"/semif/{environment.name}/{settings.key}",
            {
                **self.endpoint.outputs,
                "Region": environment.region,
                "ImageUri": images[0].uri,
                **({} if model is None else {"ModelUri": model.uri, "ModelSha256": model.sha256}),
                "ExampleCommand": self.example_command(settings.name, environment.region),
                **self._invoke_access(environment, settings),
            },
        )
        annotate(self, (Note("cost", "info", _cost_note(environment, settings)),))

    def _invoke_access(
        self, environment: EnvironmentSettings, settings: EndpointSettings
    ) -> Mapping[str, str]:
        """Outputs of what callers get; none where the settings name no callers."""
        if settings.callers is None:
            return {}
        access = InvokeAccess(
            self,
            "Callers",
            name=self.stack_name,
            endpoint_name=settings.name,
            region=environment.region,
            callers=settings.callers,
            # A decision endpoint answers no chat, which is all that this path can ask for.
            openai_path=settings.container.engine.name != "semif",
        )
        return access.outputs

    def variables(self, container: ContainerSettings, gguf_path: str | None) -> Mapping[str, str]:
        """Environment of a container; `gguf_path` is None where it fetches the model itself."""
        raise NotImplementedError

    def example_command(self, endpoint_name: str, region: str) -> str:
        """A line for bash that asks the endpoint something."""
        raise NotImplementedError


def _cost_note(environment: EnvironmentSettings, settings: EndpointSettings) -> str:
    candidates = [
        Candidate(instance_type, settings.pool.instance_count)
        for pool_round in settings.pool.rounds
        for instance_type in pool_round.instance_types
    ]
    if settings.last_resort is not None:
        candidates += [
            Candidate(instance_type, settings.last_resort.instance_count)
            for instance_type in settings.last_resort.round.instance_types
        ]
    return cost_note(
        settings.name,
        environment_name=environment.name,
        region=environment.region,
        candidates=candidates,
        left_out=settings.left_out,
        prices=load_prices(),
    )
