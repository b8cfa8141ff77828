"""The functions behind Custom::InstancePoolEndpoint, on CDK's Provider framework."""

from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.constructs.log_writer_role import log_writer_role

LAMBDA_SOURCES: Final = Path(__file__).parent.parent.parent / "lambda"
CONFIGURATION_PREFIX_LENGTH: Final = 48
"""Characters of the endpoint's name that the names of its configurations begin with."""
OWNERSHIP_TAG: Final = "semif:stack-id"
"""Tag with the stack's id on all that the walk makes."""
QUERY_INTERVAL: Final = cdk.Duration.seconds(15)
TOTAL_TIMEOUT: Final = cdk.Duration.minutes(55)


class InstancePoolProvider(Construct):
    """Walks the pool of one endpoint. `service_token` is what the custom resource names."""

    def __init__(self, scope: Construct, construct_id: str, *, endpoint_name: str) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(
            self,
            "Logs",
            removal_policy=cdk.RemovalPolicy.DESTROY,
            retention=logs.RetentionDays.THREE_MONTHS,
        )
        is_complete = self._function("IsComplete", log_group, timeout=cdk.Duration.minutes(5))
        for statement in _walk_statements(cdk.Stack.of(self), endpoint_name):
            is_complete.add_to_role_policy(statement)
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=self._function("OnEvent", log_group, timeout=cdk.Duration.seconds(30)),
            is_complete_handler=is_complete,
            query_interval=QUERY_INTERVAL,
            total_timeout=TOTAL_TIMEOUT,
            log_group=log_group,
            framework_on_event_role=log_writer_role(self, "FrameworkOnEventRole", log_group),
            framework_complete_and_timeout_role=log_writer_role(self, "FrameworkIsCompleteRole", log_group),
            # The waiter's own log needs rights on every log group; the functions say all that happens.
            disable_waiter_state_machine_logging=True,
        )
        self.service_token = provider.service_token

    def _function(self, name: str, log_group: logs.ILogGroup, *, timeout: cdk.Duration) -> lambda_.Function:
        handler = {"OnEvent": "on_event", "IsComplete": "is_complete"}[name]
        return lambda_.Function(
            self,
            name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler=f"instance_pool.handler.{handler}",
            code=lambda_.Code.from_asset(
                str(LAMBDA_SOURCES),
                # Git's rules: nothing but the package, without compiled files: the hash is its source's.
                exclude=["/*", "!/instance_pool", "__pycache__", "*.pyc"],
                ignore_mode=cdk.IgnoreMode.GIT,
            ),
            role=log_writer_role(self, f"{name}Role", log_group),
            log_group=log_group,
            timeout=timeout,
            memory_size=256,
        )


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
