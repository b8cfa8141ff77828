"""Whether CloudFormation still waits for a request."""

from typing import Any

from build_run.aws_call import call
from build_run.failures import ApiError, Cause
from build_run.properties import Operation


class StackApi:
    """Reads the resource's own state in its stack."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def has_moved_on(self, operation: Operation) -> bool:
        """True once CloudFormation has given the request up.

        When another resource fails, CloudFormation cancels this one and soon deletes it or rolls it back, but
        nobody tells the Provider, which goes on polling; a build that it started then would run unseen. Where
        the resource cannot be read, nothing is known, and the request goes on: a stack answers to its id even
        after its deletion. Raises ApiError for a hiccup.
        """
        try:
            answer = call(
                self._client,
                "describe_stack_resource",
                StackName=operation.stack_id,
                LogicalResourceId=operation.logical_id,
            )
        except ApiError as error:
            if error.cause is Cause.TRANSIENT:
                raise
            return False
        status = str(answer["StackResourceDetail"]["ResourceStatus"])
        return status.startswith("DELETE_") or not status.endswith("_IN_PROGRESS")
