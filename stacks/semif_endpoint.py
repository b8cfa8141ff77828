"""DecisionsStack: the SemIf endpoint, its model and its role."""

from typing import Final

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import ArtifactsStack, publish
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.pooled_endpoint import Container, Fleet, PooledEndpoint
from stacks.endpoint_inputs import EndpointInputs
from stacks.example_decision import example_command
from stacks.settings import EnvironmentSettings, SemIfEndpointSettings

MODEL_DIR: Final = "/opt/ml/model"


class DecisionsStack(cdk.Stack):
    """A decision endpoint on a model and an image, given or built."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSettings,
        settings: SemIfEndpointSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        super().__init__(scope, construct_id, stack_name=f"semif-{environment.name}-{settings.key}")
        inputs = EndpointInputs(self, environment, settings, artifacts)
        image, archive = inputs.image, inputs.archive
        role = ExecutionRole(
            self, "ExecutionRole", archive=archive.place, repository_arn=image.repository_arn
        )
        self.endpoint = PooledEndpoint(
            self,
            "Decisions",
            endpoint_name=settings.name,
            container=Container(
                image_uri=image.uri,
                model_uri=archive.uri,
                packed_model=archive.packed,
                environment=server_environment(settings, archive.file),
            ),
            fleet=Fleet(
                instance_types=settings.pool,
                instance_count=settings.instance_count,
                inference_ami_version=settings.inference_ami_version,
                download_timeout_s=settings.download_timeout_s,
                startup_timeout_s=settings.startup_timeout_s,
            ),
            execution_role=role,
            tags=environment.tags,
        )
        publish(
            self,
            f"/semif/{environment.name}/{settings.key}",
            {
                "EndpointName": settings.name,
                "EndpointArn": self.endpoint.arn,
                "Region": environment.region,
                "ImageUri": image.uri,
                "ModelUri": archive.uri,
                "ModelSha256": archive.sha256,
                "InstanceType": self.endpoint.instance_type,
                "Attempts": self.endpoint.attempts,
                "LogGroup": f"/aws/sagemaker/Endpoints/{settings.name}",
                "ExampleCommand": example_command(settings.name, environment.region),
            },
        )


def server_environment(settings: SemIfEndpointSettings, gguf_file: str) -> dict[str, str]:
    """Environment of the server's container; the address to listen on is the image's own affair."""
    values: dict[str, object] = {
        "SEMIF_GGUF_PATH": f"{MODEL_DIR}/{gguf_file}",
        "SEMIF_MODEL_DIR": MODEL_DIR,
        "SEMIF_N_GPU_LAYERS": settings.gpu_layers,
        "SEMIF_MAX_TOKENS": settings.max_tokens,
        "SEMIF_MAX_REQUEST_TOKENS": settings.max_request_tokens,
        "SEMIF_MAX_SHARED_DECISIONS": settings.max_shared_decisions,
        "SEMIF_MAX_BODY_BYTES": settings.max_body_bytes,
    }
    if settings.threads is not None:
        values["SEMIF_THREADS"] = settings.threads
    return {name: str(value) for name, value in values.items()}
