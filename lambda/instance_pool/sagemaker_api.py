"""SageMaker's endpoint operations as the walk needs them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from instance_pool import attempts
from instance_pool.attempts import STACK_ID, parse_attempt, tag_value
from instance_pool.aws_call import ApiError, call, connect
from instance_pool.failures import Cause
from instance_pool.observation import (
    Configuration,
    Description,
    Endpoint,
    EndpointStatus,
    Ownership,
)
from instance_pool.pool import Pool, configuration_prefix
from instance_pool.variants import deployment_config, production_variant


class SageMakerApi:
    """Calls on one client. Every error leaves as ApiError. `now` is the clock that times are told by."""

    def __init__(self, client: Any, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client = client
        self.now = now

    @classmethod
    def connect(cls) -> "SageMakerApi":
        """Connect as the SDK's environment says (region, credentials, endpoint)."""
        return cls(connect("sagemaker"))

    def describe(self, name: str) -> Description | None:
        """The endpoint as one DescribeEndpoint shows it; None if there is none of that name."""
        described = self._call_unless_gone("describe_endpoint", EndpointName=name)
        if described is None:
            return None
        return Description(
            arn=str(described["EndpointArn"]),
            status=EndpointStatus(str(described["EndpointStatus"])),
            configuration_name=str(described.get("EndpointConfigName", "")),
            failure_reason=str(described.get("FailureReason") or ""),
            created_at=described["CreationTime"],
            serving_types=_serving_types(described.get("ProductionVariants") or ()),
        )

    def complete(
        self, description: Description | None, endpoint_name: str, stack_id: str
    ) -> tuple[Endpoint | None, tuple[Configuration, ...]]:
        """Read the rest of what a decision rests on: the endpoint's tags, and our configurations.

        The endpoint was read first: a configuration that it uses was made before, so it is in the listing.
        """
        tags = self._tags(description.arn) if description is not None else None
        configurations = self._configurations(endpoint_name, stack_id)
        if description is None or tags is None:
            return None, configurations
        if tags.get(STACK_ID) == tag_value(stack_id):
            ownership = Ownership.OURS
        elif STACK_ID not in tags and any(c.name == description.configuration_name for c in configurations):
            ownership = Ownership.UNTAGGED
        else:
            ownership = Ownership.FOREIGN
        return Endpoint(**vars(description), ownership=ownership, tags=tags), configurations

    def create_configuration(
        self, pool: Pool, name: str, index: int, types: Sequence[str], tags: Mapping[str, str]
    ) -> None:
        """Make the configuration for types of a round, with the pool's own tags beside `tags`."""
        key = pool.rounds[index].kms_key_id
        self._call(
            "create_endpoint_config",
            EndpointConfigName=name,
            ProductionVariants=[production_variant(pool, index, types)],
            Tags=_tag_list({**dict(pool.tags), **tags}),
            **({"KmsKeyId": key} if key is not None else {}),
        )

    def owns_configuration(self, name: str, stack_id: str) -> bool:
        """Whether a configuration of this name carries the stack's tag; reads past a listing that lags."""
        described = self._call_unless_gone("describe_endpoint_config", EndpointConfigName=name)
        tags = self._tags(str(described["EndpointConfigArn"])) if described else None
        return tags is None or tags.get(STACK_ID) == tag_value(stack_id)

    def create_endpoint(self, pool: Pool, configuration_name: str, tags: Mapping[str, str]) -> None:
        """Create the endpoint on a configuration."""
        self._call(
            "create_endpoint",
            EndpointName=pool.endpoint_name,
            EndpointConfigName=configuration_name,
            Tags=_tag_list({**dict(pool.tags), **tags}),
        )

    def update_endpoint(self, pool: Pool, configuration_name: str, *, retain: bool) -> None:
        """Move the serving endpoint to a configuration; the old fleet serves until then.

        `retain`: keep the instance count that scaling has set.
        """
        self._call(
            "update_endpoint",
            EndpointName=pool.endpoint_name,
            EndpointConfigName=configuration_name,
            DeploymentConfig=deployment_config(pool.update, pool.rollback_alarms),
            **({"RetainAllVariantProperties": True} if retain else {}),
        )

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        """Add tags, or replace the values of those there."""
        self._call("add_tags", ResourceArn=arn, Tags=_tag_list(tags))

    def delete_tags(self, arn: str, keys: Iterable[str]) -> None:
        """Take tags away; those that are gone are fine."""
        self._call("delete_tags", ResourceArn=arn, TagKeys=list(keys))

    def delete_endpoint(self, name: str) -> None:
        """Begin to delete an endpoint; one that is gone is fine."""
        self._call_unless_gone("delete_endpoint", EndpointName=name)

    def delete_configuration(self, name: str) -> None:
        """Delete a configuration; one that is gone is fine."""
        self._call_unless_gone("delete_endpoint_config", EndpointConfigName=name)

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
                            tags=tags,
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
        return call(self._client, operation, **parameters)


def _serving_types(variants: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Types that have instances now, in the pool's order. A variant without pools names no type."""
    return tuple(
        str(entry["InstanceType"])
        for variant in variants
        for entry in variant.get("InstancePools") or ()
        if entry.get("CurrentInstanceCount", 0) > 0
    )


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
