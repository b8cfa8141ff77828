"""What a finished operation answers: the resource's attributes, and whether it is degraded. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from instance_pool.observation import Observation
from instance_pool.pool import Pool
from instance_pool.steps import Done
from instance_pool.walk import serving_types

NAMESPACE: Final = "SemIf"
METRIC: Final = "Degraded"


def attributes(pool: Pool, observation: Observation, step: Done) -> Mapping[str, str]:
    """Data of the custom resource."""
    if observation.endpoint is None:
        raise AssertionError("bug: a walk is done only where an endpoint serves")
    types = ", ".join(serving_types(observation, pool, observation.endpoint, step.index))
    degraded = f"DEGRADED: the last resort serves on {types}, as no type of the pool could be had."
    return {
        "EndpointName": pool.endpoint_name,
        "EndpointArn": observation.endpoint.arn,
        "InstanceType": types,
        "Round": f"{step.index + 1} of {len(pool.rounds)}",
        "Attempts": step.attempts,
        "Degraded": degraded if pool.rounds[step.index].last_resort else "no",
    }


def degraded_metric(pool: Pool, step: Done, now: datetime) -> Mapping[str, object]:
    """A log line in CloudWatch's embedded metric format: 1 while the last resort serves."""
    return {
        "_aws": {
            "Timestamp": int(now.timestamp() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["EndpointName"]],
                    "Metrics": [{"Name": METRIC, "Unit": "Count"}],
                }
            ],
        },
        "EndpointName": pool.endpoint_name,
        METRIC: int(pool.rounds[step.index].last_resort),
    }
