"""cdk.json context → frozen settings. The only reader of context and of environment variables."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from constructs import Node

from stacks.build_settings import BuildSettings, read_build
from stacks.dlc import Flavour
from stacks.images import ImageSettings, read_image
from stacks.instance_types import flavour_of
from stacks.mapping_reader import MappingReader, SettingsError, matching
from stacks.model_settings import ModelSettings, read_model

CONTEXT_KEY: Final = "environments"
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Not CDK_DEFAULT_REGION: the CDK CLI sets it to us-east-1 where no region is configured at all."""
MAX_ENDPOINT_NAME_LENGTH: Final = 63
CUDA_13_AMI: Final = "al2023-ami-sagemaker-inference-gpu-4-1"
"""The host AMI whose driver runs the CUDA image; the default AMIs have older drivers."""

_ENVIRONMENT_KEYS: Final = ("name", "account", "region", "tags", "model", "build", "endpoints")
_ENDPOINT_KEY: Final = (
    r"[a-z][a-z0-9-]{0,15}",
    "named in a lower-case letter, then up to 15 of a-z, 0-9 and -",
)
RESERVED_KEYS: Final = ("artifacts", "builds", "observability", "standard")
"""Names of other stacks of an environment."""
_ENDPOINT_KEYS: Final = (
    "name",
    "image",
    "pool",
    "instance_count",
    "gpu_layers",
    "inference_ami_version",
    "download_timeout_s",
    "startup_timeout_s",
    "max_tokens",
    "max_request_tokens",
    "max_shared_decisions",
    "max_body_bytes",
    "threads",
)
_REGION: Final = (r"[a-z]{2}(-[a-z]+)+-[0-9]", "a region such as eu-central-1")
# SageMaker allows capitals here, but its ARNs are in lower case and IAM compares ARNs by case.
_ENDPOINT_NAME: Final = (
    rf"[a-z0-9](-*[a-z0-9]){{0,{MAX_ENDPOINT_NAME_LENGTH - 1}}}",
    f"1 to {MAX_ENDPOINT_NAME_LENGTH} lower-case letters, digits and inner hyphens",
)
_TAG_TEXT: Final = r"[\w .:/=+\-@]"


@dataclass(frozen=True)
class SemIfEndpointSettings:
    """A decision endpoint. `key` names its stack.

    `image` is somebody else's; where it is None, `flavour` says which image of this project it runs.
    """

    key: str
    name: str
    image: ImageSettings | None
    flavour: Flavour | None
    pool: tuple[str, ...]
    instance_count: int
    gpu_layers: int
    inference_ami_version: str | None
    download_timeout_s: int
    startup_timeout_s: int
    max_tokens: int
    max_request_tokens: int
    max_shared_decisions: int
    max_body_bytes: int
    threads: int | None


@dataclass(frozen=True)
class EnvironmentSettings:
    """One environment. `account` None means that of the credentials that deploy."""

    name: str
    account: str | None
    region: str
    tags: Mapping[str, str]
    model: ModelSettings
    build: BuildSettings
    endpoints: tuple[SemIfEndpointSettings, ...]


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
    endpoints = _endpoints(reader, name, region)
    flavours = {endpoint.flavour for endpoint in endpoints if endpoint.flavour is not None}
    return EnvironmentSettings(
        name=name,
        account=reader.optional_text("account", r"[0-9]{12}", "an account id of 12 digits"),
        region=region,
        tags=_tags(reader),
        model=read_model(reader),
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
    value = reader.value["tags"]
    if not isinstance(value, Mapping) or len(value) > 30:
        raise SettingsError(reader.at("tags"), "must be an object of at most 30 tags")
    for key, text in value.items():
        path = f"{reader.at('tags')}.{key}"
        matching(
            key,
            path,
            rf"(?!aws:|semif:){_TAG_TEXT}{{1,128}}",
            "named in 1 to 128 characters, not aws:… or semif:…",
        )
        matching(
            text, path, rf"{_TAG_TEXT}{{0,256}}", "a text of at most 256 letters, digits, spaces and _.:/=+-@"
        )
    return dict(value)


def _endpoints(
    environment: MappingReader, environment_name: str, region: str
) -> tuple[SemIfEndpointSettings, ...]:
    reader = environment.mapping("endpoints", None)
    if not reader.value:
        raise SettingsError(reader.path, "must have at least one endpoint, such as decisions")
    for key in reader.value:
        matching(key, reader.at(key), *_ENDPOINT_KEY)
        if key in RESERVED_KEYS:
            raise SettingsError(reader.at(key), "is the name of another stack; choose another one")
    endpoints = tuple(
        _semif_endpoint(
            reader.mapping(key, _ENDPOINT_KEYS),
            key,
            default_name=f"semif-{environment_name}-{key}",
            region=region,
        )
        for key in reader.value
    )
    for i, endpoint in enumerate(endpoints):
        if endpoint.name in {earlier.name for earlier in endpoints[:i]}:
            raise SettingsError(
                f"{reader.at(endpoint.key)}.name", f"{endpoint.name} is another endpoint's name"
            )
    return endpoints


def _semif_endpoint(
    reader: MappingReader, key: str, *, default_name: str, region: str
) -> SemIfEndpointSettings:
    image = read_image(reader, "image", region)
    pool = reader.texts("pool", r"ml\.[a-z0-9-]+\.[a-z0-9]+", "an instance type such as ml.c6i.2xlarge")
    flavour = None if image else flavour_of(pool, reader.at("pool"))
    max_tokens = reader.whole("max_tokens", 4096, 64, 1_048_576)
    max_request_tokens = reader.whole("max_request_tokens", 8192, 64, 16_777_216)
    if max_request_tokens < max_tokens:
        raise SettingsError(
            reader.at("max_request_tokens"),
            f"must be at least max_tokens ({max_tokens}), not {max_request_tokens}",
        )
    return SemIfEndpointSettings(
        key=key,
        name=reader.optional_text("name", *_ENDPOINT_NAME) or default_name,
        image=image,
        flavour=flavour,
        pool=pool,
        instance_count=reader.whole("instance_count", 1, 1, 100),
        gpu_layers=reader.whole("gpu_layers", -1 if flavour == "cuda" else 0, -1, 10_000),
        inference_ami_version=reader.optional_text(
            "inference_ami_version",
            r"[a-z0-9][a-z0-9-]{0,127}",
            f"an AMI version such as {CUDA_13_AMI}",
        )
        or (CUDA_13_AMI if flavour == "cuda" else None),
        download_timeout_s=reader.whole("download_timeout_s", 900, 60, 3600),
        startup_timeout_s=reader.whole("startup_timeout_s", 600, 60, 3600),
        max_tokens=max_tokens,
        max_request_tokens=max_request_tokens,
        max_shared_decisions=reader.whole("max_shared_decisions", 64, 1, 4096),
        max_body_bytes=reader.whole("max_body_bytes", 262_144, 1024, 26_214_400),
        threads=reader.optional_whole("threads", 1, 512),
    )
