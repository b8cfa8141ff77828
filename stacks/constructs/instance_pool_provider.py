"""The functions behind Custom::InstancePoolEndpoint, on CDK's Provider framework."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.polling_provider import PollingProvider

CONFIGURATION_PREFIX_LENGTH: Final = 40
"""Characters of the endpoint's name that the names of its configurations begin with."""
OWNERSHIP_TAG: Final = "semif:stack-id"
"""Tag with the stack's id on all that the walk makes."""


class InstancePoolProvider(PollingProvider):
    """Walks the pool of one endpoint. `service_token` is what the custom resource names."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, volume_key: str | None
    ) -> None:
        super().__init__(scope, construct_id, package="instance_pool", service_models=["sagemaker"])
        stack = cdk.Stack.of(self)
        statements = [
            *_fleet_statements(stack, endpoint_name),
            *_environment_statements(stack, endpoint_name),
            *(_key_statements(volume_key) if volume_key is not None else []),
        ]
        for statement in statements:
            self.is_complete.add_to_role_policy(statement)


def _fleet_statements(stack: cdk.Stack, endpoint_name: str) -> list[iam.PolicyStatement]:
    """The endpoint and its configurations."""

    def arn(resource: str, name: str) -> str:
        return stack.format_arn(service="sagemaker", resource=resource, resource_name=name)

    endpoint = arn("endpoint", endpoint_name)
    configurations = arn("endpoint-config", f"{endpoint_name[:CONFIGURATION_PREFIX_LENGTH]}-*")
    every_name = [arn("endpoint", "*"), arn("endpoint-config", "*")]
    return [
        _allow(
            "EndpointWithConfiguration",
            ["sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"],
            [endpoint, configurations],
        ),
        _allow("Configurations", ["sagemaker:CreateEndpointConfig"], [configurations]),
        _allow("Tags", ["sagemaker:AddTags", "sagemaker:DeleteTags"], [endpoint, configurations]),
        _allow(
            "Deletion",
            ["sagemaker:DeleteEndpoint", "sagemaker:DeleteEndpointConfig"],
            [endpoint, configurations],
        ),
        # A renamed endpoint is deleted under its old name, after this policy has gone to the new one; what a
        # type's quota has left depends on every endpoint of the account.
        _allow(
            "Reading",
            ["sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig", "sagemaker:ListTags"],
            every_name,
        ),
        _allow(
            "DeletionOfRenamed",
            ["sagemaker:DeleteEndpoint", "sagemaker:DeleteEndpointConfig"],
            every_name,
            {"StringEquals": {f"aws:ResourceTag/{OWNERSHIP_TAG}": cdk.Aws.STACK_ID}},
        ),
        # These two know no resources.
        _allow("Listing", ["sagemaker:ListEndpointConfigs", "sagemaker:ListEndpoints"], ["*"]),
    ]


def _environment_statements(stack: cdk.Stack, endpoint_name: str) -> list[iam.PolicyStatement]:
    """What else decides whether a fleet may be changed: quotas, scaling, alarms, the stack itself."""
    # Application Auto Scaling makes and deletes these on behalf of whoever puts a policy.
    scaling_alarms = stack.format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name=f"TargetTracking-endpoint/{endpoint_name}/variant/*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    endpoint = stack.format_arn(service="sagemaker", resource="endpoint", resource_name=endpoint_name)
    return [
        # Reading knows no resources here.
        _allow(
            "Circumstances",
            [
                "application-autoscaling:DescribeScalableTargets",
                "application-autoscaling:DescribeScalingActivities",
                "application-autoscaling:DescribeScalingPolicies",
                "application-autoscaling:DescribeScheduledActions",
                "cloudwatch:DescribeAlarms",
                "servicequotas:ListServiceQuotas",
            ],
            ["*"],
        ),
        # The id of a scalable target is not known before it is registered.
        _allow(
            "Scaling",
            [
                "application-autoscaling:DeregisterScalableTarget",
                "application-autoscaling:PutScalingPolicy",
                "application-autoscaling:PutScheduledAction",
                "application-autoscaling:RegisterScalableTarget",
            ],
            ["*"],
            {"StringEquals": {"application-autoscaling:service-namespace": "sagemaker"}},
        ),
        _allow("ScalingOfTheVariant", ["sagemaker:UpdateEndpointWeightsAndCapacities"], [endpoint]),
        _allow("ScalingAlarms", ["cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"], [scaling_alarms]),
        _allow("OwnState", ["cloudformation:DescribeStacks"], [cdk.Aws.STACK_ID]),
    ]


def _key_statements(volume_key: str) -> list[iam.PolicyStatement]:
    """SageMaker makes its grant on a volume's key in the caller's name."""
    return [
        _allow("VolumeKey", ["kms:DescribeKey"], [volume_key]),
        _allow(
            "VolumeKeyGrant",
            ["kms:CreateGrant"],
            [volume_key],
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def _allow(
    sid: str, actions: list[str], resources: list[str], conditions: dict[str, object] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, actions=actions, resources=resources, conditions=conditions)
