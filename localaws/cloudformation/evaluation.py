"""The evaluation of a stack's template against its live resources and what lies outside the stack."""

from __future__ import annotations

from typing import Any, Protocol

from localaws.cloudformation.intrinsics import NO_VALUE, Evaluation, References
from localaws.cloudformation.stack import Stack, Target
from localaws.cloudformation.template import TemplateError
from localaws.protocol import Scope


class Surroundings(Protocol):
    """What a stack sees of its account and region. Everything raises TemplateError."""

    def import_value(self, stack: Stack, name: str) -> str:
        """Return an export of the account and region, for a stack that does not export it itself."""

    def dynamic_reference(self, scope: Scope, service: str, name: str) -> str:
        """Return the value behind {{resolve:service:name}}."""

    def check_exports(self, stack: Stack, exports: dict[str, str]) -> None:
        """Refuse exports that clash with another stack's, or that change or drop one in use."""


class LiveResources:
    """References to the resources that a stack has now."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def ref(self, logical_id: str) -> str:
        """Return the physical id."""
        resource = self._stack.resources.get(logical_id)
        if resource is None or resource.physical_id is None:
            raise TemplateError(f"Unresolved resource dependencies [{logical_id}]: it does not exist")
        return resource.physical_id

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute."""
        self.ref(logical_id)
        resource = self._stack.resources[logical_id]
        value: Any = resource.attributes.get(name, NO_VALUE)
        for part in name.split(".") if value is NO_VALUE else ():
            container = resource.attributes if value is NO_VALUE else value
            if not isinstance(container, dict) or part not in container:
                raise missing_attribute(logical_id, resource.type, name)
            value = container[part]
        return value


def missing_attribute(logical_id: str, type_name: str, name: str) -> TemplateError:
    """Return CloudFormation's words for an attribute that a resource does not have."""
    if type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource":
        return TemplateError(
            f"CustomResource attribute error: Vendor response doesn't contain {name} attribute in object"
            f" {logical_id}"
        )
    return TemplateError(
        f"Template error: resource {logical_id} does not support attribute type {name} in Fn::GetAtt"
    )


def pseudo_parameters(stack: Stack, target: Target) -> dict[str, Any]:
    """Return the pseudo parameters of a stack."""
    region = stack.scope.region
    china, gov = region.startswith("cn-"), region.startswith("us-gov-")
    return {
        "AWS::AccountId": stack.scope.account,
        "AWS::NotificationARNs": list(target.notification_arns),
        "AWS::Partition": "aws-cn" if china else "aws-us-gov" if gov else "aws",
        "AWS::Region": region,
        "AWS::StackId": stack.stack_id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": "amazonaws.com.cn" if china else "amazonaws.com",
    }


def evaluation_of(
    stack: Stack, target: Target, surroundings: Surroundings, resources: References | None = None
) -> Evaluation:
    """Evaluate a target against the stack's live resources, or against other references."""
    return Evaluation(
        target.template,
        target.parameters.resolved,
        pseudo_parameters(stack, target),
        resources or LiveResources(stack),
        lambda name: surroundings.import_value(stack, name),
        lambda service, name: surroundings.dynamic_reference(stack.scope, service, name),
    )
