"""Rounds as SageMaker sees them: native pools, dropped types, the second try, the last resort, the budget."""

import importlib
import json
from types import ModuleType
from typing import Any

import pytest

from instance_pool.answers import InstancePoolError
from instance_pool.properties import parse_pool

conftest = importlib.import_module("tests.lambda.instance_pool.conftest")
NAME, NATIVE, PROPERTIES = conftest.NAME, conftest.NATIVE, conftest.PROPERTIES
ALL = "ml.g6e.xlarge, ml.g6.2xlarge, ml.g5.2xlarge"
LAST = {"Type1": "ml.c6i.2xlarge", "ModelName": "Small", "InitialInstanceCount": "1"}


def configuration_tags(resource: Any, name: str) -> dict[str, str]:
    found = resource.sagemaker.configurations[name]
    tags: dict[str, str] = resource.sagemaker.tags[found["arn"]]
    return tags


def test_a_native_round_is_one_pool(resource: Any) -> None:
    round_1 = {"Type1": "ml.g6e.xlarge", "Type2": "ml.g6.2xlarge", "InferenceAmiVersion": "gpu-4-1"}
    data = resource.until_complete(**NATIVE | {"Round1": round_1, "InitialInstanceCount": "2"})
    (made,) = resource.sagemaker.configurations.values()
    assert made["variant"] == {
        "VariantName": "AllTraffic",
        "ModelName": "Model-abc",
        "InitialInstanceCount": 2,
        "ModelDataDownloadTimeoutInSeconds": 300,
        "ContainerStartupHealthCheckTimeoutInSeconds": 300,
        "InstancePools": [
            {"InstanceType": "ml.g6e.xlarge", "Priority": 1},
            {"InstanceType": "ml.g6.2xlarge", "Priority": 2},
        ],
        "VariantInstanceProvisionTimeoutInSeconds": 600,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
        "InferenceAmiVersion": "gpu-4-1",
    }
    assert data["InstanceType"] == "ml.g6e.xlarge"
    assert data["Round"] == "1 of 3"
    assert data["Degraded"] == "no"


def test_a_serial_round_has_one_type_and_its_own_key(resource: Any) -> None:
    resource.until_complete(Round1={"Type1": "ml.m5.large", "KmsKeyId": "arn:aws:kms:us-east-1:1:key/k"})
    (made,) = resource.sagemaker.configurations.values()
    assert made["variant"] == {
        "VariantName": "AllTraffic",
        "ModelName": "Model-abc",
        "InitialInstanceCount": 1,
        "ModelDataDownloadTimeoutInSeconds": 300,
        "ContainerStartupHealthCheckTimeoutInSeconds": 300,
        "InstanceType": "ml.m5.large",
    }
    assert made["key"] == "arn:aws:kms:us-east-1:1:key/k"


def test_the_type_that_serves_is_told_not_the_first_of_its_round(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 100)}
    data = resource.until_complete(**NATIVE)
    assert data["InstanceType"] == "ml.g6.2xlarge"
    assert data["Attempts"].startswith(
        "ml.g6e.xlarge: passed over by SageMaker; ml.g6.2xlarge: in service after 5 m"
    )


def test_a_round_without_capacity_leads_to_the_next(fake: ModuleType, resource: Any) -> None:
    types = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge")
    resource.sagemaker.faults = {name: fake.Fault("capacity") for name in types}
    data = resource.until_complete(**NATIVE)
    assert data["Round"] == "2 of 3"
    assert data["Attempts"].startswith(f"{ALL}: no capacity after 10 m 0 s; ml.g4dn.2xlarge: in service")


