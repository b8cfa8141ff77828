"""What CloudFormation or `semif climb` sends, parsed once: the operation, who asks, and the wanted pool.

CloudFormation sends every scalar property of a custom resource as a string. Rounds, types and alarms are
numbered properties (Round1, Type1, RollbackAlarm1), so that a diff shows a reorder line by line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, get_args

from instance_pool.failures import shortened
from instance_pool.pool import Pool, Round, UpdateMode, UpdateType

RequestType = Literal["Create", "Update", "Delete", "Climb"]
STARTED_AT: Final = "StartedAt"
"""Member of the Data that `on_event` answers and the Provider hands to each poll."""

_NAME: Final = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_NUMBERED: Final = re.compile(r"(Round|RollbackAlarm)[1-9][0-9]{0,2}")
_NATIVE_TYPES: Final = 5
_KNOWN: Final = frozenset(
    {
        "ServiceToken",
        "ServiceTimeout",
        "EndpointName",
        "VariantName",
        "ModelName",
        "InitialInstanceCount",
        "ModelDataDownloadTimeoutInSeconds",
        "ContainerStartupHealthCheckTimeoutInSeconds",
        "Strategy",
        "VariantInstanceProvisionTimeoutInSeconds",
        "LastResort",
        "LeftOut",
        "Update",
        "Tags",
    }
)
_OF_ROUND: Final = frozenset({"InferenceAmiVersion", "KmsKeyId"})
_OF_LAST_RESORT: Final = _OF_ROUND | {"ModelName", "InitialInstanceCount"}
_OF_UPDATE: Final = frozenset(
    {"Type", "CanaryPercent", "BatchPercent", "WaitIntervalInSeconds", "TerminationWaitInSeconds"}
)


class PropertyError(ValueError):
    """A property that cannot be used; the text names it and what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"invalid_property: {shortened(f'{name} {problem}')}."
            " Next: correct the resource's property, deploy again."
        )


@dataclass(frozen=True)
class Operation:
    """One request: what it is about, the pool it wants (none for Delete), and since when it runs.

    `old_tags` are the names of the tags that the resource had before an update.
    """

    request_type: RequestType
    request_id: str
    stack_id: str
    endpoint_name: str
    pool: Pool | None
    started_at: datetime | None = None
    old_tags: frozenset[str] = frozenset()


def physical_resource_id(event: Mapping[str, object]) -> str:
    """The endpoint's name: known before anything exists, so that a failed create can be cleaned up."""
    if event["RequestType"] == "Delete":
        return str(event["PhysicalResourceId"])
    return _name(_properties(event), "EndpointName")


def parse_operation(event: Mapping[str, object]) -> Operation:
    """Read an event. Delete goes by the physical id alone, so that bad properties never block it."""
    request_type = event["RequestType"]
    if request_type not in {"Create", "Update", "Delete", "Climb"}:
        raise PropertyError("RequestType", f"is {request_type!r}, not Create, Update, Delete or Climb")
    old = event.get("OldResourceProperties")
    old_tags = old.get("Tags") if isinstance(old, Mapping) else None
    return Operation(
        request_type=request_type,
        request_id=str(event["RequestId"]),
        stack_id=str(event["StackId"]),
        endpoint_name=physical_resource_id(event),
        pool=None if request_type == "Delete" else parse_pool(_properties(event)),
        started_at=_started_at(event.get("Data")),
        old_tags=frozenset(str(key) for key in old_tags) if isinstance(old_tags, Mapping) else frozenset(),
    )


def parse_pool(properties: Mapping[str, object]) -> Pool:
    """Read the resource's properties; raises PropertyError with the property's name."""
    unknown = sorted(name for name in set(properties) - _KNOWN if not _NUMBERED.fullmatch(name))
    if unknown:
        raise PropertyError(unknown[0], "is not a property of Custom::InstancePoolEndpoint")
    strategy = _text(properties, "Strategy")
    if strategy not in {"native", "serial"}:
        raise PropertyError("Strategy", f"is {strategy!r}, not native or serial")
    native = strategy == "native"
    return Pool(
        endpoint_name=_name(properties, "EndpointName"),
        variant_name=_name(properties, "VariantName"),
        rounds=_rounds(properties, native=native),
        native=native,
        provision_timeout_s=_integer(properties, "VariantInstanceProvisionTimeoutInSeconds", 300, 3600)
        if native
        else None,
        download_timeout_s=_integer(properties, "ModelDataDownloadTimeoutInSeconds", 60, 3600),
        startup_timeout_s=_integer(properties, "ContainerStartupHealthCheckTimeoutInSeconds", 60, 3600),
        left_out=tuple(_strings(properties, "LeftOut").items()),
        update=_update(properties),
        rollback_alarms=tuple(
            _text(properties, name) for name in _numbered(properties, "RollbackAlarm", least=0)
        ),
        tags=tuple(sorted(_strings(properties, "Tags").items())),
    )


