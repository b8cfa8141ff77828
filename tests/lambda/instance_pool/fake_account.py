# ruff: noqa: N803  (the parameters have the services' own names)
"""The other services that the walk asks, beside a SageMaker in memory: quotas, scaling, stack and alarms."""

import importlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

from instance_pool.apis import Apis
from instance_pool.climb_api import ClimbApi
from instance_pool.limits_api import LimitsApi
from instance_pool.sagemaker_api import SageMakerApi
from instance_pool.scaling_api import ScalingApi

client = importlib.import_module("tests.lambda.instance_pool.fake_client")

OFFERED = (
    *("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.g4dn.2xlarge"),
    *("ml.c6i.2xlarge", "ml.m5.large"),
)


@dataclass
class FakeQuotas(client.FakeClient):  # type: ignore[misc, name-defined]
    """Service Quotas, a few to a page."""

    service: ClassVar[str] = "service-quotas"
    sagemaker: Any
    world: Any

    def _op_list_service_quotas(
        self, ServiceCode: str, MaxResults: int, NextToken: str = "0"
    ) -> dict[str, Any]:
        assert (ServiceCode, MaxResults) == ("sagemaker", 100)
        types = sorted({*OFFERED, *self.sagemaker.quotas})
        listed = [
            {"QuotaName": f"{name} for endpoint usage", "QuotaCode": "L-1", "Value": float(value)}
            for name in types
            if (value := self.sagemaker.quota(name)) is not None
        ]
        begin = int(NextToken)
        more = {"NextToken": str(begin + 3)} if begin + 3 < len(listed) else {}
        return {"Quotas": listed[begin : begin + 3], **more}


@dataclass
class FakeScaling(client.FakeClient):  # type: ignore[misc, name-defined]
    """Application Auto Scaling: `sagemaker.scaled` holds the targets by endpoint."""

    service: ClassVar[str] = "application-autoscaling"
    sagemaker: Any
    world: Any

    def _op_describe_scalable_targets(self, ResourceIds: list[str], **_: Any) -> dict[str, Any]:
        target = self.sagemaker.scaled.get(_endpoint(ResourceIds[0]))
        return {"ScalableTargets": [target["target"]] if target else []}

    def _op_describe_scaling_policies(self, ResourceId: str, **_: Any) -> dict[str, Any]:
        target = self.sagemaker.scaled.get(_endpoint(ResourceId), {"policies": {}})
        return {"ScalingPolicies": list(target["policies"].values())}

    def _op_describe_scheduled_actions(self, **_: Any) -> dict[str, Any]:
        return {"ScheduledActions": []}

    def _op_describe_scaling_activities(self, **_: Any) -> dict[str, Any]:
        return {"ScalingActivities": []}

    def _op_register_scalable_target(
        self, ResourceId: str, MinCapacity: int, MaxCapacity: int, **_: Any
    ) -> dict[str, Any]:
        self.sagemaker.scaled[_endpoint(ResourceId)] = {
            "target": {"MinCapacity": MinCapacity, "MaxCapacity": MaxCapacity},
            "policies": {},
        }
        return {}

    def _op_put_scaling_policy(self, ResourceId: str, PolicyName: str, **policy: Any) -> dict[str, Any]:
        policy = {
            name: policy[name]
            for name in ("PolicyType", "TargetTrackingScalingPolicyConfiguration")
            if name in policy
        }
        self.sagemaker.scaled[_endpoint(ResourceId)]["policies"][PolicyName] = {
            "PolicyName": PolicyName,
            **policy,
        }
        return {}

    def _op_deregister_scalable_target(self, ResourceId: str, **_: Any) -> dict[str, Any]:
        if self.sagemaker.scaled.pop(_endpoint(ResourceId), None) is None:
            raise client.refusal("ObjectNotFoundException", "No scalable target found")
        return {}


@dataclass
class FakeStacks(client.FakeClient):  # type: ignore[misc, name-defined]
    """CloudFormation as far as a climb asks it."""

    service: ClassVar[str] = "cloudformation"
    world: Any
    status: str = "UPDATE_COMPLETE"

    def _op_describe_stacks(self, StackName: str) -> dict[str, Any]:
        return {"Stacks": [{"StackName": StackName, "StackStatus": self.status}]}


@dataclass
class FakeAlarms(client.FakeClient):  # type: ignore[misc, name-defined]
    """CloudWatch: the alarms that are in ALARM."""

    service: ClassVar[str] = "cloudwatch"
    world: Any
    active: list[str] = field(default_factory=list)

    def _op_describe_alarms(self, AlarmNames: list[str], **_: Any) -> dict[str, Any]:
        return {"MetricAlarms": [{"AlarmName": n} for n in AlarmNames if n in self.active]}


@dataclass
class Account:
    """All services on one clock."""

    sagemaker: Any
    stacks: Any = None
    alarms: Any = None

    def __post_init__(self) -> None:
        self.stacks = FakeStacks(self.sagemaker.world)
        self.alarms = FakeAlarms(self.sagemaker.world)

    def apis(self) -> Apis:
        """The walk's own edges on these services."""
        world = self.sagemaker.world
        scaling = ScalingApi(FakeScaling(self.sagemaker, world))
        return Apis(
            SageMakerApi(self.sagemaker, now=lambda: self.sagemaker.now),
            LimitsApi(FakeQuotas(self.sagemaker, world), self.sagemaker),
            scaling,
            ClimbApi(self.stacks, self.alarms, self.sagemaker, scaling),
        )


def _endpoint(resource_id: str) -> str:
    return resource_id.split("/")[1]