def test_a_quota_refusal_drops_the_type_and_tries_the_rest(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6.2xlarge": fake.Fault("quota")}
    data = resource.until_complete(**NATIVE)
    assert data["InstanceType"] == "ml.g6e.xlarge"
    assert data["Round"] == "1 of 3"
    assert data["Attempts"].startswith("ml.g6.2xlarge: no quota; ml.g6e.xlarge: in service after")
    pool = parse_pool(PROPERTIES | NATIVE)
    first, rest = sorted(resource.sagemaker.configurations)
    assert first == pool.round_name(0)
    assert rest == pool.attempt_name(0, ("ml.g6e.xlarge", "ml.g5.2xlarge"), "request-1")
    assert configuration_tags(resource, first)["semif:dropped"] == "ml.g6.2xlarge"
    assert configuration_tags(resource, rest)["semif:pool"] == "ml.g6e.xlarge ml.g5.2xlarge"
    assert configuration_tags(resource, rest)["semif:next"] == "ml.g4dn.2xlarge"


def test_a_quota_refusal_that_names_another_type_ends_the_round(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6.2xlarge": fake.Fault("foreign-quota")}
    data = resource.until_complete(**NATIVE)
    assert data["Round"] == "2 of 3"
    assert data["Attempts"].startswith(f"{ALL}: no quota; ml.g4dn.2xlarge: in service")


def test_a_type_that_the_region_lacks_is_dropped_with_a_warning(
    fake: ModuleType, resource: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    resource.sagemaker.faults = {
        "ml.g6e.xlarge": fake.Fault("unknown-type"),
        "ml.g5.2xlarge": fake.Fault("unknown-type"),
    }
    data = resource.until_complete(**NATIVE)
    unknown = "skipped, no instance type that SageMaker knows in this region"
    assert data["Attempts"].startswith(
        f"ml.g6e.xlarge: {unknown}; ml.g5.2xlarge: {unknown}; ml.g6.2xlarge: in service after"
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    warned = [line["instance_type"] for line in lines if line.get("level") == "WARNING"]
    assert warned == ["ml.g6e.xlarge", "ml.g5.2xlarge"]


def test_where_the_region_knows_no_type_at_all_the_failure_names_them(
    fake: ModuleType, resource: Any
) -> None:
    types = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge")
    resource.sagemaker.faults = {name: fake.Fault("unknown-type") for name in types}
    with pytest.raises(InstancePoolError, match=rf"^unknown_instance_type: {', '.join(types)}: no instance"):
        resource.poll()
    assert resource.sagemaker.configurations == {}


def test_a_failure_of_sagemaker_itself_is_tried_once_more(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("service", 60, first=1)}
    data = resource.until_complete(**NATIVE)
    assert data["Attempts"].startswith(f"{ALL}: failed after 1 m 0 s; ml.g6e.xlarge: in service after 1 m")
    assert len(resource.sagemaker.begun) == 2


def test_twice_is_enough(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("service", 60)}
    with pytest.raises(InstancePoolError, match=rf"^service_failed: {ALL}: Request to service failed"):
        resource.until_complete(**NATIVE)
    assert len(resource.sagemaker.begun) == 2


def test_the_last_resort_is_degraded(
    fake: ModuleType, resource: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 60)}
    pool = NATIVE | {"Round1": {"Type1": "ml.g6e.xlarge"}, "LastResort": LAST}
    wanted = {key: value for key, value in pool.items() if key not in {"Round2", "Round3"}}
    numbered = {"Round2": {"Type1": "ml.g6.2xlarge"}, "Round3": {"Type1": "ml.g5.2xlarge"}}
    resource.sagemaker.faults |= {one["Type1"]: fake.Fault("capacity", 60) for one in numbered.values()}
    data = resource.until_complete(**wanted | numbered)
    assert data["Round"] == "4 of 4"
    assert data["Degraded"].startswith("DEGRADED: the last resort serves on ml.c6i.2xlarge")
    serving = resource.sagemaker.endpoints[NAME]["configuration"]
    assert resource.sagemaker.configurations[serving]["variant"]["ModelName"] == "Small"
    assert configuration_tags(resource, serving)["semif:last-resort"] == "true"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (metric,) = [line for line in lines if "_aws" in line]
    assert metric["EndpointName"] == NAME
    assert metric["Degraded"] == 1
    assert metric["_aws"]["CloudWatchMetrics"] == [
        {
            "Namespace": "SemIf",
            "Dimensions": [["EndpointName"]],
            "Metrics": [{"Name": "Degraded", "Unit": "Count"}],
        }
    ]


def test_without_quota_a_type_is_skipped_by_name(resource: Any) -> None:
    resource.sagemaker.quotas = {"ml.g6e.xlarge": 0, "ml.g5.2xlarge": None}
    data = resource.until_complete(**NATIVE)
    assert data["Attempts"].startswith(
        "ml.g6e.xlarge: skipped, quota is 0; ml.g5.2xlarge: skipped, not offered in this region; "
        "ml.g6.2xlarge: in service"
    )
    assert resource.sagemaker.truth == {
        next(iter(resource.sagemaker.configurations)): "ml.g6.2xlarge: in service"
    }


def test_without_any_quota_nothing_is_touched(resource: Any) -> None:
    resource.sagemaker.quotas = dict.fromkeys(("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge"), 0)
    with pytest.raises(InstancePoolError, match=r"^no_quota: .*ml\.g6e\.xlarge.* is 0") as caught:
        resource.poll()
    assert "aws service-quotas request-service-quota-increase --service-code sagemaker" in str(caught.value)
    assert resource.changes() == []


def test_what_was_left_out_is_told(resource: Any) -> None:
    data = resource.until_complete(LeftOut={"ml.p5.48xlarge": "its price is over max_hourly_usd"})
    assert data["Attempts"].startswith("ml.p5.48xlarge: left out, its price is over max_hourly_usd; ml.g6e")


def test_a_round_that_cannot_end_in_time_is_not_begun(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("capacity", 2400)}
    with pytest.raises(InstancePoolError) as caught:
        resource.until_complete()
    assert str(caught.value).startswith(
        "walk_timed_out: ml.g6.2xlarge is not started: download and start-up may take 720 s, and 5"
    )
    assert "Attempts: ml.g6e.xlarge: no capacity after 40 m 0 s." in str(caught.value)
    assert len(resource.sagemaker.begun) == 1


def test_past_its_budget_the_walk_fails_by_itself(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("ok", 3600)}
    with pytest.raises(InstancePoolError, match=r"^walk_timed_out: .* more than 50 minutes"):
        resource.until_complete()
    resource.begin()
    resource.sagemaker.advance(3000)
    assert resource.until_complete("Delete") == {}


def test_a_deletion_that_sagemaker_does_not_allow_in_time_says_so(fake: ModuleType, resource: Any) -> None:
    resource.sagemaker.faults = {"ml.g6e.xlarge": fake.Fault("ok", 9000)}
    resource.poll()
    with pytest.raises(InstancePoolError, match=r"^walk_timed_out: The endpoint has been Creating"):
        resource.until_complete("Delete")
