"""One poll at a time against the SageMaker in memory: refusals, ownership, tags, and what a poll costs."""

import json
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from instance_pool.answers import InstancePoolError
from instance_pool.aws_call import ApiError
from instance_pool.properties import PropertyError, parse_pool
from instance_pool.sagemaker_api import SageMakerApi
from instance_pool.steps import Fail

NAME = "semif-dev-decisions"


def test_walks_past_capacity_and_quota(
    fake: ModuleType, resource: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    resource.sagemaker.faults = {
        "ml.g6e.xlarge": fake.Fault("capacity", 550),
        "ml.g6.2xlarge": fake.Fault("quota"),
        "ml.c6i.2xlarge": fake.Fault("ok", 241),
    }
    data = resource.until_complete()
    assert data["InstanceType"] == "ml.c6i.2xlarge"
    assert data["EndpointName"] == NAME
    assert data["EndpointArn"].endswith(f":endpoint/{NAME}")
    assert data["Attempts"] == (
        "ml.g6e.xlarge: no capacity after 9 m 15 s; ml.g6.2xlarge: no quota; "
        "ml.c6i.2xlarge: in service after 4 m 15 s"
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    steps = [line for line in lines if "step" in line]
    assert all(line["reason"] and line["endpoint"] == NAME for line in steps if line["step"] != "Record")
    assert [line["step"] for line in steps if line["step"] != "Wait"][-2:] == ["Record", "Done"]
    assert [line["Degraded"] for line in lines if "_aws" in line] == [0]


def test_tags_say_whose_it_is_and_what_happened(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 60)}
    resource.until_complete()
    pool = parse_pool(resource.properties)
    first = resource.sagemaker.tags[f"{fake.ARN}endpoint-config/{pool.round_name(0)}"]
    reason = first.pop("semif:reason")
    assert reason.startswith("Unable to provision requested ML compute capacity")
    assert first == {
        "team": "decisions",
        "semif:stack-id": resource.stack_id,
        "semif:endpoint": NAME,
        "semif:pool": "ml.g6e.xlarge",
        "semif:next": "ml.g6.2xlarge",
        "semif:position": "1/3",
        "semif:request-id": "request-1",
        "semif:started-at": "2026-01-01T00:00:00Z",
        "semif:ended-at": "2026-01-01T00:01:00Z",
        "semif:outcome": "capacity",
    }
    assert resource.sagemaker.tags[f"{fake.ARN}endpoint/{NAME}"] == {
        "team": "decisions",
        "semif:stack-id": resource.stack_id,
    }


def test_the_outcome_is_tagged_before_the_failed_endpoint_goes(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 60)}
    resource.until_complete()
    assert resource.changes() == [
        *("create_endpoint_config", "create_endpoint", "add_tags"),
        *("add_tags", "delete_endpoint"),
        *("create_endpoint_config", "create_endpoint", "add_tags"),
        "add_tags",
    ]


@pytest.mark.parametrize("interruption", ["throttle", "lost"])
def test_a_failing_call_decides_nothing(resource: Any, interruption: str) -> None:
    for calls_before in range(16):
        resource.sagemaker.interruptions[:] = [""] * calls_before + [interruption]
        assert resource.poll() == {"IsComplete": False}
    resource.sagemaker.interruptions.clear()
    resource.sagemaker.advance(600)
    assert resource.poll()["IsComplete"] is True


