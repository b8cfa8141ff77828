"""What a cloud assembly says of its environments: semif.json, and the templates of the stacks beside it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from semif.deployment import BUILD_TYPE, POOL_TYPE
from semif.errors import NotReadableError, UsageError

FILE: Final = "semif.json"
VERSION: Final = 1
MODEL_TYPE: Final = "AWS::SageMaker::Model"
PROJECT_TYPE: Final = "AWS::CodeBuild::Project"
AGAIN: Final = "synthesize again with this version of the project (make synth)"
# Changes of these properties need no other instances.
_NO_FLEET: Final = frozenset({"ServiceToken", "Tags", "Update", "LeftOut"})

Template = Mapping[str, Any]


@dataclass(frozen=True)
class EndpointPlan:
    """One endpoint: `rounds` are instance types in the order of the walk, then comes `last_resort`."""

    key: str
    name: str
    stack: str
    instance_count: int
    update: str
    rounds: tuple[tuple[str, ...], ...]
    last_resort: tuple[str, ...]
    last_resort_count: int
    left_out: Mapping[str, str]
    worst_case_s: int

    @property
    def types(self) -> tuple[str, ...]:
        """Every type that it may run on, best first, each once."""
        return tuple(dict.fromkeys([*self._walked, *self.last_resort]))

    def instances(self, instance_type: str) -> int:
        """How many instances it starts, if they are of this type."""
        return self.instance_count if instance_type in self._walked else self.last_resort_count

    @property
    def _walked(self) -> tuple[str, ...]:
        return tuple(t for types in self.rounds for t in types)


@dataclass(frozen=True)
class ModelPlan:
    """Where a model comes from; `address` is a URL, s3://BUCKET/KEY, or s3://BUCKET/PREFIX/."""

    address: str
    token_secret: str | None

    @property
    def ready(self) -> bool:
        """Whether it is an archive that SageMaker reads itself; anything else is fetched by a build."""
        return self.address.startswith("s3://") and self.address.endswith(("/", "/model.tar.gz"))


@dataclass(frozen=True)
class EnvironmentPlan:
    """One environment as it is synthesized. `account` None: that of the credentials that deploy.

    `others` are the names of the assembly's other environments.
    """

    name: str
    account: str | None
    region: str
    protect: bool
    stacks: tuple[str, ...]
    bootstrap_version: int
    builds: tuple[str, ...]
    models: tuple[ModelPlan, ...]
    endpoints: tuple[EndpointPlan, ...]
    others: tuple[str, ...] = ()

    def owns(self, stack: str) -> bool:
        """Whether a stack's name is one that this environment has, or may have had under other settings."""
        if stack in self.stacks:
            return True
        longer = [other for other in self.others if other.startswith(f"{self.name}-")]
        return stack.startswith(f"semif-{self.name}-") and not any(
            stack.startswith(f"semif-{other}-") for other in longer
        )


def read_plan(assembly: Path, env: str) -> EnvironmentPlan:
    """Read environment `env` of the assembly in a folder. Raises UsageError, NotReadableError."""
    document = _document(assembly / FILE)
    if document.get("version") != VERSION:
        raise NotReadableError(
            "assembly_not_readable",
            f"{assembly / FILE}: version {document.get('version')!r}, not {VERSION}",
            next_step=AGAIN,
        )
    environments = document.get("environments", {})
    if env not in environments:
        known = ", ".join(environments) or "none"
        raise UsageError(
            "unknown_environment",
            f"{assembly / FILE} has no environment {env!r}; it has {known}",
            next_step="name one of them, or add it to cdk.json",
        )
    try:
        return parse_plan(env, environments[env], others=tuple(name for name in environments if name != env))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotReadableError(
            "assembly_not_readable",
            f"{assembly / FILE}: environment {env}: {type(error).__name__}: {error}",
            next_step=AGAIN,
        ) from error


def parse_plan(env: str, document: Mapping[str, Any], *, others: tuple[str, ...] = ()) -> EnvironmentPlan:
    """Read one environment of semif.json. Raises KeyError, TypeError, ValueError, AttributeError."""
    endpoints = document["endpoints"]
    models = [document["model"], *(one.get("last_resort_model") for one in endpoints.values())]
    return EnvironmentPlan(
        name=env,
        account=document["account"],
        region=str(document["region"]),
        protect=bool(document["protect"]),
        stacks=tuple(document["stacks"]),
        bootstrap_version=int(document["bootstrap_version"]),
        builds=tuple(document["builds"]),
        models=tuple(dict.fromkeys(_model(one) for one in models if one)),
        endpoints=tuple(_endpoint(key, one) for key, one in endpoints.items()),
        others=others,
    )


def read_templates(assembly: Path) -> dict[str, Template]:
    """Every stack's template by the stack's name. Raises NotReadableError."""
    templates: dict[str, Template] = {}
    for artifact_id, artifact in _document(assembly / "manifest.json").get("artifacts", {}).items():
        properties = artifact.get("properties", {})
        if artifact.get("type") == "cdk:cloud-assembly":
            templates |= read_templates(assembly / properties["directoryName"])
        elif artifact.get("type") == "aws:cloudformation:stack":
            name = properties.get("stackName", artifact_id)
            templates[name] = _document(assembly / properties["templateFile"])
    return templates


def fleet_of(template: Template) -> str:
    """All of a template that an endpoint's instances depend on, as text that is equal when that is."""
    kept = {}
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in {POOL_TYPE, BUILD_TYPE, MODEL_TYPE}:
            properties = resource.get("Properties", {})
            kept[logical_id] = {
                key: value
                for key, value in properties.items()
                if key not in _NO_FLEET and not key.startswith("RollbackAlarm")
            }
    return json.dumps(kept, sort_keys=True)


def compute_types(templates: Mapping[str, Template]) -> dict[str, str]:
    """The size of the machine of each build project, such as BUILD_GENERAL1_SMALL."""
    resources = [
        resource.get("Properties", {})
        for template in templates.values()
        for resource in template.get("Resources", {}).values()
        if resource.get("Type") == PROJECT_TYPE
    ]
    return {
        properties["Name"]: properties["Environment"]["ComputeType"]
        for properties in resources
        if isinstance(properties.get("Name"), str)
    }


def _model(document: Mapping[str, Any]) -> ModelPlan:
    address = document["uri" if document["kind"] == "s3" else "url"]
    return ModelPlan(str(address), document.get("token_secret"))


def _endpoint(key: str, document: Mapping[str, Any]) -> EndpointPlan:
    return EndpointPlan(
        key=key,
        name=str(document["name"]),
        stack=str(document["stack"]),
        instance_count=int(document["instance_count"]),
        update=str(document["update"]),
        rounds=tuple(tuple(types) for types in document["rounds"]),
        last_resort=tuple(document["last_resort"]),
        last_resort_count=int(document.get("last_resort_instance_count") or document["instance_count"]),
        left_out=dict(document["left_out"]),
        worst_case_s=int(document["worst_case_s"]),
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(
            "no_assembly",
            f"{path}: {error.strerror}",
            next_step="leave --assembly out, or name the folder that `cdk synth --output` wrote",
        ) from error
    except ValueError as error:
        raise NotReadableError("assembly_not_readable", f"{path}: {error}", next_step=AGAIN) from error
    if not isinstance(found, dict):
        raise NotReadableError("assembly_not_readable", f"{path} is no JSON object", next_step=AGAIN)
    return found
