"""ARNs of image repositories, in the partition of the stack that names them."""

import aws_cdk as cdk

from stacks.images import EcrRepository


def repository_arn(stack: cdk.Stack, repository: EcrRepository) -> str:
    """ARN of a repository that may belong to another account or region."""
    return stack.format_arn(
        service="ecr",
        account=repository.account,
        region=repository.region,
        resource="repository",
        resource_name=repository.name,
    )


def own_repository_arn(stack: cdk.Stack, name: str) -> str:
    """ARN of a repository of the stack's account, by its name: not by another stack's export of the ARN."""
    return stack.format_arn(service="ecr", resource="repository", resource_name=name)
