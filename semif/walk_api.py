"""Reads a walk from SageMaker: the endpoint, its configurations and their tags."""

from typing import TYPE_CHECKING

from semif.attempts import MAX_NAME_IN_CONFIGURATION, Attempt, latest_walk, read_attempt
from semif.aws import ClientError, describe
from semif.deployment import Endpoint

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient


def read_endpoint(sagemaker_client: "SageMakerClient", name: str) -> Endpoint | None:
    """DescribeEndpoint; None if there is none of that name. Raises what boto3 raises."""
    try:
        found = sagemaker_client.describe_endpoint(EndpointName=name)
    except ClientError as error:
        code, text, _ = describe(error)
        if code == "ValidationException" and "could not find" in text.lower():
            return None
        raise
    pools = [p for v in found.get("ProductionVariants", []) for p in v.get("InstancePools", [])]
    serving = [p["InstanceType"] for p in pools if p.get("CurrentInstanceCount", 0) > 0]
    return Endpoint(
        name, found["EndpointStatus"], found.get("FailureReason", ""), tuple(dict.fromkeys(serving))
    )


def walk_attempts(sagemaker_client: "SageMakerClient", endpoint_name: str) -> list[Attempt]:
    """The attempts of the newest walk for `endpoint_name`, in order; empty if there is none.

    Raises what boto3 raises.
    """
    return latest_walk(AttemptReader(sagemaker_client).read(endpoint_name))


class AttemptReader:
    """Reads attempts again and again; one that is over is read once, for its tags do not change."""

    def __init__(self, sagemaker_client: "SageMakerClient") -> None:
        self._sagemaker = sagemaker_client
        self._over: dict[str, Attempt] = {}

    def read(self, endpoint_name: str) -> list[Attempt]:
        """Every attempt that SageMaker still holds for `endpoint_name`, of all walks."""
        prefix = endpoint_name[:MAX_NAME_IN_CONFIGURATION]
        attempts = []
        pages = self._sagemaker.get_paginator("list_endpoint_configs").paginate(NameContains=prefix)
        for summary in (config for page in pages for config in page["EndpointConfigs"]):
            arn, name = summary["EndpointConfigArn"], summary["EndpointConfigName"]
            if not name.startswith(f"{prefix}-"):
                continue
            # A configuration made again under the same name is another attempt.
            made_at = summary["CreationTime"]
            key = f"{arn} {made_at.isoformat()}"
            attempt = self._over.get(key) or read_attempt(
                name, self._tags(arn), endpoint_name, made_at=made_at
            )
            if attempt is None:
                continue
            attempts.append(attempt)
            if attempt.outcome and attempt.seconds is not None:
                self._over[key] = attempt
        return attempts

    def _tags(self, arn: str) -> dict[str, str]:
        pages = self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
        try:
            return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}
        except ClientError as error:
            # The walk may delete a configuration between the list and this call.
            if describe(error)[0] in {"ResourceNotFound", "ValidationException"}:
                return {}
            raise
