"""Requests to a SageMaker endpoint, and the name of the endpoint that a deployment left in SSM."""

from typing import TYPE_CHECKING

from semif.aws import ClientError, aws_errors, describe, response_text
from semif.decide import server_error
from semif.errors import NotFoundError, RetryableError, SemifError, ServiceError

if TYPE_CHECKING:
    from mypy_boto3_sagemaker_runtime import SageMakerRuntimeClient
    from mypy_boto3_ssm import SSMClient

BUSY = frozenset(
    {"InternalDependencyException", "InternalFailure", "ModelNotReadyException", "ServiceUnavailable"}
)


class Endpoint:
    """A deployed endpoint, by name."""

    def __init__(self, runtime: "SageMakerRuntimeClient", name: str) -> None:
        self.runtime = runtime
        self.name = name

    def invoke(self, body: bytes) -> bytes:
        """InvokeEndpoint; the container's own refusals are unwrapped from SageMaker's ModelError."""
        with aws_errors(f"endpoint {self.name}"):
            try:
                answer = self.runtime.invoke_endpoint(
                    EndpointName=self.name,
                    Body=body,
                    ContentType="application/json",
                    Accept="application/json",
                )
            except ClientError as error:
                own = _own_error(error, self.name)
                if own is None:
                    raise
                raise own from error
            return answer["Body"].read()


def endpoint_name(ssm: "SSMClient", env: str, region: str) -> str:
    """The decision endpoint of environment `env`, from /semif/ENV/decisions/endpoint-name."""
    parameter = f"/semif/{env}/decisions/endpoint-name"
    try:
        with aws_errors(f"parameter {parameter}"):
            return ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
    except NotFoundError as error:
        raise NotFoundError(
            "not_deployed",
            f"environment {env} has no decision endpoint in {region}",
            field="--env",
            next_step=f"deploy it (cdk deploy '{env}/*'), or check --region and --env",
        ) from error


def _own_error(error: ClientError, name: str) -> SemifError | None:
    """The errors that only the runtime has; None for those that all of AWS shares."""
    code, text, status = describe(error)
    if code == "ModelError":
        original_status = response_text(error, "OriginalStatusCode")
        return server_error(
            int(original_status) if original_status.isdecimal() else status,
            response_text(error, "OriginalMessage").encode("utf-8", "replace"),
        )
    if code in BUSY:
        return RetryableError(
            code, f"endpoint {name}: {text or code}", next_step="send the same request in a moment"
        )
    if code in {"ValidationError", "ValidationException"}:
        return ServiceError(
            code,
            f"endpoint {name}: {text}",
            next_step="check the name, the region and that the endpoint is InService",
        )
    return None
