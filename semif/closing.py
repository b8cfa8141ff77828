"""The last words of `semif watch` on one stack. Pure."""

from semif.deployment import Stack, first_failure
from semif.terminal import columns, printable

CLIMB = "next: when there is capacity again, semif climb moves the endpoint to a preferred type"


def success_lines(stack: Stack) -> list[str]:
    """The stack and its outputs, or that it is gone."""
    if stack.gone:
        return [f"{stack.name} is deleted"]
    rows = [(name, printable(value)) for name, value in sorted((stack.outputs or {}).items())]
    degraded = (stack.outputs or {}).get("Degraded", "no")
    warning = [printable(degraded), CLIMB] if degraded != "no" else []
    return [f"{stack.name} {stack.status}", *columns(rows), *warning]


def failure_lines(stack: Stack) -> list[str]:
    """What failed first and why, what serves now, what to do next."""
    failure = first_failure(stack)
    cause = (
        f"{failure.logical_id} {failure.resource_type} {failure.status}: {printable(failure.cause)}"
        if failure
        else printable(stack.reason) or "CloudFormation gives no reason"
    )
    lines = [f"{stack.name} failed: {stack.status}", f"cause: {cause}"]
    if stack.endpoint and stack.endpoint.status == "InService":
        lines.append(f"endpoint {stack.endpoint.name} is InService with what was deployed before")
    if "ROLLBACK_FAILED" in stack.status or stack.status == "DELETE_FAILED":
        lines.append(
            "next: remove the cause, then finish the operation in CloudFormation before the next deployment"
        )
    else:
        lines.append("next: remove the cause and deploy again")
    return lines
