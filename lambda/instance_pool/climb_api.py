"""What stands against a climb now: the stack, the alarms, and the variant's scaling."""

from collections.abc import Sequence
from typing import Any

from instance_pool.aws_call import call, connect
from instance_pool.climb import Readiness
from instance_pool.scaling_api import ScalingApi


class ClimbApi:
    """Reads only. Errors leave as ApiError."""

    def __init__(self, cloudformation: Any, cloudwatch: Any, sagemaker: Any, scaling: ScalingApi) -> None:
        self._cloudformation = cloudformation
        self._cloudwatch = cloudwatch
        self._sagemaker = sagemaker
        self._scaling = scaling

    @classmethod
    def connect(cls) -> "ClimbApi":
        """Connect as the SDK's environment says."""
        return cls(
            connect("cloudformation"), connect("cloudwatch"), connect("sagemaker"), ScalingApi.connect()
        )

    def readiness(
        self, endpoint_name: str, variant_name: str, stack_id: str, alarms: Sequence[str]
    ) -> Readiness:
        """Look once. Composite alarms count too; an alarm that does not exist is not in ALARM."""
        stacks = call(self._cloudformation, "describe_stacks", StackName=stack_id)["Stacks"]
        endpoint = call(self._sagemaker, "describe_endpoint", EndpointName=endpoint_name)
        variants = {v["VariantName"]: v for v in endpoint.get("ProductionVariants", [])}
        variant = variants.get(variant_name, {})
        current = int(variant.get("CurrentInstanceCount") or 0)
        return Readiness(
            stack_status=str(stacks[0]["StackStatus"]),
            alarms=self._in_alarm(alarms),
            scaling_under_way=self._scaling.activity_under_way(endpoint_name, variant_name),
            current_instances=current,
            desired_instances=int(variant.get("DesiredInstanceCount", current)),
        )

    def _in_alarm(self, names: Sequence[str]) -> tuple[str, ...]:
        if not names:
            return ()
        page = call(
            self._cloudwatch,
            "describe_alarms",
            AlarmNames=list(names),
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            StateValue="ALARM",
        )
        found = [*page.get("MetricAlarms", []), *page.get("CompositeAlarms", [])]
        return tuple(sorted(a["AlarmName"] for a in found if a.get("StateValue", "ALARM") == "ALARM"))
