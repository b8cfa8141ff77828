"""SageMaker's endpoint operations as the walk needs them; the only user of boto3."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from instance_pool import attempts
from instance_pool.attempts import STACK_ID, parse_attempt, tag_value
from instance_pool.failures import Cause, classify_error
from instance_pool.observation import Configuration, Endpoint, EndpointStatus, Observation, Ownership
from instance_pool.properties import Pool, configuration_prefix

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient

CONNECT_TIMEOUT_S: Final = 3
READ_TIMEOUT_S: Final = 10
MAX_ATTEMPTS: Final = 4


class ApiError(Exception):
    """A call that SageMaker refused or that never got an answer; `cause` says what that means."""

    def __init__(self, operation: str, code: str, message: str, cause: Cause) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message
        self.cause = cause


class SageMakerApi:
    """Calls on one client. Every error leaves as ApiError. `now` is the clock that times are told by."""

    def __init__(
        self, client: "SageMakerClient", now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self.now = now

    @classmethod
    def connect(cls) -> "SageMakerApi":
        """Connect as the SDK's environment says (region, credentials, endpoint)."""
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "max_attempts": MAX_ATTEMPTS},
        )
        return cls(boto3.client("sagemaker", config=config))

    def observe(self, endpoint_name: str, stack_id: str, request_id: str) -> Observation:
        """Read all that a decision rests on.

        The endpoint is read first: a configuration that it uses was made before, so it is in the listing.
        """
        described = self._describe(endpoint_name)
        tags = self._tags(str(described["EndpointArn"])) if described else None
        configurations = self._configurations(endpoint_name, stack_id)
        endpoint = None
        if described and tags is not None:
            configuration_name = str(described.get("EndpointConfigName", ""))
            if tags.get(STACK_ID) == tag_value(stack_id):
                ownership = Ownership.OURS
            elif STACK_ID not in tags and any(c.name == configuration_name for c in configurations):
                ownership = Ownership.UNTAGGED
            else:
                ownership = Ownership.FOREIGN
            endpoint = Endpoint(
                arn=str(described["EndpointArn"]),
                status=EndpointStatus(str(described["EndpointStatus"])),
                configuration_name=configuration_name,
                failure_reason=str(described.get("FailureReason") or ""),
                ownership=ownership,
                created_at=described["CreationTime"],
            )
        return Observation(self.now(), request_id, endpoint, configurations)

    def create_configuration(self, pool: Pool, index: int, tags: Mapping[str, str]) -> None:
        """Make the configuration for one type of the pool, with the pool's own tags beside `tags`."""
        variant: dict[str, Any] = {
            "VariantName": pool.variant_name,
            "ModelName": pool.model_name,
            "InstanceType": pool.instance_types[index],
            "InitialInstanceCount": pool.initial_instance_count,
            "ModelDataDownloadTimeoutInSeconds": pool.model_data_download_timeout_s,
            "ContainerStartupHealthCheckTimeoutInSeconds": pool.container_startup_timeout_s,
        }
        if pool.inference_ami_version is not None:
            variant["InferenceAmiVersion"] = pool.inference_ami_version
        self._call(
            "create_endpoint_config",
            EndpointConfigName=pool.configuration_name(index),
            ProductionVariants=[variant],
            Tags=_tag_list({**dict(pool.tags), **tags}),
        )

    def owns_configuration(self, name: str, stack_id: str) -> bool:
        """Whether a configuration of this name carries the stack's tag; reads past a listing that lags."""
        described = self._call_unless_gone("describe_endpoint_config", EndpointConfigName=name)
        tags = self._tags(str(described["EndpointConfigArn"])) if described else None
        return tags is None or tags.get(STACK_ID) == tag_value(stack_id)

    def create_endpoint(self, pool: Pool, index: int, tags: Mapping[str, str]) -> None:
        """Create the endpoint on the configuration at `index`."""
        self._call(
            "create_endpoint",
            EndpointName=pool.endpoint_name,
            EndpointConfigName=pool.configuration_name(index),
            Tags=_tag_list({**dict(pool.tags), **tags}),
        )

    def update_endpoint(self, pool: Pool, index: int) -> None:
        """Move the serving endpoint to the configuration at `index`; the old fleet serves until then."""
        self._call(
            "update_endpoint",
            EndpointName=pool.endpoint_name,
            EndpointConfigName=pool.configuration_name(index),
        )

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        """Add tags, or replace the values of those there."""
        self._call("add_tags", ResourceArn=arn, Tags=_tag_list(tags))

    def delete_endpoint(self, name: str) -> None:
        """Begin to delete an endpoint; one that is gone is fine."""
        self._call_unless_gone("delete_endpoint", EndpointName=name)

    def delete_configuration(self, name: str) -> None:
        """Delete a configuration; one that is gone is fine."""
        self._call_unless_gone("delete_endpoint_config", EndpointConfigName=name)

    def _describe(self, name: str) -> dict[str, Any] | None:
        return self._call_unless_gone("describe_endpoint", EndpointName=name)

    def _configurations(self, endpoint_name: str, stack_id: str) -> tuple[Configuration, ...]:
        prefix = configuration_prefix(endpoint_name)
        found = []
        token: dict[str, str] = {}
        while True:
            page = self._call("list_endpoint_configs", NameContains=prefix, MaxResults=100, **token)
            for item in page["EndpointConfigs"]:
                if not item["EndpointConfigName"].startswith(prefix):
                    continue
                tags = self._tags(item["EndpointConfigArn"]) or {}
                if (tags.get(STACK_ID), tags.get(attempts.ENDPOINT)) == (
                    tag_value(stack_id),
                    tag_value(endpoint_name),
                ):
                    found.append(
                        Configuration(
                            name=item["EndpointConfigName"],
                            arn=item["EndpointConfigArn"],
                            created_at=item["CreationTime"],
                            attempt=parse_attempt(tags),
                        )
                    )
            if not page.get("NextToken"):
                return tuple(sorted(found, key=lambda configuration: configuration.name))
            token = {"NextToken": page["NextToken"]}

    def _tags(self, arn: str) -> dict[str, str] | None:
        tags: dict[str, str] = {}
        token: dict[str, str] = {}
        while True:
            page = self._call_unless_gone("list_tags", ResourceArn=arn, MaxResults=100, **token)
            if page is None:
                return None
            tags.update({tag["Key"]: tag["Value"] for tag in page["Tags"]})
            if not page.get("NextToken"):
                return tags
            token = {"NextToken": page["NextToken"]}

    def _call_unless_gone(self, operation: str, **parameters: object) -> dict[str, Any] | None:
        try:
            return self._call(operation, **parameters)
        except ApiError as error:
            if error.cause is Cause.NOT_FOUND:
                return None
            raise

    def _call(self, operation: str, **parameters: object) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            message = error.response.get("Error", {}).get("Message", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
            raise ApiError(operation, code, message, classify_error(code, message, status)) from error
        except ParamValidationError as error:
            raise ApiError(operation, "ParamValidationError", str(error), Cause.UNKNOWN) from error
        except BotoCoreError as error:
            # No answer came: no connection, a time-out, credentials being renewed.
            raise ApiError(operation, type(error).__name__, str(error), Cause.TRANSIENT) from error
        return answer


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
