"""Alarms of one endpoint: errors, which roll an update back, and whether it serves its last resort."""

from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

DEGRADED_NAMESPACE: Final = "SemIf"
DEGRADED_METRIC: Final = "Degraded"
"""What the walk's function writes: 1 where the last resort serves, else 0."""


class EndpointAlarms(Construct):
    """`errors_name` is a literal, so that the pool's property needs no reference."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name_prefix: str,
        endpoint_name: str,
        variant_name: str,
        degrades: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.errors_name = f"{name_prefix}-errors"
        cloudwatch.CfnAlarm(
            self,
            "Errors",
            alarm_name=self.errors_name,
            alarm_description=f"The container of {endpoint_name} answers with 5xx; rolls an update back.",
            namespace="AWS/SageMaker",
            metric_name="Invocation5XXErrors",
            dimensions=[
                _dimension("EndpointName", endpoint_name),
                _dimension("VariantName", variant_name),
            ],
            # The average is the part of all requests that failed.
            statistic="Average",
            comparison_operator="GreaterThanThreshold",
            threshold=0.05,
            period=60,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            treat_missing_data="notBreaching",
        )
        if degrades:
            cloudwatch.CfnAlarm(
                self,
                "Degraded",
                alarm_name=f"{name_prefix}-degraded",
                alarm_description=f"{endpoint_name} serves its last resort. Next: semif climb",
                namespace=DEGRADED_NAMESPACE,
                metric_name=DEGRADED_METRIC,
                dimensions=[_dimension("EndpointName", endpoint_name)],
                statistic="Maximum",
                comparison_operator="GreaterThanOrEqualToThreshold",
                threshold=1,
                period=60,
                evaluation_periods=1,
                # One point for each deployment: the state stays as it was until the next.
                treat_missing_data="ignore",
            )


def _dimension(name: str, value: str) -> cloudwatch.CfnAlarm.DimensionProperty:
    return cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value)
