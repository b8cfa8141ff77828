"""The functions behind Custom::BuildRun: one set for all builds that a stack consumes."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.polling_provider import PollingProvider


class BuildRunProvider(PollingProvider):
    """May start builds of `projects`, and follow and stop those of `every_project`.

    A resource whose project is no longer wanted is deleted after this policy has changed, so the second list
    holds all projects that the environment may ever have had. What tells whether a result is there is granted
    by each BuildRun.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        projects: Sequence[str],
        every_project: Sequence[str],
        log_group_name: str,
    ) -> None:
        super().__init__(scope, construct_id, package="build_run")
        stack = cdk.Stack.of(self)

        def arns(names: Sequence[str]) -> list[str]:
            return [
                stack.format_arn(service="codebuild", resource="project", resource_name=name)
                for name in names
            ]

        log_streams = stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{log_group_name}:log-stream:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        self.allow("Start", ["codebuild:StartBuild"], arns(projects))
        self.allow(
            "Follow",
            ["codebuild:BatchGetBuilds", "codebuild:ListBuildsForProject", "codebuild:StopBuild"],
            arns(every_project),
        )
        self.allow("LastLines", ["logs:GetLogEvents"], [log_streams])
        # A request that CloudFormation has given up is not told so; its state in the stack is.
        self.allow("OwnState", ["cloudformation:DescribeStackResource"], [cdk.Aws.STACK_ID])

    def allow(
        self,
        sid: str,
        actions: Sequence[str],
        resources: Sequence[str],
        conditions: dict[str, object] | None = None,
    ) -> None:
        """Add a right of the function that follows builds."""
        self.is_complete.add_to_role_policy(
            iam.PolicyStatement(
                sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
            )
        )
