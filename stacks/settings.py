"""cdk.json context → frozen settings. The only reader of context and of environment variables."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from constructs import Node

from stacks.build_settings import BuildSettings, read_build
from stacks.endpoint_settings import EndpointSettings, read_endpoint
from stacks.mapping_reader import MappingReader, SettingsError, matching
from stacks.model_settings import BuiltModel, ModelSettings, read_model

CONTEXT_KEY: Final = "environments"
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Not CDK_DEFAULT_REGION: the CDK CLI sets it to us-east-1 where no region is configured at all."""
UNPROTECTED: Final = "dev"
"""The one environment that is not protected unless it says so."""

MAX_TAGS: Final = 25
"""Half of what SageMaker allows; the walk keeps its record in further tags."""

_ENVIRONMENT_KEYS: Final = ("name", "account", "region", "tags", "protect", "model", "build", "endpoints")
_ENDPOINT_KEY: Final = (
    r"[a-z][a-z0-9-]{0,15}",
    "named in a lower-case letter, then up to 15 of a-z, 0-9 and -",
)
RESERVED_KEYS: Final = ("artifacts", "builds", "observability")
"""Names of other stacks of an environment."""
_REGION: Final = (r"[a-z]{2}(-[a-z]+)+-[0-9]", "a region such as eu-central-1")
_TAG_TEXT: Final = r"[\w .:/=+\-@]"


@dataclass(frozen=True)
class EnvironmentSettings:
    """One environment. `account` None means that of the credentials that deploy.

    `protect`: CloudFormation refuses to delete its stacks.
    """

    name: str
    account: str | None
    region: str
    tags: Mapping[str, str]
    protect: bool
    model: ModelSettings
    build: BuildSettings
    endpoints: tuple[EndpointSettings, ...]

    @property
    def built_models(self) -> tuple[BuiltModel, ...]:
        """Models of all endpoints and last resorts whose archives builds make, each once."""
        containers = [container for endpoint in self.endpoints for container in endpoint.containers]
        return tuple(dict.fromkeys(c.built_model for c in containers if c.built_model is not None))

    @property
    def has_builds(self) -> bool:
        """Whether there is anything to build."""
        return bool(self.built_models or self.build.images)


def load_environments(node: Node) -> tuple[EnvironmentSettings, ...]:
    """Read the app's context and the process's environment. Raises SettingsError with the key's path."""
    return parse_environments(node.try_get_context(CONTEXT_KEY), os.environ)


def parse_environments(value: object, variables: Mapping[str, str]) -> tuple[EnvironmentSettings, ...]:
    """Read the list of environments, or a string that holds it as JSON: the CLI's `-c` gives only strings."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise SettingsError(CONTEXT_KEY, f"is a string but no JSON: {error}") from None
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise SettingsError(CONTEXT_KEY, "must be a list of at least one environment, in cdk.json's context")
    environments = tuple(
        _environment(MappingReader.of(item, f"{CONTEXT_KEY}[{i}]", _ENVIRONMENT_KEYS), variables)
        for i, item in enumerate(value)
    )
    for i, environment in enumerate(environments):
        if environment.name in {earlier.name for earlier in environments[:i]}:
            raise SettingsError(f"{CONTEXT_KEY}[{i}].name", f"{environment.name} is listed twice")
    return environments


def _environment(reader: MappingReader, variables: Mapping[str, str]) -> EnvironmentSettings:
    name = reader.text(
        "name", r"[a-z][a-z0-9-]{0,15}", "a lower-case letter, then up to 15 of a-z, 0-9 and -"
    )
    region = _region(reader, variables)
    model = read_model(reader, region)
    endpoints = _endpoints(reader, name, region, model)
    flavours = {c.built_flavour for e in endpoints for c in e.containers if c.built_flavour is not None}
    return EnvironmentSettings(
        name=name,
        account=reader.optional_text("account", r"[0-9]{12}", "an account id of 12 digits"),
        region=region,
        tags=_tags(reader),
        protect=reader.flag("protect", default=name != UNPROTECTED),
        model=model,
        build=read_build(reader, region=region, flavours=flavours),
        endpoints=endpoints,
    )


def _region(reader: MappingReader, variables: Mapping[str, str]) -> str:
    if reader.has("region"):
        return reader.text("region", *_REGION)
    for variable in REGION_VARIABLES:
        if variables.get(variable):
            return matching(variables[variable], f"{reader.at('region')} (from {variable})", *_REGION)
    raise SettingsError(
        reader.at("region"),
        f"is missing: set it, or set {REGION_VARIABLES[0]} (export AWS_REGION=eu-central-1)",
    )


def _tags(reader: MappingReader) -> Mapping[str, str]:
    if not reader.has("tags"):
        return {}
    tags = reader.mapping("tags", None)
    if len(tags.value) > MAX_TAGS:
        raise SettingsError(tags.path, f"must be an object of at most {MAX_TAGS} tags")
    allowed = rf"{_TAG_TEXT}{{0,256}}", "a text of at most 256 letters, digits, spaces and _.:/=+-@"
    for key in tags.value:
        matching(
            key,
            tags.at(key),
            rf"(?!aws:|semif:){_TAG_TEXT}{{1,128}}",
            "named in 1 to 128 characters, not aws:… or semif:…",
        )
    return {key: tags.text(key, *allowed) for key in tags.value}


def _endpoints(
    environment: MappingReader, environment_name: str, region: str, model: ModelSettings
) -> tuple[EndpointSettings, ...]:
    reader = environment.mapping("endpoints", None)
    if not reader.value:
        raise SettingsError(reader.path, "must have at least one endpoint, such as decisions")
    for key in reader.value:
        matching(key, reader.at(key), *_ENDPOINT_KEY)
        if key in RESERVED_KEYS:
            raise SettingsError(reader.at(key), "is the name of another stack; choose another one")
    endpoints = tuple(
        read_endpoint(reader, key, environment_name=environment_name, region=region, model=model)
        for key in reader.value
    )
    for i, endpoint in enumerate(endpoints):
        if endpoint.name in {earlier.name for earlier in endpoints[:i]}:
            raise SettingsError(f"{endpoint.path}.name", f"{endpoint.name} is another endpoint's name")
    _check_one_secret(endpoints)
    return endpoints


def _check_one_secret(endpoints: Sequence[EndpointSettings]) -> None:
    """One project makes all archives of an environment, with one token for the Hub."""
    secrets = {
        container.built_model.token_secret: endpoint.path
        for endpoint in endpoints
        for container in endpoint.containers
        if container.built_model is not None and container.built_model.token_secret is not None
    }
    if len(secrets) > 1:
        raise SettingsError(
            list(secrets.values())[-1],
            f"all models of an environment share one token_secret, not {len(secrets)}",
        )
