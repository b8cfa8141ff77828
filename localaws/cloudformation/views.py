"""How stacks, resources, events and change sets look in the API."""

from __future__ import annotations

from typing import Any

from localaws.cloudformation.changes import change_as_api
from localaws.cloudformation.region import ChangeSet
from localaws.cloudformation.stack import Event, Resource, Stack, Target

_NO_DRIFT = {"StackDriftStatus": "NOT_CHECKED"}


def stack_view(stack: Stack) -> dict[str, Any]:
    """Return a stack as in DescribeStacks."""
    view: dict[str, Any] = {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "CreationTime": stack.created_at,
        "StackStatus": stack.status,
        "DisableRollback": stack.disable_rollback,
        "EnableTerminationProtection": stack.termination_protection,
        "RollbackConfiguration": {},
        "DriftInformation": _NO_DRIFT,
        "NotificationARNs": [],
        "Tags": [],
        "Outputs": [
            _without_nones(
                OutputKey=output.key,
                OutputValue=output.value,
                Description=output.description,
                ExportName=output.export_name,
            )
            for output in stack.outputs.values()
        ],
    }
    target = stack.target
    if target is not None:
        view["Parameters"] = parameter_views(target)
        view["Capabilities"] = list(target.capabilities)
        view["NotificationARNs"] = list(target.notification_arns)
        view["Tags"] = [{"Key": key, "Value": value} for key, value in target.tags.items()]
    return view | _without_nones(
        StackStatusReason=stack.reason,
        LastUpdatedTime=stack.updated_at,
        DeletionTime=stack.deleted_at,
        ChangeSetId=stack.change_set_id,
        Description=target.template.get("Description") if target else None,
        RoleARN=target.role_arn if target else None,
    )


def stack_summary(stack: Stack) -> dict[str, Any]:
    """Return a stack as in ListStacks."""
    view = stack_view(stack)
    kept = ("StackId", "StackName", "CreationTime", "StackStatus", "StackStatusReason", "LastUpdatedTime")
    summary = {key: view[key] for key in (*kept, "DeletionTime", "DriftInformation") if key in view}
    return summary | _without_nones(TemplateDescription=view.get("Description"))


def parameter_views(target: Target) -> list[dict[str, Any]]:
    """Return parameter values; those marked NoEcho are hidden."""
    declared = target.template.get("Parameters", {})
    views = []
    for name, value in target.parameters.given.items():
        hidden = str(declared.get(name, {}).get("NoEcho", "")).lower() == "true"
        resolved = target.parameters.ssm.get(name)
        view = _without_nones(ParameterKey=name, ParameterValue=value, ResolvedValue=resolved)
        views.append(view | {"ParameterValue": "****"} if hidden else view)
    return views


def resource_view(stack: Stack, resource: Resource) -> dict[str, Any]:
    """Return a resource with the keys of all resource operations; each operation's model drops the rest."""
    return _without_nones(
        StackName=stack.name,
        StackId=stack.stack_id,
        LogicalResourceId=resource.logical_id,
        PhysicalResourceId=resource.physical_id,
        ResourceType=resource.type,
        Timestamp=resource.updated_at,
        LastUpdatedTimestamp=resource.updated_at,
        ResourceStatus=resource.status,
        ResourceStatusReason=resource.reason,
        DriftInformation={"StackResourceDriftStatus": "NOT_CHECKED"},
    )


def event_view(stack: Stack, event: Event) -> dict[str, Any]:
    """Return an event as in DescribeStackEvents."""
    return _without_nones(
        StackId=stack.stack_id,
        EventId=event.event_id,
        StackName=stack.name,
        OperationId=event.operation_id,
        LogicalResourceId=event.logical_id,
        PhysicalResourceId=event.physical_id,
        ResourceType=event.type,
        Timestamp=event.timestamp,
        ResourceStatus=event.status,
        ResourceStatusReason=event.reason,
        ResourceProperties=event.properties,
    )


def change_set_view(change_set: ChangeSet, *, values: bool) -> dict[str, Any]:
    """Return a change set as in DescribeChangeSet."""
    target = change_set.target
    return change_set_summary(change_set) | {
        "Parameters": parameter_views(target),
        "NotificationARNs": list(target.notification_arns),
        "RollbackConfiguration": {},
        "Capabilities": list(target.capabilities),
        "Tags": [{"Key": key, "Value": value} for key, value in target.tags.items()],
        "Changes": [change_as_api(change, values=values) for change in change_set.changes],
    }


def change_set_summary(change_set: ChangeSet) -> dict[str, Any]:
    """Return a change set as in ListChangeSets."""
    return _without_nones(
        StackId=change_set.stack.stack_id,
        StackName=change_set.stack.name,
        ChangeSetId=change_set.change_set_id,
        ChangeSetName=change_set.name,
        ExecutionStatus=change_set.execution_status,
        Status=change_set.status,
        StatusReason=change_set.reason,
        CreationTime=change_set.created_at,
        Description=change_set.description,
        IncludeNestedStacks=False,
        ImportExistingResources=False,
    )


def _without_nones(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
