"""A role for a Lambda function that may write to one log group and nothing else."""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_writer_role(scope: Construct, construct_id: str, log_group: logs.ILogGroup) -> iam.Role:
    """Make the role; AWSLambdaBasicExecutionRole would let it write to every log group of the account."""
    role = iam.Role(scope, construct_id, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    return role
