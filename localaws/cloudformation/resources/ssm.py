"""SSM parameters."""

from __future__ import annotations

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    changed,
    is_error,
    tag_list,
    tag_map,
)


class Parameter(ResourceType):
    """AWS::SSM::Parameter."""

    type_name = "AWS::SSM::Parameter"
    applied = frozenset(
        ("AllowedPattern", "DataType", "Description", "Name", "Tags", "Tier", "Type", "Value")
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the parameter; a name that is taken is an error."""
        ssm = context.client("ssm")
        name = properties.get("Name") or context.name(1000)
        settings = self._settings(properties)
        try:
            ssm.put_parameter(
                Name=name, Overwrite=False, Tags=tag_list(tag_map(properties.get("Tags"))), **settings
            )
        except ClientError as error:
            if is_error(error, "ParameterAlreadyExists"):
                raise self.already_exists(name) from error
            raise
        return Created(name, {"Type": properties["Type"], "Value": str(properties["Value"])})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Overwrite the value and move the tags."""
        ssm = context.client("ssm")
        ssm.put_parameter(Name=physical_id, Overwrite=True, **self._settings(properties))
        if changed(properties, old, "Tags"):
            wanted, had = tag_map(properties.get("Tags")), tag_map(old.get("Tags"))
            where = {"ResourceType": "Parameter", "ResourceId": physical_id}
            if had.keys() - wanted.keys():
                ssm.remove_tags_from_resource(**where, TagKeys=sorted(had.keys() - wanted.keys()))
            if wanted:
                ssm.add_tags_to_resource(**where, Tags=tag_list(wanted))
        return Created(physical_id, {"Type": properties["Type"], "Value": str(properties["Value"])})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the parameter."""
        try:
            context.client("ssm").delete_parameter(Name=physical_id)
        except ClientError as error:
            if not is_error(error, "ParameterNotFound"):
                raise

    @staticmethod
    def _settings(properties: Properties) -> dict[str, str]:
        names = ("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")
        return {name: str(properties[name]) for name in names if name in properties}
