"""Updates: how they roll out, how they are rolled back, and what stays as it was."""

import importlib
from types import ModuleType
from typing import Any

import pytest

from instance_pool.answers import InstancePoolError

conftest = importlib.import_module("tests.lambda.instance_pool.conftest")
NAME, NATIVE = conftest.NAME, conftest.NATIVE


def blue_green(wait_s: int, termination_s: int, **routing: Any) -> dict[str, Any]:
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {**routing, "WaitIntervalInSeconds": wait_s},
            "TerminationWaitInSeconds": termination_s,
        }
    }


@pytest.mark.parametrize(
    ("update", "config"),
    [
        ({"Type": "all-at-once"}, blue_green(0, 0, Type="ALL_AT_ONCE")),
        (
            {
                "Type": "canary",
                "CanaryPercent": "20",
                "WaitIntervalInSeconds": "120",
                "TerminationWaitInSeconds": "60",
            },
            blue_green(120, 60, Type="CANARY", CanarySize={"Type": "CAPACITY_PERCENT", "Value": 20}),
        ),
        (
            {"Type": "rolling", "BatchPercent": "30", "WaitIntervalInSeconds": "60"},
            {
                "RollingUpdatePolicy": {
                    "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 30},
                    "WaitIntervalInSeconds": 60,
                }
            },
        ),
    ],
)
def test_how_an_update_rolls_out(resource: Any, update: dict[str, str], config: dict[str, Any]) -> None:
    resource.until_complete()
    resource.until_complete(
        "Update", ModelName="Model-new", Update=update, RollbackAlarm1="errors", RollbackAlarm2="mine"
    )
    alarms = {"Alarms": [{"AlarmName": "errors"}, {"AlarmName": "mine"}]}
    assert resource.sagemaker.endpoints[NAME]["deployment"] == {
        **config,
        "AutoRollbackConfiguration": alarms,
    }


def test_to_recreate_is_to_delete_once_the_new_configuration_stands(resource: Any) -> None:
    resource.until_complete()
    resource.sagemaker.calls.clear()
    resource.until_complete("Update", ModelName="Model-new", Update={"Type": "recreate"})
    assert resource.changes() == [
        *("create_endpoint_config", "delete_endpoint", "create_endpoint", "add_tags", "add_tags"),
        "delete_endpoint_config",
    ]


def test_recreating_needs_no_second_fleets_quota(resource: Any) -> None:
    types = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge")
    resource.sagemaker.quotas = {types[0]: 1, types[1]: 0, types[2]: 0}
    resource.until_complete()
    with pytest.raises(InstancePoolError, match=r"^no_quota: .*beside the fleet that serves"):
        resource.until_complete("Update", ModelName="Model-new")
    data = resource.until_complete("Update", ModelName="Model-new", Update={"Type": "recreate"})
    assert data["InstanceType"] == "ml.g6e.xlarge"


def test_an_alarm_that_rolls_back_is_a_failure(fake: ModuleType, resource: Any) -> None:
    resource.until_complete()
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("alarm", 60)}
    with pytest.raises(InstancePoolError, match=r"^alarm_rolled_back: ml\.g6e\.xlarge: The deployment was"):
        resource.until_complete("Update", ModelName="Model-new")


@pytest.mark.parametrize("keeps", [False, True])
def test_two_rounds_without_capacity_are_two_whatever_reason_is_still_shown(
    fake: ModuleType, resource: Any, *, keeps: bool
) -> None:
    resource.until_complete()
    resource.sagemaker.keeps_old_reasons = keeps
    resource.sagemaker.faults = {
        "ml.g6e.xlarge": fake.Fault("capacity", 960),
        "ml.g6.2xlarge": fake.Fault("capacity", 960),
    }
    data = resource.until_complete("Update", ModelName="Model-new")
    assert [entry.split(" after ")[0] for entry in data["Attempts"].split("; ")] == [
        "ml.g6e.xlarge: no capacity",
        "ml.g6.2xlarge: no capacity",
        "ml.c6i.2xlarge: in service",
    ]


