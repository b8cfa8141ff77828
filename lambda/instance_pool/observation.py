"""What is known at one moment: who asks, and what SageMaker says of the endpoint and its configurations."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from instance_pool.attempts import Attempt


class EndpointStatus(StrEnum):
    """EndpointStatus of DescribeEndpoint; a status that AWS adds later reads as UNKNOWN."""

    OUT_OF_SERVICE = "OutOfService"
    CREATING = "Creating"
    UPDATING = "Updating"
    SYSTEM_UPDATING = "SystemUpdating"
    ROLLING_BACK = "RollingBack"
    IN_SERVICE = "InService"
    DELETING = "Deleting"
    FAILED = "Failed"
    UPDATE_ROLLBACK_FAILED = "UpdateRollbackFailed"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> "EndpointStatus":
        return cls.UNKNOWN


class Ownership(StrEnum):
    """Whose an endpoint is, by its `semif:stack-id` tag."""

    OURS = "ours"
    UNTAGGED = "untagged"  # it runs a configuration of ours but has no tag, or not yet
    FOREIGN = "foreign"


@dataclass(frozen=True)
class Endpoint:
    """An endpoint as DescribeEndpoint and ListTags show it."""

    arn: str
    status: EndpointStatus
    configuration_name: str
    failure_reason: str
    ownership: Ownership
    created_at: datetime


@dataclass(frozen=True)
class Configuration:
    """An endpoint configuration that carries our ownership tag."""

    name: str
    arn: str
    created_at: datetime
    attempt: Attempt


@dataclass(frozen=True)
class Observation:
    """The basis of one decision. `endpoint` is None when there is none of that name."""

    now: datetime
    request_id: str
    endpoint: Endpoint | None
    configurations: tuple[Configuration, ...]

    def configuration(self, name: str) -> Configuration | None:
        """Our configuration of that name."""
        return next((item for item in self.configurations if item.name == name), None)
