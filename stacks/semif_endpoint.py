"""DecisionsStack: the SemIf endpoint, its model and its role."""

from typing import Final

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import MODELS_PREFIX, ArtifactsStack, publish
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.pooled_endpoint import Container, Fleet, PooledEndpoint
from stacks.example_decision import example_command
from stacks.settings import EnvironmentSettings

MODEL_DIR: Final = "/opt/ml/model"


class DecisionsStack(cdk.Stack):
    """One environment's decision endpoint on the model and the image of its artifacts."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSettings,
        artifacts: ArtifactsStack,
    ) -> None:
        super().__init__(scope, construct_id, stack_name=f"semif-{environment.name}-decisions")
        settings = environment.decisions
        role = ExecutionRole(
            self,
            "ExecutionRole",
            bucket_name=artifacts.bucket.bucket_name,
            prefix=MODELS_PREFIX,
            repository_arn=self._repository_arn(environment, artifacts),
        )
        self.endpoint = PooledEndpoint(
            self,
            "Decisions",
            endpoint_name=settings.name,
            container=Container(
                image_uri=settings.image.uri if settings.image else artifacts.image_uri,
                model_uri=artifacts.model_uri,
                environment=server_environment(environment),
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
            f"/semif/{environment.name}/decisions",
            {
                "EndpointName": settings.name,
                "EndpointArn": self.endpoint.arn,
                "Region": environment.region,
                "ModelSha256": environment.model.sha256,
                "InstanceType": self.endpoint.instance_type,
                "Attempts": self.endpoint.attempts,
                "LogGroup": f"/aws/sagemaker/Endpoints/{settings.name}",
                "ExampleCommand": example_command(settings.name, environment.region),
            },
        )

    def _repository_arn(self, environment: EnvironmentSettings, artifacts: ArtifactsStack) -> str:
        image = environment.decisions.image
        return self.format_arn(
            service="ecr",
            account=image.account if image else None,
            resource="repository",
            resource_name=image.repository if image else artifacts.repository.repository_name,
        )


def server_environment(environment: EnvironmentSettings) -> dict[str, str]:
    """Environment of the server's container; the address to listen on is the image's own affair."""
    settings = environment.decisions
    values: dict[str, object] = {
        "SEMIF_GGUF_PATH": f"{MODEL_DIR}/{environment.model.file}",
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
