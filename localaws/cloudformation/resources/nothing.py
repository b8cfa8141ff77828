"""Resource types that stand for nothing outside the stack."""

from __future__ import annotations

from typing import Any

from localaws.cloudformation.resources.base import Created, Properties, ResourceContext, ResourceType


class _Nothing(ResourceType):
    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Make nothing but a name."""
        return Created(context.name(128))

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change nothing."""
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete nothing."""

    def replaced_by(self, name: str, old: Any, new: Any) -> bool:
        """Never replace."""
        return False


class CdkMetadata(_Nothing):
    """AWS::CDK::Metadata: which constructs an app uses."""

    type_name = "AWS::CDK::Metadata"
    applied = frozenset()
    recorded = frozenset(("Analytics",))


class WaitConditionHandle(_Nothing):
    """AWS::CloudFormation::WaitConditionHandle, used as a placeholder in otherwise empty stacks."""

    type_name = "AWS::CloudFormation::WaitConditionHandle"
    applied = frozenset()
