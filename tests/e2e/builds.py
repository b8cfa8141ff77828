"""What the end-to-end tests of builds look at."""

import json
from typing import Any

from localaws.session import LocalAws
from stacks.example_decision import EXAMPLE_REQUEST
from tools.local_environment import LocalEnvironment


def builds(aws: LocalAws, environment: LocalEnvironment) -> list[dict[str, Any]]:
    """The environment's builds, oldest first."""
    codebuild = aws.client("codebuild")
    ids = codebuild.list_builds(sortOrder="ASCENDING")["ids"]
    found = codebuild.batch_get_builds(ids=ids)["builds"] if ids else []
    return [build for build in found if build["projectName"].startswith(environment.stack(""))]


def answers(aws: LocalAws, environment: LocalEnvironment, endpoint: str) -> dict[str, Any]:
    """The result of the example decision."""
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=environment.stack(endpoint),
        ContentType="application/json",
        Body=json.dumps(EXAMPLE_REQUEST),
    )
    return dict(json.loads(answer["Body"].read())["result"])


def reasons(aws: LocalAws, environment: LocalEnvironment, kind: str) -> str:
    """All that CloudFormation says of a stack's resources."""
    events = aws.client("cloudformation").describe_stack_events(StackName=environment.stack(kind))
    return "\n".join(event.get("ResourceStatusReason", "") for event in events["StackEvents"])
