"""Properties of Custom::InstancePoolEndpoint, each part of the pool on its own line for readable diffs."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from stacks.endpoint_settings import EndpointSettings
from stacks.mapping_reader import SettingsError
from stacks.pool_settings import Round
from stacks.update_settings import UpdateSettings

VARIANT_NAME: Final = "AllTraffic"
MAX_POOL_BYTES: Final = 4000
"""An SSM parameter holds 4,096 bytes, and references in the pool become longer than they are here."""


def pool_properties(
    settings: EndpointSettings,
    *,
    model_name: str,
    last_resort_model_name: str | None,
    own_alarms: Sequence[str],
    tags: Mapping[str, str],
) -> dict[str, object]:
    """All properties; every scalar is a string, as CloudFormation would make it."""
    pool = settings.pool
    properties: dict[str, object] = {
        "EndpointName": settings.name,
        "VariantName": VARIANT_NAME,
        "ModelName": model_name,
        "InitialInstanceCount": str(pool.instance_count),
        "ModelDataDownloadTimeoutInSeconds": str(pool.download_timeout_s),
        "ContainerStartupHealthCheckTimeoutInSeconds": str(pool.startup_timeout_s),
        "Strategy": pool.strategy,
    }
    if pool.strategy == "native":
        properties["VariantInstanceProvisionTimeoutInSeconds"] = str(pool.provision_timeout_s)
    for number, item in enumerate(pool.rounds, start=1):
        properties[f"Round{number}"] = _round(item)
    if settings.last_resort is not None and last_resort_model_name is not None:
        properties["LastResort"] = _round(settings.last_resort.round) | {
            "ModelName": last_resort_model_name,
            "InitialInstanceCount": str(settings.last_resort.instance_count),
        }
    if settings.left_out:
        properties["LeftOut"] = dict(settings.left_out)
    properties["Update"] = _update(settings.update)
    for number, alarm in enumerate([*own_alarms, *settings.rollback_alarms], start=1):
        properties[f"RollbackAlarm{number}"] = alarm
    properties["Tags"] = dict(tags)
    return properties


def check_size(properties: Mapping[str, object], path: str) -> None:
    """Raise SettingsError where an SSM parameter could not hold the pool."""
    size = len(json.dumps(properties).encode())
    if size > MAX_POOL_BYTES:
        raise SettingsError(
            path,
            f"the pool with its tags takes {size} bytes as JSON, more than the {MAX_POOL_BYTES} that its SSM"
            " parameter can hold: fewer types, alarms or tags, or shorter ones",
        )


def _round(item: Round) -> dict[str, str]:
    properties = {f"Type{number}": name for number, name in enumerate(item.instance_types, start=1)}
    if item.inference_ami_version is not None:
        properties["InferenceAmiVersion"] = item.inference_ami_version
    if item.kms_key is not None:
        properties["KmsKeyId"] = item.kms_key
    return properties


def _update(update: UpdateSettings) -> dict[str, str]:
    parts = {
        "CanaryPercent": update.canary_percent,
        "BatchPercent": update.batch_percent,
        "WaitIntervalInSeconds": update.wait_s,
        "TerminationWaitInSeconds": update.termination_wait_s,
    }
    return {"Type": update.type} | {name: str(value) for name, value in parts.items() if value is not None}
