"""semif.json in the cloud assembly: what the operator's commands need to know of the settings.

`semif doctor`, `deploy` and `destroy` read it instead of cdk.json: it is what this synth has understood.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aws_cdk import cx_api

from stacks.build_names import archive_project, image_project
from stacks.endpoint_settings import EndpointSettings
from stacks.model_settings import BuiltModel, HubSource, ModelSettings
from stacks.prices import Prices, load_prices
from stacks.settings import EnvironmentSettings

DOCUMENT: Final = "semif.json"
VERSION: Final = 1
HUB: Final = "https://huggingface.co"


def write_document(assembly: cx_api.CloudAssembly, environments: Sequence[EnvironmentSettings]) -> None:
    """Write the document into the assembly's folder."""
    versions = {
        nested.display_name: max(
            (int(stack.requires_bootstrap_stack_version or 0) for stack in nested.nested_assembly.stacks),
            default=0,
        )
        for nested in assembly.nested_assemblies
    }
    document = assembly_document(environments, versions, load_prices())
    path = Path(assembly.directory) / DOCUMENT
    path.write_text(f"{json.dumps(document, indent=2)}\n", encoding="utf-8")


def assembly_document(
    environments: Sequence[EnvironmentSettings], bootstrap_versions: Mapping[str, int], prices: Prices
) -> dict[str, object]:
    """The whole document; `bootstrap_versions` by environment, as its stacks ask for."""
    return {
        "version": VERSION,
        "environments": {
            environment.name: _environment(environment, bootstrap_versions[environment.name], prices)
            for environment in environments
        },
    }


def stack_names(environment: EnvironmentSettings) -> list[str]:
    """CloudFormation's names of an environment's stacks, in the order in which they are deployed."""
    builds = ["builds"] if environment.has_builds else []
    endpoints = [endpoint.key for endpoint in environment.endpoints]
    return [f"semif-{environment.name}-{key}" for key in ("artifacts", *builds, *endpoints)]


def _environment(
    environment: EnvironmentSettings, bootstrap_version: int, prices: Prices
) -> dict[str, object]:
    return {
        "account": environment.account,
        "region": environment.region,
        "protect": environment.protect,
        "stacks": stack_names(environment),
        "bootstrap_version": bootstrap_version,
        "tags": dict(environment.tags),
        "builds": [
            *([archive_project(environment.name)] if environment.built_models else []),
            *(image_project(environment.name, flavour) for flavour in environment.build.images),
        ],
        "model": _model(environment.model, environment.build.hub),
        "endpoints": {
            endpoint.key: _endpoint(environment, endpoint, prices) for endpoint in environment.endpoints
        },
    }


def _model(model: ModelSettings, hub: str | None) -> dict[str, object]:
    if not isinstance(model, BuiltModel):
        return {"kind": "s3", "uri": model.s3_uri}
    if isinstance(model.source, HubSource):
        # A checkpoint has no file of the result's name, but always this one.
        file = model.file if model.quantize is None else "config.json"
        address = f"{model.source.repository}/resolve/{model.source.revision}/{file}"
        return {
            "kind": "hub",
            "url": f"{(hub or HUB).rstrip('/')}/{address}",
            "hub": hub,
            "token_secret": model.token_secret,
        }
    if model.source.uri.startswith("s3://"):
        return {"kind": "s3", "uri": model.source.uri}
    return {"kind": "uri", "url": model.source.uri}


def _endpoint(
    environment: EnvironmentSettings, endpoint: EndpointSettings, prices: Prices
) -> dict[str, object]:
    last_resort = endpoint.last_resort
    tried = [name for item in endpoint.rounds for name in item.instance_types]
    return {
        "name": endpoint.name,
        "stack": f"semif-{environment.name}-{endpoint.key}",
        "engine": endpoint.container.engine.name,
        "instance_count": endpoint.pool.instance_count,
        "update": endpoint.update.type,
        "strategy": endpoint.pool.strategy,
        "rounds": [list(item.instance_types) for item in endpoint.pool.rounds],
        "last_resort": [] if last_resort is None else list(last_resort.round.instance_types),
        "last_resort_instance_count": 0 if last_resort is None else last_resort.instance_count,
        "last_resort_model": None
        if last_resort is None or last_resort.container.model == environment.model
        else _model(last_resort.container.model, environment.build.hub),
        "left_out": dict(endpoint.left_out),
        "worst_case_s": endpoint.walk_times.worst_case_s,
        "hourly_usd": {name: prices.hourly_usd(environment.region, name) for name in tried},
    }
