"""CloudFormation's API operations that only read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from localaws.clients import Clients
from localaws.cloudformation import views
from localaws.cloudformation.region import Region, validation_error
from localaws.cloudformation.requests import check_types, required_capabilities, template_text
from localaws.cloudformation.stack import Resource, Stack, Target
from localaws.cloudformation.template import Document, TemplateError, parse_template
from localaws.protocol import Scope

Params = Mapping[str, Any]
Answer = dict[str, Any]


class Queries:
    """The state of every account and region, and the operations that read it."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._regions: dict[Scope, Region] = {}

    def describe_stacks(self, scope: Scope, params: Params) -> Answer:
        """Describe one stack, or all that are not deleted."""
        region = self._region(scope)
        found = [region.get(params["StackName"])] if params.get("StackName") else list(region.live())
        return {"Stacks": [views.stack_view(stack) for stack in found]}

    def list_stacks(self, scope: Scope, params: Params) -> Answer:
        """List stacks, deleted ones too, by status."""
        region, wanted = self._region(scope), params.get("StackStatusFilter")
        stacks = [stack for stack in reversed(region.stacks) if not wanted or stack.status in wanted]
        return {"StackSummaries": [views.stack_summary(stack) for stack in stacks]}

    def describe_stack_events(self, scope: Scope, params: Params) -> Answer:
        """Return a stack's events, newest first, a hundred at a time."""
        stack = self._region(scope).get(params["StackName"])
        newest_first, start = stack.events[::-1], int(params.get("NextToken") or 0)
        page = newest_first[start : start + 100]
        answer: Answer = {"StackEvents": [views.event_view(stack, event) for event in page]}
        if start + 100 < len(newest_first):
            answer["NextToken"] = str(start + 100)
        return answer

    def describe_events(self, scope: Scope, params: Params) -> Answer:
        """Return a stack's events as operation events, newest first; change sets have none here."""
        region = self._region(scope)
        if params.get("ChangeSetName"):
            region.change_set(params["ChangeSetName"], params.get("StackName"))
            return {"OperationEvents": []}
        stack = region.get(params.get("StackName", ""))
        only_failed = params.get("Filters", {}).get("FailedEvents")
        events = [
            {**views.event_view(stack, event), "EventType": "STACK_EVENT"}
            for event in reversed(stack.events)
            if not only_failed or event.status.endswith("_FAILED")
            if params.get("OperationId") in {None, event.operation_id}
        ]
        return {"OperationEvents": events}

    def list_stack_resources(self, scope: Scope, params: Params) -> Answer:
        """List a stack's resources."""
        stack = self._region(scope).get(params["StackName"])
        return {"StackResourceSummaries": [views.resource_view(stack, item) for item in _existing(stack)]}

    def describe_stack_resources(self, scope: Scope, params: Params) -> Answer:
        """Describe a stack's resources, or one of them, by stack or by physical id."""
        region = self._region(scope)
        if not params.get("StackName"):
            stack = _owner(region, params.get("PhysicalResourceId", ""))
        else:
            stack = region.get(params["StackName"])
        logical_id = params.get("LogicalResourceId")
        found = [item for item in _existing(stack) if logical_id in {None, item.logical_id}]
        return {"StackResources": [views.resource_view(stack, item) for item in found]}

    def describe_stack_resource(self, scope: Scope, params: Params) -> Answer:
        """Describe one resource."""
        stack, logical_id = self._region(scope).get(params["StackName"]), params["LogicalResourceId"]
        for item in _existing(stack):
            if item.logical_id == logical_id:
                return {"StackResourceDetail": views.resource_view(stack, item)}
        raise validation_error(f"Resource {logical_id} does not exist for stack {stack.name}")

    def get_template(self, scope: Scope, params: Params) -> Answer:
        """Return the template of a stack or change set."""
        region = self._region(scope)
        if params.get("ChangeSetName"):
            target: Target | None = region.change_set(params["ChangeSetName"], params.get("StackName")).target
        else:
            target = region.get(params["StackName"]).target
        return {"TemplateBody": target.text if target else "", "StagesAvailable": ["Original", "Processed"]}

    def get_template_summary(self, scope: Scope, params: Params) -> Answer:
        """Describe a template: parameters, types, capabilities."""
        region = self._region(scope)
        if params.get("StackName"):
            target = region.get(params["StackName"]).target
            text = target.text if target else ""
        else:
            text = template_text(params, region, self._clients, None)
        template = _checked(text)
        return {
            **_described(template),
            "ResourceTypes": sorted({item["Type"] for item in template["Resources"].values()}),
            "Version": template.get("AWSTemplateFormatVersion", "2010-09-09"),
            "ResourceIdentifierSummaries": [],
        }

    def validate_template(self, scope: Scope, params: Params) -> Answer:
        """Check a template."""
        return _described(_checked(template_text(params, self._region(scope), self._clients, None)))

    def list_exports(self, scope: Scope, params: Params) -> Answer:
        """List every export."""
        exports = sorted(self._region(scope).exports().items())
        return {
            "Exports": [
                {"ExportingStackId": stack.stack_id, "Name": name, "Value": value}
                for name, (stack, value) in exports
            ]
        }

    def list_imports(self, scope: Scope, params: Params) -> Answer:
        """List the stacks that use an export."""
        users = self._region(scope).importers(params["ExportName"])
        if not users:
            raise validation_error(f"Export '{params['ExportName']}' is not imported by any stack.")
        return {"Imports": users}

    def _region(self, scope: Scope) -> Region:
        with self._lock:
            return self._regions.setdefault(scope, Region(scope, self._clients))


def _existing(stack: Stack) -> Iterator[Resource]:
    return iter(list({**stack.resources, **stack.changing}.values()))


def _owner(region: Region, physical_id: str) -> Stack:
    for stack in region.live():
        if any(item.physical_id == physical_id for item in _existing(stack)):
            return stack
    raise validation_error(f"Stack for {physical_id} does not exist")


def _checked(text: str) -> Document:
    try:
        template = parse_template(text)
        check_types(template)
    except TemplateError as error:
        raise validation_error(str(error)) from error
    return template


def _described(template: Document) -> Answer:
    parameters = [
        {
            "ParameterKey": name,
            "ParameterType": item.get("Type", "String"),
            "NoEcho": bool(item.get("NoEcho")),
            **({"DefaultValue": str(item["Default"])} if "Default" in item else {}),
            **({"Description": item["Description"]} if "Description" in item else {}),
        }
        for name, item in template.get("Parameters", {}).items()
    ]
    return {
        "Parameters": parameters,
        "Capabilities": required_capabilities(template),
        **({"Description": template["Description"]} if "Description" in template else {}),
    }
