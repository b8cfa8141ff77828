"""DeploymentConfig as SageMaker reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localaws.sagemaker.deployments import DeploymentError, needed, read_deployment, retyped
from tests.localaws.sagemaker.test_lifecycle import SERVING, variant


def blue_green(kind: str, **more: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 60, **more}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 30}}


def size(value: int, kind: str = "INSTANCE_COUNT") -> dict[str, Any]:
    return {"Type": kind, "Value": value}


def rolling(batch: dict[str, Any]) -> dict[str, Any]:
    return {"RollingUpdatePolicy": {"MaximumBatchSize": batch, "WaitIntervalInSeconds": 10}}


@pytest.mark.parametrize(
    ("config", "waits", "surge"),
    [
        (None, (0,), 4),
        (blue_green("ALL_AT_ONCE"), (60, 30), 4),
        (blue_green("CANARY", CanarySize=size(1)), (60, 30), 4),
        (blue_green("LINEAR", LinearStepSize=size(25, "CAPACITY_PERCENT")), (60, 60, 60, 60, 30), 4),
        (rolling(size(2)), (10, 10, 0), 2),
        (rolling(size(5, "CAPACITY_PERCENT")), (10, 10, 10, 10, 0), 1),
    ],
)
def test_waits_and_surge(config: dict[str, Any] | None, waits: tuple[int, ...], surge: int) -> None:
    four = variant("a", "b", count=4)
    deployment = read_deployment(config, [four])
    assert deployment.waits_s(4) == waits
    assert needed([four], deployment) == {"a": surge, "b": surge}
    assert needed([four], None) == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (blue_green("CANARY"), "CanarySize is required with CANARY"),
        (blue_green("ALL_AT_ONCE", CanarySize=size(1)), "CanarySize does not go with ALL_AT_ONCE"),
        (blue_green("CANARY", CanarySize=size(3)), "CanarySize must be at most 50% of the 4 instances"),
        (blue_green("LINEAR", LinearStepSize=size(51, "CAPACITY_PERCENT")), "LinearStepSize must be at most"),
        (rolling(size(3)), "MaximumBatchSize must be at most 50%"),
        (blue_green("ALL_AT_ONCE") | rolling(size(1)), "BlueGreenUpdatePolicy or RollingUpdatePolicy"),
    ],
)
def test_what_is_refused(config: dict[str, Any], text: str) -> None:
    with pytest.raises(DeploymentError, match=text):
        read_deployment(config, [variant("a", count=4)])


def test_a_changed_or_removed_variant_is_found() -> None:
    pooled = replace(SERVING[0], fleet=(("a", 2), ("b", 0)), native_pool=True)
    assert retyped([pooled], [variant("b", "a", count=9)]) == []
    assert retyped([pooled], [variant("a")]) == ["AllTraffic"]
    assert retyped([pooled], [variant("a", "b", name="Other")]) == ["AllTraffic"]
