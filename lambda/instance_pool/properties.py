"""What CloudFormation sends, parsed once: the operation, who owns what it makes, and the wanted pool.

CloudFormation sends every scalar property of a custom resource as a string.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from instance_pool.failures import shortened

RequestType = Literal["Create", "Update", "Delete"]
_PREFIX_LENGTH: Final = 48
_DIGEST_LENGTH: Final = 10
_NAME: Final = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_KNOWN: Final = frozenset(
    {
        "ServiceToken",
        "ServiceTimeout",
        "EndpointName",
        "ModelName",
        "VariantName",
        "InstanceTypes",
        "InitialInstanceCount",
        "ModelDataDownloadTimeoutInSeconds",
        "ContainerStartupHealthCheckTimeoutInSeconds",
        "InferenceAmiVersion",
        "Tags",
    }
)


class PropertyError(ValueError):
    """A property that cannot be used; the text names it and what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"invalid_property: {shortened(f'{name} {problem}')}."
            " Next: correct the resource's property, deploy again."
        )


@dataclass(frozen=True)
class Pool:
    """The wanted endpoint and the instance types that may serve it, best first."""

    endpoint_name: str
    model_name: str
    variant_name: str
    instance_types: tuple[str, ...]
    initial_instance_count: int
    model_data_download_timeout_s: int
    container_startup_timeout_s: int
    inference_ami_version: str | None
    tags: tuple[tuple[str, str], ...]

    @cached_property
    def digest(self) -> str:
        """Ten hex digits of all that makes one fleet differ from another; tags do not."""
        content = {
            "endpoint": self.endpoint_name,
            "model": self.model_name,
            "variant": self.variant_name,
            "types": self.instance_types,
            "count": self.initial_instance_count,
            "download_s": self.model_data_download_timeout_s,
            "startup_s": self.container_startup_timeout_s,
            "ami": self.inference_ami_version,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]

    def configuration_name(self, index: int) -> str:
        """Name of the configuration for the type at `index`: at most 63 characters."""
        return f"{configuration_prefix(self.endpoint_name)}{self.digest}-{index}"

    def index_of(self, configuration_name: str) -> int | None:
        """Place in this pool of a configuration, or None for one of other content."""
        names = (self.configuration_name(index) for index in range(len(self.instance_types)))
        return next((index for index, name in enumerate(names) if name == configuration_name), None)


@dataclass(frozen=True)
class Operation:
    """One request of CloudFormation: what it is about, and the pool it wants (none for Delete)."""

    request_type: RequestType
    request_id: str
    stack_id: str
    endpoint_name: str
    pool: Pool | None


def configuration_prefix(endpoint_name: str) -> str:
    """What the names of all configurations of an endpoint start with."""
    return f"{endpoint_name[:_PREFIX_LENGTH]}-"


def physical_resource_id(event: Mapping[str, object]) -> str:
    """The endpoint's name: known before anything exists, so that a failed create can be cleaned up."""
    if event["RequestType"] == "Delete":
        return str(event["PhysicalResourceId"])
    return _name(_properties(event), "EndpointName")


def parse_operation(event: Mapping[str, object]) -> Operation:
    """Read an event. Delete goes by the physical id alone, so that bad properties never block it."""
    request_type = event["RequestType"]
    if request_type not in {"Create", "Update", "Delete"}:
        raise PropertyError("RequestType", f"is {request_type!r}, not Create, Update or Delete")
    return Operation(
        request_type=request_type,
        request_id=str(event["RequestId"]),
        stack_id=str(event["StackId"]),
        endpoint_name=physical_resource_id(event),
        pool=None if request_type == "Delete" else parse_pool(_properties(event)),
    )


def parse_pool(properties: Mapping[str, object]) -> Pool:
    """Read the resource's properties; raises PropertyError with the property's name."""
    unknown = sorted(set(properties) - _KNOWN)
    if unknown:
        raise PropertyError(unknown[0], "is not a property of Custom::InstancePoolEndpoint")
    return Pool(
        endpoint_name=_name(properties, "EndpointName"),
        model_name=_text(properties, "ModelName"),
        variant_name=_name(properties, "VariantName"),
        instance_types=_instance_types(properties),
        initial_instance_count=_integer(properties, "InitialInstanceCount", 1, 1000),
        model_data_download_timeout_s=_integer(properties, "ModelDataDownloadTimeoutInSeconds", 60, 3600),
        container_startup_timeout_s=_integer(
            properties, "ContainerStartupHealthCheckTimeoutInSeconds", 60, 3600
        ),
        inference_ami_version=_text(properties, "InferenceAmiVersion")
        if "InferenceAmiVersion" in properties
        else None,
        tags=_tags(properties),
    )


def _properties(event: Mapping[str, object]) -> Mapping[str, object]:
    properties = event.get("ResourceProperties")
    if not isinstance(properties, Mapping):
        raise PropertyError("ResourceProperties", "is missing")
    return properties


def _text(properties: Mapping[str, object], name: str) -> str:
    value = properties.get(name)
    if not isinstance(value, str) or not value:
        raise PropertyError(name, f"is {value!r}, not a non-empty string")
    return value


def _name(properties: Mapping[str, object], name: str) -> str:
    value = _text(properties, name)
    if not _NAME.fullmatch(value):
        raise PropertyError(name, f"is {value!r}, not 1 to 63 letters, digits and inner hyphens")
    return value


def _integer(properties: Mapping[str, object], name: str, low: int, high: int) -> int:
    value = _text(properties, name)
    if not re.fullmatch(r"[0-9]{1,6}", value) or not low <= int(value) <= high:
        raise PropertyError(name, f"is {value!r}, not a whole number from {low} to {high}")
    return int(value)


def _instance_types(properties: Mapping[str, object]) -> tuple[str, ...]:
    value = properties.get("InstanceTypes")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise PropertyError("InstanceTypes", f"is {value!r}, not a non-empty list of instance types")
    if len(set(value)) != len(value) or len(value) > 100:
        raise PropertyError("InstanceTypes", "names a type twice or has more than 100 types")
    return tuple(value)


def _tags(properties: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    value = properties.get("Tags", {})
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise PropertyError("Tags", "is not a map of strings")
    return tuple(sorted(value.items()))
