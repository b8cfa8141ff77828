"""Updates of real endpoints: deployments with alarms, scaled variants, quotas, containers that die."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.localaws.sagemaker.conftest import wait_for

TYPE, OTHER = "ml.c6i.2xlarge", "ml.c6i.xlarge"
CANARY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 600,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
        }
    },
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "errors"}]},
}


@pytest.fixture
def serving(lab: Any) -> Any:
    lab.model()
    lab.config("c", InitialInstanceCount=2)
    lab.config("d", InitialInstanceCount=2, ModelDataDownloadTimeoutInSeconds=70)
    lab.config("other", instance_type=OTHER)
    assert lab.endpoint()["EndpointStatus"] == "InService"
    return lab


def alarm(lab: Any, state: str) -> None:
    cloudwatch = lab.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="errors",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        MetricName="Invocation5XXErrors",
        Namespace="AWS/SageMaker",
        Period=60,
        Statistic="Sum",
        Threshold=1,
    )
    cloudwatch.set_alarm_state(AlarmName="errors", StateValue=state, StateReason="test")


def update(lab: Any, config: str, **more: Any) -> dict[str, Any]:
    lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName=config, **more)
    settled: dict[str, Any] = wait_for(
        lambda: lab.sagemaker.describe_endpoint(EndpointName="e"),
        lambda seen: seen["EndpointStatus"] not in {"Updating", "RollingBack"},
    )
    return settled


def test_an_alarm_sends_a_canary_back(serving: Any) -> None:
    serving.backend.put_times({"longest_wait_s": 30})
    alarm(serving, "OK")
    serving.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="d", DeploymentConfig=CANARY)
    alarm(serving, "ALARM")
    seen = wait_for(
        lambda: serving.sagemaker.describe_endpoint(EndpointName="e"),
        lambda found: found["EndpointStatus"] == "InService",
    )
    assert seen["EndpointConfigName"] == "c"
    assert "ALARM state: [errors]" in seen["FailureReason"]
    serving.backend.put_times({"longest_wait_s": 0})
    alarm(serving, "OK")
    seen = update(serving, "d", DeploymentConfig=CANARY)
    assert (seen["EndpointConfigName"], seen["LastDeploymentConfig"]) == ("d", CANARY)


def test_a_scaled_variant_keeps_its_type_until_it_is_deregistered(serving: Any) -> None:
    scaling = serving.client("application-autoscaling")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/e/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=4)
    with pytest.raises(
        ClientError, match=r'variant\(s\) "\["AllTraffic"\]" must be deregistered as scalable'
    ):
        update(serving, "other")
    assert update(serving, "d")["EndpointConfigName"] == "d"
    scaling.deregister_scalable_target(**target)
    assert update(serving, "other")["EndpointConfigName"] == "other"


def test_counts_change_in_place_and_are_retained(serving: Any) -> None:
    wanted = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    serving.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e", DesiredWeightsAndCapacities=wanted
    )
    during = serving.sagemaker.describe_endpoint(EndpointName="e")
    assert during["EndpointStatus"] == "Updating"
    assert during["ProductionVariants"][0]["DesiredInstanceCount"] == 3
    assert serving.settled()["ProductionVariants"][0]["CurrentInstanceCount"] == 3
    seen = update(serving, "d", RetainAllVariantProperties=True)
    assert seen["ProductionVariants"][0]["CurrentInstanceCount"] == 3


def test_quotas_count_what_is_in_use(serving: Any) -> None:
    serving.backend.put_quotas({TYPE: 3})
    with pytest.raises(
        ClientError, match=r"is 3 Instances, with current utilization of 2 Instances and a"
    ) as no:
        update(serving, "d")
    assert no.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    assert "request delta of 2 Instances" in str(no.value)
    half = {"Type": "CAPACITY_PERCENT", "Value": 50}
    rolling = {"RollingUpdatePolicy": {"MaximumBatchSize": half, "WaitIntervalInSeconds": 0}}
    assert update(serving, "d", DeploymentConfig=rolling)["EndpointConfigName"] == "d"
    serving.backend.put_quotas({OTHER: None})
    with pytest.raises(ClientError, match="enum value set"):
        serving.config("gone", instance_type=OTHER)
    with pytest.raises(Exception, match=r"ml\.nothing: is no instance type"):
        serving.backend.put_quotas({"ml.nothing": 1})


def test_a_pool_tells_the_instances_of_every_type(lab: Any) -> None:
    lab.model()
    pools = [{"InstanceType": name, "Priority": place} for place, name in ((2, OTHER), (1, TYPE))]
    lab.config("c", InstancePools=pools, InitialInstanceCount=3)
    lab.backend.put_faults({TYPE: {"mode": "capacity", "available": 1}})
    seen = lab.endpoint()["ProductionVariants"][0]
    assert seen["InstancePools"] == [
        {"InstanceType": TYPE, "CurrentInstanceCount": 1},
        {"InstanceType": OTHER, "CurrentInstanceCount": 2},
    ]


def test_an_update_that_cannot_go_back(serving: Any) -> None:
    serving.backend.put_faults({TYPE: {"mode": "rollback-failed", "first": 1}})
    seen = update(serving, "d")
    assert (seen["EndpointStatus"], seen["EndpointConfigName"]) == ("UpdateRollbackFailed", "c")
    assert serving.report()["argv"] == ["serve"]
    assert update(serving, "d")["EndpointConfigName"] == "d"


def test_a_container_that_dies_is_started_again(serving: Any) -> None:
    before = int(serving.report()["pid"])
    with pytest.raises(ClientError):
        serving.invoke(body={"die": True})

    def pid() -> int:
        try:
            return int(serving.report()["pid"])
        except ClientError:
            return before

    assert wait_for(pid, lambda seen: seen != before) != before
    assert serving.settled()["EndpointStatus"] == "InService"


def test_keys(lab: Any) -> None:
    lab.model()
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "m",
        "InitialInstanceCount": 1,
        "InstanceType": "ml.g5.xlarge",
    }

    def create(name: str, region: str = "eu-central-1") -> None:
        key = f"arn:aws:kms:{region}:123456789012:key/00000000-0000-0000-0000-000000000000"
        lab.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant], KmsKeyId=key
        )

    create("local-disks-stay-as-they-are")
    with pytest.raises(ClientError, match="the KMS key must be in region eu-central-1"):
        create("foreign", "us-east-1")
    lab.backend.put_faults({"ml.g5.xlarge": {"mode": "nvme-key"}})
    with pytest.raises(ClientError, match=r"KmsKeyId is not supported for instance type ml\.g5\.xlarge"):
        create("refused")
