"""The role that SageMaker takes on to fetch a model's image and archive and to write its logs."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.model_settings import S3Place


class ExecutionRole(iam.Role):
    """Reads archives and repositories as given; logs, metrics of endpoints; no more.

    Of an archive it reads what begins with the place's key.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        archives: Sequence[S3Place],
        repository_arns: Sequence[str],
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}},
            ),
        )
        stack = cdk.Stack.of(self)
        log_groups = stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name="/aws/sagemaker/Endpoints/*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        for number, archive in enumerate(dict.fromkeys(archives)):
            bucket = f"arn:{cdk.Aws.PARTITION}:s3:::{archive.bucket}"
            suffix = str(number + 1) if number else ""
            self._allow(f"ModelArchive{suffix}", ["s3:GetObject"], [f"{bucket}/{archive.key}*"])
            self._allow(
                f"ModelListing{suffix}",
                ["s3:ListBucket"],
                [bucket],
                {"StringLike": {"s3:prefix": [f"{archive.key}*"]}},
            )
        self._allow(
            "Image",
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            list(dict.fromkeys(repository_arns)),
        )
        # These two know no resources.
        self._allow("Registry", ["ecr:GetAuthorizationToken"], ["*"])
        self._allow(
            "Metrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Endpoints"}},
        )
        self._allow(
            "Logs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_groups],
        )

    def _allow(
        self, sid: str, actions: list[str], resources: list[str], conditions: dict[str, object] | None = None
    ) -> None:
        self.add_to_policy(
            iam.PolicyStatement(sid=sid, actions=actions, resources=resources, conditions=conditions)
        )
