"""What a change set would do, worked out without doing it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from localaws.cloudformation.custom_resource import is_custom
from localaws.cloudformation.evaluation import LiveResources, Surroundings, evaluation_of
from localaws.cloudformation.graph import creation_order, dependencies
from localaws.cloudformation.intrinsics import UNKNOWN, Evaluation
from localaws.cloudformation.resources.registry import RESOURCE_TYPES
from localaws.cloudformation.stack import Resource, Stack, Target
from localaws.cloudformation.template import Document, references

_ATTRIBUTES = ("CreationPolicy", "DeletionPolicy", "Metadata", "UpdatePolicy", "UpdateReplacePolicy")


@dataclass(frozen=True)
class PropertyChange:
    """One property that changes. `recreation` is Never, Conditionally or Always."""

    name: str
    recreation: str
    dynamic: bool
    before: Any
    after: Any
    cause: str | None = None


@dataclass(frozen=True)
class Change:
    """One resource that a change set would add, modify or remove.

    `replacement` is True, False or Conditional; `policy` is the one that decides on the old resource.
    """

    action: str
    logical_id: str
    type: str
    physical_id: str | None = None
    replacement: str | None = None
    properties: tuple[PropertyChange, ...] = ()
    attributes: tuple[str, ...] = ()
    policy: str | None = None


@dataclass
class _Plan(LiveResources):
    """References as they will be: unknown where a resource is made, replaced or may answer differently."""

    stack: Stack
    changes: dict[str, Change] = field(default_factory=dict)
    uncertain: bool = False

    def __post_init__(self) -> None:
        super().__init__(self.stack)

    def ref(self, logical_id: str) -> str:
        change = self.changes.get(logical_id)
        if change is not None and (change.action == "Add" or change.replacement != "False"):
            self.uncertain |= change.replacement == "Conditional"
            return UNKNOWN
        return super().ref(logical_id)

    def attribute(self, logical_id: str, name: str) -> Any:
        if self.ref(logical_id) == UNKNOWN:
            return UNKNOWN
        change = self.changes.get(logical_id)
        if change is not None and change.properties:
            names = {item.name for item in change.properties}
            if is_custom(change.type) or name in names:
                self.uncertain = True
                return UNKNOWN
        return super().attribute(logical_id, name)


def plan_changes(stack: Stack, target: Target, surroundings: Surroundings) -> list[Change]:
    """Return the changes from the stack as it is to the target, in the template's order; removals last.

    Raises TemplateError.
    """
    plan = _Plan(stack)
    evaluation = evaluation_of(stack, target, surroundings, plan)
    active = evaluation.active_resources()
    order = creation_order({name: dependencies(active[name], active.keys()) for name in active})
    for logical_id in order:
        change = _change(logical_id, active[logical_id], stack.resources.get(logical_id), evaluation, plan)
        if change is not None:
            plan.changes[logical_id] = change
    kept = [plan.changes[logical_id] for logical_id in active if logical_id in plan.changes]
    removed = [
        Change("Remove", item.logical_id, item.type, item.physical_id, policy=item.policy("DeletionPolicy"))
        for item in stack.resources.values()
        if item.logical_id not in active
    ]
    return kept + removed


def _change(
    logical_id: str, definition: Document, current: Resource | None, evaluation: Evaluation, plan: _Plan
) -> Change | None:
    type_name = definition["Type"]
    if current is None or current.physical_id is None:
        evaluation.value(definition.get("Properties", {}))  # wrong values are refused now, not on execution
        return Change("Add", logical_id, type_name)
    if current.type != type_name:
        policy = current.policy("UpdateReplacePolicy")
        return Change("Modify", logical_id, type_name, current.physical_id, "True", policy=policy)
    changes = tuple(_property_changes(definition, current, evaluation, plan))
    attributes = tuple(name for name in _ATTRIBUTES if definition.get(name) != current.definition.get(name))
    if not changes and not attributes:
        return None
    recreations = {change.recreation for change in changes}
    replacement = "False"
    if "Always" in recreations:
        replacement = "True"
    elif "Conditionally" in recreations:
        replacement = "Conditional"
    return Change("Modify", logical_id, type_name, current.physical_id, replacement, changes, attributes)


def _property_changes(
    definition: Document, current: Resource, evaluation: Evaluation, plan: _Plan
) -> Iterator[PropertyChange]:
    templated: Mapping[str, Any] = definition.get("Properties", {})
    after: dict[str, Any] = {}
    uncertain: set[str] = set()
    for name in templated:
        plan.uncertain = False
        after |= evaluation.value({name: templated[name]})
        if plan.uncertain:
            uncertain.add(name)
    kind = RESOURCE_TYPES.get(current.type)
    for name in current.properties.keys() | after.keys():
        before, then = current.properties.get(name), after.get(name)
        if before == then:
            continue
        recreation = "Always" if kind is not None and kind.replaced_by(name, before, then) else "Never"
        if recreation == "Always" and name in uncertain:
            recreation = "Conditionally"
        causes = (named for named, _ in references(templated.get(name)) if named in plan.changes)
        yield PropertyChange(name, recreation, name in uncertain, before, then, next(causes, None))


def change_as_api(change: Change, *, values: bool) -> dict[str, Any]:
    """Return a change as DescribeChangeSet shows it, with property values if asked for."""
    resource: dict[str, Any] = {
        "Action": change.action,
        "LogicalResourceId": change.logical_id,
        "ResourceType": change.type,
        "Scope": [],
        "Details": [],
    }
    if change.physical_id is not None:
        resource["PhysicalResourceId"] = change.physical_id
    if change.replacement is not None:
        resource["Replacement"] = change.replacement
    if change.policy is not None:
        resource["PolicyAction"] = {"Remove": "Delete"}.get(change.action, "ReplaceAndDelete")
        if change.policy != "Delete":
            resource["PolicyAction"] = "Retain" if change.action == "Remove" else "ReplaceAndRetain"
    if change.properties:
        resource["Scope"].append("Properties")
    for item in change.properties:
        resource["Details"].append(_detail(item, values=values))
    for name in change.attributes:
        resource["Scope"].append(name)
        target = {"Attribute": name, "RequiresRecreation": "Never"}
        detail = {"Target": target, "Evaluation": "Static", "ChangeSource": "DirectModification"}
        resource["Details"].append(detail)
    return {"Type": "Resource", "ResourceChange": resource}


def _detail(change: PropertyChange, *, values: bool) -> dict[str, Any]:
    target = {
        "Attribute": "Properties",
        "Name": change.name,
        "RequiresRecreation": change.recreation,
        "Path": f"/Properties/{change.name}",
    }
    if values:
        kinds = {(True, False): "Add", (False, True): "Remove"}
        target["AttributeChangeType"] = kinds.get((change.before is None, change.after is None), "Modify")
        for key, value in (("BeforeValue", change.before), ("AfterValue", change.after)):
            if value is not None:
                target[key] = value if isinstance(value, str) else json.dumps(value)
    detail: dict[str, Any] = {
        "Target": target,
        "Evaluation": "Dynamic" if change.dynamic else "Static",
        "ChangeSource": "ResourceReference" if change.cause else "DirectModification",
    }
    if change.cause:
        detail["CausingEntity"] = change.cause
    return detail