def test_no_connection_decides_nothing(resource: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://api.sagemaker")

    monkeypatch.setattr(resource.sagemaker, "describe_endpoint", refuse, raising=False)
    assert resource.poll() == {"IsComplete": False}


def test_every_failure_fits_cloudformations_answer(resource: Any) -> None:
    long = InstancePoolError(Fail("x" * 30, "\N{SNOWMAN}" * 1000, "y" * 100, "z" * 1000))
    assert len(str(long).encode()) <= 2000
    with pytest.raises(PropertyError, match=r"^invalid_property: Strategy is ") as caught:
        parse_pool(resource.properties | {"Strategy": "x" * 4000})
    assert len(str(caught.value).encode()) <= 1000


def test_a_wrong_parameter_is_no_hiccup() -> None:
    api = SageMakerApi(boto3.client("sagemaker", region_name="us-east-1"))
    with pytest.raises(ApiError, match="ParamValidationError") as caught:
        api.delete_endpoint(5)  # type: ignore[arg-type]
    assert caught.value.cause.value == "unclassified_failure"


def test_all_exhausted_lists_every_type(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {
        "ml.g6e.xlarge": fake.Fault("quota"),
        "ml.g6.2xlarge": fake.Fault("capacity", 30),
        "ml.c6i.2xlarge": fake.Fault("quota"),
    }
    with pytest.raises(InstancePoolError) as caught:
        resource.until_complete()
    message = str(caught.value)
    assert message.startswith("pool_exhausted: ")
    assert (
        "ml.g6e.xlarge: no quota (ResourceLimitExceeded: The account-level service limit ml.g6e.xlarge"
        in message
    )
    assert "ml.g6.2xlarge: no capacity after 30 s (Unable to provision" in message
    assert "ml.c6i.2xlarge: no quota" in message
    resource.until_complete("Delete")
    assert (resource.sagemaker.endpoints, resource.sagemaker.configurations, resource.sagemaker.tags) == (
        {},
        {},
        {},
    )


def test_another_failure_stops_at_once(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("health", 30)}
    with pytest.raises(
        InstancePoolError, match=r"^health_check_failed: ml\.g6e\.xlarge: The primary container"
    ):
        resource.until_complete()
    assert len(resource.sagemaker.configurations) == 1


def test_the_old_fleet_serves_until_the_new_one_does(fake: ModuleType, resource: Any) -> None:
    resource.until_complete()
    old = resource.sagemaker.endpoints[NAME]["configuration"]
    resource.request += 1
    for _ in range(3):
        resource.poll("Update", ModelName="Model-new")
        resource.sagemaker.advance(15)
        assert resource.sagemaker.endpoints[NAME]["configuration"] == old
        assert old in resource.sagemaker.configurations
    resource.until_complete("Update", ModelName="Model-new")
    assert resource.sagemaker.endpoints[NAME]["configuration"] != old
    assert old not in resource.sagemaker.configurations


def test_a_silent_rollback_is_a_failure_and_the_rollback_cleans_up(fake: ModuleType, resource: Any) -> None:
    first = resource.until_complete()
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("silent", 60)}
    with pytest.raises(InstancePoolError, match=r"^update_rolled_back: "):
        resource.until_complete("Update", ModelName="Model-new")
    assert resource.until_complete("Update") == first
    assert len(resource.sagemaker.configurations) == 1


def test_nothing_to_change_changes_nothing(resource: Any) -> None:
    first = resource.until_complete()
    resource.sagemaker.calls.clear()
    assert resource.until_complete("Update") == first
    assert resource.changes() == []


def test_another_stacks_endpoint_stays(fake: ModuleType, resource: Any) -> None:
    resource.until_complete()
    resource.sagemaker.tags[f"{fake.ARN}endpoint/{NAME}"]["semif:stack-id"] = "another stack"
    with pytest.raises(InstancePoolError, match=rf"^endpoint_not_ours: The endpoint {NAME} "):
        resource.poll("Update", ModelName="Model-new")
    assert resource.until_complete("Delete") == {}
    assert NAME in resource.sagemaker.endpoints


def test_another_stacks_configuration_is_named(fake: ModuleType, resource: Any) -> None:
    name = parse_pool(resource.properties).round_name(0)
    resource.sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[{"VariantName": "v", "InstanceType": "ml.m5.large"}],
        Tags=[],
    )
    with pytest.raises(InstancePoolError, match=rf"^configuration_not_ours: .*{name}"):
        resource.poll()


def test_a_deletion_repeats_and_waits(resource: Any) -> None:
    resource.poll()
    assert resource.poll("Delete") == {"IsComplete": False}
    assert NAME in resource.sagemaker.endpoints
    assert resource.until_complete("Delete") == {}
    assert resource.poll("Delete") == {"IsComplete": True, "Data": {}}
    assert (resource.sagemaker.endpoints, resource.sagemaker.configurations) == ({}, {})


@pytest.mark.parametrize("request_type", ["Create", "Update", "Delete"])
def test_while_sagemaker_works_a_poll_is_one_call(resource: Any, request_type: str) -> None:
    resource.poll()
    resource.sagemaker.calls.clear()
    assert resource.poll(request_type) == {"IsComplete": False}
    assert resource.sagemaker.calls == ["describe_endpoint"]
