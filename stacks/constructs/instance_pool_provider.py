"""The functions behind Custom::InstancePoolEndpoint, on CDK's Provider framework."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.polling_provider import PollingProvider

CONFIGURATION_PREFIX_LENGTH: Final = 48
"""Characters of the endpoint's name that the names of its configurations begin with."""
OWNERSHIP_TAG: Final = "semif:stack-id"
"""Tag with the stack's id on all that the walk makes."""


class InstancePoolProvider(PollingProvider):
    """Walks the pool of one endpoint. `service_token` is what the custom resource names."""

    def __init__(self, scope: Construct, construct_id: str, *, endpoint_name: str) -> None:
        super().__init__(scope, construct_id, package="instance_pool")
        for statement in _walk_statements(cdk.Stack.of(self), endpoint_name):
            self.is_complete.add_to_role_policy(statement)


def _walk_statements(stack: cdk.Stack, endpoint_name: str) -> list[iam.PolicyStatement]:
    def arn(resource: str, name: str) -> str:
        return stack.format_arn(service="sagemaker", resource=resource, resource_name=name)

    endpoint = arn("endpoint", endpoint_name)
    configurations = arn("endpoint-config", f"{endpoint_name[:CONFIGURATION_PREFIX_LENGTH]}-*")
    every_name = [arn("endpoint", "*"), arn("endpoint-config", "*")]
    return [
        iam.PolicyStatement(
            sid="EndpointWithConfiguration",
            actions=["sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"],
            resources=[endpoint, configurations],
        ),
        iam.PolicyStatement(
            sid="Configurations", actions=["sagemaker:CreateEndpointConfig"], resources=[configurations]
        ),
        iam.PolicyStatement(sid="Tags", actions=["sagemaker:AddTags"], resources=[endpoint, configurations]),
        iam.PolicyStatement(
            sid="Deletion",
            actions=["sagemaker:DeleteEndpoint", "sagemaker:DeleteEndpointConfig"],
            resources=[endpoint, configurations],
        ),
        # A renamed endpoint is deleted under its old name, after this policy has gone to the new one.
        iam.PolicyStatement(
            sid="Reading",
            actions=[
                "sagemaker:DescribeEndpoint",
                "sagemaker:DescribeEndpointConfig",
                "sagemaker:ListTags",
            ],
            resources=every_name,
        ),
        iam.PolicyStatement(
            sid="DeletionOfRenamed",
            actions=["sagemaker:DeleteEndpoint", "sagemaker:DeleteEndpointConfig"],
            resources=every_name,
            conditions={"StringEquals": {f"aws:ResourceTag/{OWNERSHIP_TAG}": cdk.Aws.STACK_ID}},
        ),
        # This action knows no resources.
        iam.PolicyStatement(sid="Listing", actions=["sagemaker:ListEndpointConfigs"], resources=["*"]),
    ]
