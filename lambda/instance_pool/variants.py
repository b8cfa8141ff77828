"""Bodies of SageMaker's calls: the variant of a configuration, and how an update rolls out. Pure."""

from collections.abc import Sequence
from typing import Any

from instance_pool.pool import Pool, UpdateMode


def production_variant(pool: Pool, index: int, types: Sequence[str]) -> dict[str, Any]:
    """The one variant of a configuration for `types` of the round at `index`, preferred first."""
    one = pool.rounds[index]
    variant: dict[str, Any] = {
        "VariantName": pool.variant_name,
        "ModelName": one.model_name,
        "InitialInstanceCount": one.initial_instance_count,
        "ModelDataDownloadTimeoutInSeconds": pool.download_timeout_s,
        "ContainerStartupHealthCheckTimeoutInSeconds": pool.startup_timeout_s,
    }
    if pool.native:
        # Also for one type: without a pool SageMaker looks for capacity as long as it likes.
        variant["InstancePools"] = [
            {"InstanceType": name, "Priority": priority} for priority, name in enumerate(types, 1)
        ]
        variant["VariantInstanceProvisionTimeoutInSeconds"] = pool.provision_timeout_s
        variant["RoutingConfig"] = {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    else:
        variant["InstanceType"] = types[0]
    if one.inference_ami_version is not None:
        variant["InferenceAmiVersion"] = one.inference_ami_version
    return variant


def deployment_config(update: UpdateMode, alarms: Sequence[str]) -> dict[str, Any]:
    """DeploymentConfig of UpdateEndpoint; where updates recreate, a climb still goes by blue and green."""
    config: dict[str, Any]
    match update.type:
        case "rolling":
            batch = {"Type": "CAPACITY_PERCENT", "Value": update.batch_percent}
            config = {
                "RollingUpdatePolicy": {"MaximumBatchSize": batch, "WaitIntervalInSeconds": update.wait_s}
            }
        case "canary":
            canary = {"Type": "CAPACITY_PERCENT", "Value": update.canary_percent}
            config = _blue_green(update, {"Type": "CANARY", "CanarySize": canary})
        case "all-at-once" | "recreate":
            config = _blue_green(update, {"Type": "ALL_AT_ONCE"})
    if alarms:
        config["AutoRollbackConfiguration"] = {"Alarms": [{"AlarmName": name} for name in alarms]}
    return config


def _blue_green(update: UpdateMode, routing: dict[str, Any]) -> dict[str, Any]:
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {**routing, "WaitIntervalInSeconds": update.wait_s},
            "TerminationWaitInSeconds": update.termination_wait_s,
        }
    }
