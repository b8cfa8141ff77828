"""StandardStack: an endpoint that runs a container of AWS's as it is."""

from collections.abc import Mapping
from typing import Any, Final

from constructs import Construct

from stacks.artifacts import ArtifactsStack
from stacks.container_settings import ContainerSettings
from stacks.endpoint_settings import EndpointSettings
from stacks.endpoint_stack import EndpointStack
from stacks.example_decision import example_command
from stacks.notes import annotate
from stacks.semif_settings import SemIfEngine
from stacks.settings import EnvironmentSettings
from stacks.standard_settings import StandardEngine, container_environment, engine_notes

EXAMPLE_CHAT: Final[Mapping[str, Any]] = {
    "messages": [{"role": "user", "content": "Say in one sentence what a password reset email is."}],
    "max_tokens": 64,
}


class StandardStack(EndpointStack):
    """AWS's container by digest, on the environment's model; nothing is built but the model's archive."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSettings,
        settings: EndpointSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        self._engine_name = settings.container.engine.name
        super().__init__(scope, construct_id, environment=environment, settings=settings, artifacts=artifacts)
        paths = (settings.path, f"{settings.path}.last_resort")
        for container, path in zip(settings.containers, paths, strict=False):
            annotate(self, engine_notes(_engine(container), path))

    def variables(self, container: ContainerSettings, gguf_path: str | None) -> Mapping[str, str]:
        """Environment of the container."""
        return container_environment(_engine(container), gguf_path)

    def example_command(self, endpoint_name: str, region: str) -> str:
        """Send a chat; to Strands Decider, whatever the file request.json holds."""
        if self._engine_name != "strands-decider":
            return example_command(endpoint_name, region, EXAMPLE_CHAT)
        return (
            f"aws sagemaker-runtime invoke-endpoint --region {region} --endpoint-name {endpoint_name}"
            " --content-type application/json --body fileb://request.json /dev/stdout"
        )


def _engine(container: ContainerSettings) -> StandardEngine:
    if isinstance(container.engine, SemIfEngine):
        raise TypeError("bug: semif is no engine of a StandardStack")
    return container.engine