def _rounds(properties: Mapping[str, object], *, native: bool) -> tuple[Round, ...]:
    most = _NATIVE_TYPES if native else 1
    model_name = _text(properties, "ModelName")
    count = _integer(properties, "InitialInstanceCount", 1, 1000)
    rounds = []
    for name in _numbered(properties, "Round"):
        fields = _fields(properties, name, _OF_ROUND)
        types = _types(fields, name)
        if len(types) > most:
            raise PropertyError(name, f"has {len(types)} types; the strategy allows {most}")
        rounds.append(Round(types, model_name, count, _optional(fields, "InferenceAmiVersion"), _key(fields)))
    if "LastResort" in properties:
        fields = _fields(properties, "LastResort", _OF_LAST_RESORT)
        types = _types(fields, "LastResort")
        if native and len(types) > most:
            raise PropertyError("LastResort", f"has {len(types)} types; the strategy allows {most}")
        # Without native pools its types are tried one after the other, too.
        rounds += [
            Round(
                part,
                _text(fields, "ModelName"),
                _integer(fields, "InitialInstanceCount", 1, 1000),
                _optional(fields, "InferenceAmiVersion"),
                _key(fields),
                last_resort=True,
            )
            for part in ([types] if native else [(one,) for one in types])
        ]
    return tuple(rounds)


def _fields(properties: Mapping[str, object], name: str, known: frozenset[str]) -> Mapping[str, object]:
    value = properties.get(name)
    if not isinstance(value, Mapping):
        raise PropertyError(name, "is not a map of types")
    unknown = sorted(key for key in value if not re.fullmatch(r"Type[1-9][0-9]{0,2}", str(key)))
    if wrong := [key for key in unknown if key not in known]:
        raise PropertyError(f"{name}.{wrong[0]}", "is not a member of a round")
    return value


def _types(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    types = tuple(_text(fields, key) for key in _numbered(fields, "Type", within=f"{name}."))
    if len(set(types)) != len(types):
        raise PropertyError(name, "names a type twice")
    return types


def _numbered(properties: Mapping[str, object], stem: str, least: int = 1, within: str = "") -> list[str]:
    """Names such as Round1, Round2: by number, from 1, without a gap."""
    numbers = sorted(
        int(key.removeprefix(stem)) for key in properties if re.fullmatch(rf"{stem}[1-9][0-9]*", key)
    )
    most = max(len(numbers), least)
    if missing := sorted(set(range(1, most + 1)) - set(numbers)):
        raise PropertyError(f"{within}{stem}{missing[0]}", "is missing")
    return [f"{stem}{number}" for number in numbers]


def _update(properties: Mapping[str, object]) -> UpdateMode:
    if "Update" not in properties:
        return UpdateMode()
    fields = properties["Update"]
    if not isinstance(fields, Mapping) or set(fields) - _OF_UPDATE:
        raise PropertyError("Update", f"is not a map of {', '.join(sorted(_OF_UPDATE))}")
    default = UpdateMode()

    def number(name: str, low: int, high: int, otherwise: int) -> int:
        return _integer(fields, name, low, high) if name in fields else otherwise

    wanted = _text(fields, "Type")
    found = [kind for kind in get_args(UpdateType) if kind == wanted]
    if not found:
        raise PropertyError("Update.Type", f"is {wanted!r}, not one of {', '.join(get_args(UpdateType))}")
    return UpdateMode(
        type=found[0],
        canary_percent=number("CanaryPercent", 1, 100, default.canary_percent),
        batch_percent=number("BatchPercent", 1, 100, default.batch_percent),
        wait_s=number("WaitIntervalInSeconds", 0, 3600, default.wait_s),
        termination_wait_s=number("TerminationWaitInSeconds", 0, 3600, default.termination_wait_s),
    )


def _properties(event: Mapping[str, object]) -> Mapping[str, object]:
    properties = event.get("ResourceProperties")
    if not isinstance(properties, Mapping):
        raise PropertyError("ResourceProperties", "is missing")
    return properties


def _started_at(data: object) -> datetime | None:
    text = data.get(STARTED_AT) if isinstance(data, Mapping) else None
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _text(properties: Mapping[str, object], name: str) -> str:
    value = properties.get(name)
    if not isinstance(value, str) or not value:
        raise PropertyError(name, f"is {value!r}, not a non-empty string")
    return value


def _optional(fields: Mapping[str, object], name: str) -> str | None:
    return _text(fields, name) if name in fields else None


def _key(fields: Mapping[str, object]) -> str | None:
    return _optional(fields, "KmsKeyId")


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


def _strings(properties: Mapping[str, object], name: str) -> Mapping[str, str]:
    value = properties.get(name, {})
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise PropertyError(name, "is not a map of strings")
    return value