def test_the_reason_of_the_round_before_does_not_hide_a_silent_rollback(
    fake: ModuleType, resource: Any
) -> None:
    resource.until_complete()
    resource.sagemaker.keeps_old_reasons = True
    resource.sagemaker.faults = {
        "ml.g6e.xlarge": fake.Fault("capacity", 960),
        "ml.g6.2xlarge": fake.Fault("silent-stale", 300),
    }
    with pytest.raises(InstancePoolError, match=r"^update_rolled_back: ml\.g6\.2xlarge: ") as caught:
        resource.until_complete("Update", ModelName="Model-new")
    assert resource.sagemaker.endpoints[NAME]["reason"] == fake.CAPACITY
    assert "ml.g6e.xlarge: no capacity after 16 m" in str(caught.value)


def test_tags_change_without_a_new_fleet(fake: ModuleType, resource: Any) -> None:
    first = resource.until_complete(Tags={"team": "decisions", "cost": "1", "stage": "dev"})
    tags = resource.sagemaker.tags[f"{fake.ARN}endpoint/{NAME}"]
    tags["by-hand"] = "stays"
    resource.sagemaker.calls.clear()
    assert resource.until_complete("Update", Tags={"team": "others", "cost": "1"}) == first
    assert resource.changes() == ["add_tags", "delete_tags"]
    assert tags == {
        "team": "others",
        "cost": "1",
        "by-hand": "stays",
        "semif:stack-id": resource.stack_id,
    }


TARGET = {"MinCapacity": 1, "MaxCapacity": 4}


@pytest.mark.parametrize("mode", ["ok", "health", "capacity"])
def test_scaling_is_back_whatever_became_of_the_update(fake: ModuleType, resource: Any, mode: str) -> None:
    resource.until_complete()
    resource.sagemaker.scaled[NAME] = {"target": TARGET, "policies": {}}
    resource.sagemaker.faults = {"ml.g5.2xlarge": fake.Fault(mode, 60)}
    change = {"Round1": {"Type1": "ml.g5.2xlarge"}}
    if mode == "health":
        with pytest.raises(InstancePoolError, match=r"^health_check_failed: "):
            resource.until_complete("Update", **change)
    else:
        resource.until_complete("Update", **change)
    assert resource.sagemaker.scaled == {NAME: {"target": TARGET, "policies": {}}}
    left = [key for tags in resource.sagemaker.tags.values() for key in tags if "scaling" in key]
    assert left == []


def test_scaling_stays_registered_where_the_types_stay(resource: Any) -> None:
    resource.until_complete()
    resource.sagemaker.scaled[NAME] = {"target": TARGET, "policies": {}}
    resource.sagemaker.calls.clear()
    resource.until_complete("Update", ModelName="Model-new")
    assert "deregister_scalable_target" not in resource.sagemaker.calls


def test_a_climb_brings_the_preferred_type_back(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 60)}
    resource.until_complete(**NATIVE)
    resource.sagemaker.faults.clear()
    data = resource.until_complete("Climb", **NATIVE)
    assert data["InstanceType"] == "ml.g6e.xlarge"
    assert len(resource.sagemaker.configurations) == 1
    again = resource.until_complete("Update", **NATIVE)
    assert again["InstanceType"] == "ml.g6e.xlarge"


def test_a_climb_that_fails_leaves_what_serves(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 60)}
    resource.until_complete(**NATIVE)
    before = resource.sagemaker.endpoints[NAME]["configuration"]
    with pytest.raises(InstancePoolError, match=r"^no_capacity: "):
        resource.until_complete("Climb", **NATIVE)
    endpoint = resource.sagemaker.endpoints[NAME]
    assert (endpoint["configuration"], endpoint["status"]) == (before, "InService")
