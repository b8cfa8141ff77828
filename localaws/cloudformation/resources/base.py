"""What every resource type has: the API-backed life cycle of one kind of resource."""

from __future__ import annotations

import secrets
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore.exceptions import ClientError, ParamValidationError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from localaws.clients import Clients
from localaws.cloudformation.schema import resource_schema
from localaws.protocol import Scope

Properties = Mapping[str, Any]


class ResourceError(Exception):
    """An operation on a resource failed; the message becomes the event's reason.

    `physical_id` names what exists nevertheless, so that the rollback deletes it. `unexpected` marks a bug of
    the local AWS, which belongs into its log.
    """

    def __init__(self, reason: str, physical_id: str | None = None, *, unexpected: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.physical_id = physical_id
        self.unexpected = unexpected


@dataclass(frozen=True)
class Created:
    """A resource as it now exists: what Ref gives and what Fn::GetAtt may ask for."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ResourceContext:
    """Where and for which resource of which stack an operation runs.

    A type sets `physical_id` as soon as something exists that a rollback has to delete.
    """

    scope: Scope
    stack_id: str
    stack_name: str
    logical_id: str
    resource_type: str
    clients: Clients
    physical_id: str | None = None

    def client(self, service: str) -> Any:
        """Return a client of the stack's account and region."""
        return self.clients.get(service, self.scope)

    def arn(self, service: str, resource: str, *, region: bool = True) -> str:
        """Return an ARN of the stack's account."""
        return f"arn:aws:{service}:{self.scope.region if region else ''}:{self.scope.account}:{resource}"

    def name(self, longest: int, *, lower: bool = False) -> str:
        """Make a name as CloudFormation does: STACK-LOGICALID-RANDOM, cut to `longest` characters."""
        alphabet = string.digits + (string.ascii_lowercase if lower else string.ascii_letters)
        suffix = "".join(secrets.choice(alphabet) for _ in range(12))
        room = longest - len(suffix) - 2
        logical = self.logical_id[: max(room - len(self.stack_name), room // 2)]
        stem = f"{self.stack_name[: room - len(logical)].rstrip('-')}-{logical}-{suffix}"
        return stem.lower() if lower else stem


class ResourceType(ABC):
    """One resource type; every operation goes through the service's own API."""

    type_name: ClassVar[str]
    #: Properties that take effect here.
    applied: ClassVar[frozenset[str]]
    #: Properties that are kept with the stack but change nothing here.
    recorded: ClassVar[frozenset[str]] = frozenset()
    #: Whether a rollback sends an update even to a resource that the update replaced (custom resources).
    rolls_back_by_update: ClassVar[bool] = False

    @abstractmethod
    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Make the resource."""

    @abstractmethod
    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change the resource in place from `old` to `properties`."""

    @abstractmethod
    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the resource; one that is gone already is no error."""

    def check(self, logical_id: str, properties: Properties) -> None:
        """Raise ResourceError for properties that AWS refuses or that this local AWS cannot apply."""
        schema = resource_schema(self.type_name)
        problems = schema.problems(properties) if schema else []
        if problems:
            raise ResourceError(
                f"Properties validation failed for resource {logical_id} with message: {', '.join(problems)}"
            )
        unsupported = sorted(set(properties) - self.applied - self.recorded)
        if unsupported:
            raise ResourceError(
                f"The local AWS does not support property {unsupported[0]} of {self.type_name};"
                f" add it to {type(self).__name__} in {type(self).__module__}"
            )

    def replaced_by(self, name: str, old: Any, new: Any) -> bool:
        """Tell whether changing the property `name` needs a new resource."""
        schema = resource_schema(self.type_name)
        return schema is not None and schema.replaces(name, old, new)

    def already_exists(self, identifier: str) -> ResourceError:
        """Return CloudFormation's refusal to adopt what it did not make."""
        return ResourceError(
            f"Resource of type '{self.type_name}' with identifier '{identifier}' already exists."
        )


def is_error(error: ClientError, *codes: str) -> bool:
    """Tell whether an API error has one of these codes."""
    return error.response.get("Error", {}).get("Code") in codes


def failure(error: Exception, physical_id: str | None) -> ResourceError:
    """Turn whatever an operation raised into an event's reason."""
    match error:
        case ResourceError():
            return ResourceError(error.reason, error.physical_id or physical_id)
        case ClientError():
            detail = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            service = error.operation_name
            reason = (
                f'Resource handler returned message: "{detail.get("Message")} (Operation: {service},'
                f' Status Code: {status}, Error Code: {detail.get("Code")})"'
            )
            return ResourceError(reason, physical_id)
        case ParamValidationError():
            return ResourceError(f"Properties validation failed: {error}", physical_id)
        case _:
            return ResourceError(
                f"Internal error of the local AWS: {type(error).__name__}: {error}", physical_id
            )


def changed(properties: Properties, old: Properties, *names: str) -> bool:
    """Tell whether any of these properties differ."""
    return any(properties.get(name) != old.get(name) for name in names)


def tag_list(tags: Any) -> list[dict[str, str]]:
    """Return tags as a list of Key and Value, whether the template has a list or a map."""
    if isinstance(tags, Mapping):
        return [{"Key": key, "Value": str(value)} for key, value in tags.items()]
    return [{"Key": tag["Key"], "Value": str(tag["Value"])} for tag in tags or []]


def tag_map(tags: Any) -> dict[str, str]:
    """Return tags as a map, whether the template has a list or a map."""
    return {tag["Key"]: tag["Value"] for tag in tag_list(tags)}


def api_params(client: Any, operation: str, properties: Properties) -> dict[str, Any]:
    """Shape template properties as the parameters of an API operation.

    Template and API differ in the case of names and in scalars as strings. A name the API lacks is an error.
    """
    model = client.meta.service_model.operation_model(operation)
    shaped: dict[str, Any] = _shaped(model.input_shape, properties, operation)
    return shaped


def _shaped(shape: Shape, value: Any, where: str) -> Any:
    match shape:
        case StructureShape() if isinstance(value, Mapping):
            names = {name.lower(): name for name in shape.members}
            result = {}
            for key, item in value.items():
                name = names.get(key.lower())
                if name is None:
                    raise ResourceError(f"The API has no parameter for property {key} at {where}")
                result[name] = _shaped(shape.members[name], item, f"{where}.{name}")
            return result
        case ListShape() if isinstance(value, list):
            return [_shaped(shape.member, item, where) for item in value]
        case MapShape() if isinstance(value, Mapping):
            return {key: _shaped(shape.value, item, f"{where}.{key}") for key, item in value.items()}
    return _scalar(shape.type_name, value)


def _scalar(kind: str, value: Any) -> Any:
    match kind, value:
        case "integer" | "long", str():
            return int(value)
        case "float" | "double", str():
            return float(value)
        case "boolean", "true" | "false":
            return value == "true"
        case "string", bool():
            return "true" if value else "false"
        case "string", int() | float():
            return str(value)
    return value
