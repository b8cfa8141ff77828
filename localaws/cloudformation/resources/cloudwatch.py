"""CloudWatch alarms and dashboards."""

from __future__ import annotations

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    api_params,
    tag_list,
)


class Alarm(ResourceType):
    """AWS::CloudWatch::Alarm."""

    type_name = "AWS::CloudWatch::Alarm"
    applied = frozenset(
        (
            "ActionsEnabled",
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "ComparisonOperator",
            "Dimensions",
        )
    ) | {
        *("DatapointsToAlarm", "EvaluateLowSampleCountPercentile", "EvaluationPeriods", "ExtendedStatistic"),
        *(
            "InsufficientDataActions",
            "MetricName",
            "Metrics",
            "Namespace",
            "OKActions",
            "Period",
            "Statistic",
        ),
        *("Tags", "Threshold", "ThresholdMetricId", "TreatMissingData", "Unit"),
    }

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the alarm; a name that is taken is an error."""
        name = properties.get("AlarmName") or context.name(255)
        if context.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]:
            raise self.already_exists(name)
        return self._put(context, name, properties)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Put the whole alarm again."""
        return self._put(context, physical_id, properties)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the alarm."""
        context.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])

    @staticmethod
    def _put(context: ResourceContext, name: str, properties: Properties) -> Created:
        cloudwatch = context.client("cloudwatch")
        values = {**properties, "AlarmName": name, "Tags": tag_list(properties.get("Tags"))}
        cloudwatch.put_metric_alarm(**api_params(cloudwatch, "PutMetricAlarm", values))
        return Created(name, {"Arn": context.arn("cloudwatch", f"alarm:{name}")})


class Dashboard(ResourceType):
    """AWS::CloudWatch::Dashboard."""

    type_name = "AWS::CloudWatch::Dashboard"
    applied = frozenset(("DashboardBody", "DashboardName"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the dashboard."""
        name = properties.get("DashboardName") or context.name(255)
        return self.update(context, name, properties, {})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Put the body."""
        body = properties["DashboardBody"]
        context.client("cloudwatch").put_dashboard(DashboardName=physical_id, DashboardBody=body)
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the dashboard."""
        context.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])
