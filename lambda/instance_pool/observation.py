"""What is known at one moment: who asks, and what SageMaker says of the endpoint and its configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from instance_pool.attempts import Attempt
from instance_pool.preflight import Limits


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

    @property
    def settled(self) -> bool:
        """Whether SageMaker has nothing under way: only then there is something to decide."""
        return self in {
            EndpointStatus.IN_SERVICE,
            EndpointStatus.FAILED,
            EndpointStatus.OUT_OF_SERVICE,
            EndpointStatus.UPDATE_ROLLBACK_FAILED,
        }


class Ownership(StrEnum):
    """Whose an endpoint is, by its `semif:stack-id` tag."""

    OURS = "ours"
    UNTAGGED = "untagged"  # it runs a configuration of ours but has no tag, or not yet
    FOREIGN = "foreign"


@dataclass(frozen=True)
class Description:
    """An endpoint as one DescribeEndpoint shows it. `serving_types`: empty where SageMaker does not say."""

    arn: str
    status: EndpointStatus
    configuration_name: str
    failure_reason: str
    created_at: datetime
    serving_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Endpoint(Description):
    """An endpoint with its tags."""

    ownership: Ownership = Ownership.OURS
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Configuration:
    """An endpoint configuration that carries our ownership tag; `tags` are all of its tags."""

    name: str
    arn: str
    created_at: datetime
    attempt: Attempt
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """What one poll has learnt of the types before it chose: the quotas once read, and refused types."""

    read: bool = False
    limits: Limits | None = None
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Observation:
    """The basis of one decision. `endpoint` is None when there is none of that name.

    `started_at` is when the operation began, None where nobody said.
    """

    now: datetime
    request_id: str
    endpoint: Endpoint | None
    configurations: tuple[Configuration, ...]
    started_at: datetime | None = None
    survey: Survey = Survey()
    old_tags: frozenset[str] = frozenset()

    def configuration(self, name: str) -> Configuration | None:
        """Our configuration of that name."""
        return next((item for item in self.configurations if item.name == name), None)
