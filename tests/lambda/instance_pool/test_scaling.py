"""A variant's registration: its record in tags, and taking it away and back at Application Auto Scaling."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from instance_pool.aws_call import ApiError
from instance_pool.scaling import (
    DIMENSION,
    RECORD,
    Scaling,
    ScalingRecordError,
    must_deregister,
    read_record,
    record_keys,
    record_tags,
    resource_id,
    scaling,
)
from instance_pool.scaling_api import ScalingApi

NAME, VARIANT = "semif-dev-decisions", "AllTraffic"
WHERE = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": f"endpoint/{NAME}/variant/{VARIANT}",
    "ScalableDimension": DIMENSION,
}
TRACKING = {
    "TargetValue": 70.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
    "ScaleInCooldown": 300,
}
texts = st.text(max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)


@given(target=objects, policies=st.lists(objects, max_size=4), actions=st.lists(objects, max_size=3))
def test_a_record_comes_back_whole_from_tags(
    target: dict[str, Any], policies: list[dict[str, Any]], actions: list[dict[str, Any]]
) -> None:
    recorded = Scaling(target, tuple(policies), tuple(actions))

    tags = record_tags(recorded)

    assert read_record(tags | {"team": "decisions"}) == recorded
    assert all(re.fullmatch(r"[\w.:/=+\-@]{1,256}", value, re.ASCII) for value in tags.values())
    assert sorted(record_keys(tags | {"team": "decisions"})) == sorted(tags)


def test_no_record() -> None:
    assert read_record({"semif:outcome": "capacity"}) is None


@pytest.mark.parametrize("damage", [{RECORD: "x"}, {RECORD: "1.0000000000"}, {f"{RECORD}-1": "AAAA"}])
def test_a_damaged_record_is_refused(damage: dict[str, str]) -> None:
    tags = record_tags(Scaling({"MinCapacity": 1, "MaxCapacity": 2})) | damage

    with pytest.raises(ScalingRecordError, match=RECORD):
        read_record(tags)
    assert set(record_keys(tags)) == set(tags)


def test_descriptions_lose_what_names_and_dates_them() -> None:
    start = datetime(2026, 12, 2, 6, tzinfo=UTC)
    found = scaling(
        {"ResourceId": "r", "MinCapacity": 1, "MaxCapacity": 4, "CreationTime": start, "RoleARN": "arn"},
        [{"PolicyName": "p", "PolicyARN": "arn", "PolicyType": "TargetTrackingScaling", "Alarms": []}],
        [{"ScheduledActionName": "a", "Schedule": "at(…)", "StartTime": start, "CreationTime": start}],
    )

    assert found == Scaling(
        {"MinCapacity": 1, "MaxCapacity": 4},
        ({"PolicyName": "p", "PolicyType": "TargetTrackingScaling"},),
        ({"ScheduledActionName": "a", "Schedule": "at(…)", "StartTime": "2026-12-02T06:00:00+00:00"},),
    )


def test_only_other_types_need_the_registration_gone() -> None:
    assert not must_deregister(["a", "b"], ["b", "a"])
    assert must_deregister(["a", "b"], ["a"])
    assert must_deregister(None, ["a"])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.client("application-autoscaling", region_name="eu-central-1")


@pytest.fixture
def registered(client: Any) -> Any:
    client.register_scalable_target(**WHERE, MinCapacity=1, MaxCapacity=4)
    for name in ("by-load", "by-time"):
        client.put_scaling_policy(
            **WHERE,
            PolicyName=name,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=TRACKING,
        )
    client.put_scheduled_action(
        **WHERE,
        ScheduledActionName="morning",
        Schedule="cron(0 6 * * ? *)",
        Timezone="Europe/Berlin",
        StartTime=datetime(2026, 12, 2, tzinfo=UTC),
        ScalableTargetAction={"MinCapacity": 2, "MaxCapacity": 4},
    )
    return client


def silent(_fields: Mapping[str, object]) -> None:
    raise AssertionError("nothing had to be logged")


def test_a_variant_that_is_not_scaled(client: Any) -> None:
    api = ScalingApi(client)

    assert api.read(NAME, VARIANT, silent) is None
    api.deregister(NAME, VARIANT)


def test_a_registration_survives_deregistration_in_tags(registered: Any) -> None:
    api = ScalingApi(registered)
    before = api.read(NAME, VARIANT, silent)
    assert before is not None
    tags = record_tags(before)

    api.deregister(NAME, VARIANT)
    assert api.read(NAME, VARIANT, silent) is None
    recorded = read_record(tags)
    assert recorded is not None
    api.restore(NAME, VARIANT, recorded, silent)

    after = api.read(NAME, VARIANT, silent)
    assert after is not None
    assert after.target == before.target
    assert {p["PolicyName"]: p for p in after.policies} == {p["PolicyName"]: p for p in before.policies}
    assert [a["Timezone"] for a in after.scheduled_actions] == ["Europe/Berlin"]


@pytest.mark.parametrize("calls_before_the_crash", range(5))
def test_a_restoration_cut_off_anywhere_is_finished_by_the_next(
    registered: Any, monkeypatch: pytest.MonkeyPatch, calls_before_the_crash: int
) -> None:
    api = ScalingApi(registered)
    recorded = api.read(NAME, VARIANT, silent)
    assert recorded is not None
    api.deregister(NAME, VARIANT)
    with monkeypatch.context() as patched:
        writes = _dying_after(calls_before_the_crash, registered, patched)
        try:
            api.restore(NAME, VARIANT, recorded, silent)
        except ConnectionAbortedError:
            assert writes

    api.restore(NAME, VARIANT, recorded, silent)

    after = api.read(NAME, VARIANT, silent)
    assert after is not None
    assert {p["PolicyName"] for p in after.policies} == {"by-load", "by-time"}
    assert [a["ScheduledActionName"] for a in after.scheduled_actions] == ["morning"]


def test_what_somebody_registered_since_stays(registered: Any) -> None:
    api = ScalingApi(registered)
    recorded = api.read(NAME, VARIANT, silent)
    assert recorded is not None
    api.deregister(NAME, VARIANT)
    registered.register_scalable_target(**WHERE, MinCapacity=3, MaxCapacity=9)
    registered.put_scaling_policy(
        **WHERE,
        PolicyName="by-load",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=TRACKING | {"TargetValue": 50.0},
    )

    api.restore(NAME, VARIANT, recorded, silent)

    after = api.read(NAME, VARIANT, silent)
    assert after is not None
    assert (after.target["MinCapacity"], after.target["MaxCapacity"]) == (3, 9)
    values = {p["PolicyName"]: p["TargetTrackingScalingPolicyConfiguration"] for p in after.policies}
    assert {name: found["TargetValue"] for name, found in values.items()} == {"by-load": 50, "by-time": 70}


def test_a_denied_description_is_logged_and_goes_on() -> None:
    log: list[Mapping[str, object]] = []
    client = boto3.client(
        "application-autoscaling",
        region_name="eu-central-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    with Stubber(client) as stub:
        stub.add_client_error("describe_scalable_targets", "AccessDeniedException", "no")
        assert ScalingApi(client).read(NAME, VARIANT, log.append) is None
        stub.add_client_error("describe_scalable_targets", "ThrottlingException", "slow down")
        with pytest.raises(ApiError):
            ScalingApi(client).read(NAME, VARIANT, log.append)
    assert [fields["step"] for fields in log] == ["ScalingNotRead"]


@pytest.mark.parametrize(("status", "under_way"), [("InProgress", True), ("Successful", False)])
def test_scaling_under_way(status: str, under_way: bool) -> None:
    client = boto3.client(
        "application-autoscaling",
        region_name="eu-central-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    activity = {
        "ActivityId": "a",
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource_id(NAME, VARIANT),
        "ScalableDimension": DIMENSION,
        "Description": "Setting desired instance count to 2.",
        "Cause": "monitor alarm",
        "StartTime": datetime(2026, 12, 1, tzinfo=UTC),
        "StatusCode": status,
    }
    with Stubber(client) as stub:
        stub.add_response(
            "describe_scaling_activities", {"ScalingActivities": [activity]}, WHERE | {"MaxResults": 10}
        )
        assert ScalingApi(client).activity_under_way(NAME, VARIANT) is under_way


def _dying_after(count: int, client: Any, patched: pytest.MonkeyPatch) -> list[str]:
    """Let `count` writing calls through; the next one dies."""
    made: list[str] = []

    def dying(name: str, real: Any) -> Any:
        def call(**parameters: Any) -> Any:
            made.append(name)
            if len(made) > count:
                raise ConnectionAbortedError
            return real(**parameters)

        return call

    for name in ("register_scalable_target", "put_scaling_policy", "put_scheduled_action"):
        patched.setattr(client, name, dying(name, getattr(client, name)))
    return made
