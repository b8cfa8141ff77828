"""CloudWatch Logs groups."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    changed,
    is_error,
    tag_map,
)


class LogGroup(ResourceType):
    """AWS::Logs::LogGroup."""

    type_name = "AWS::Logs::LogGroup"
    applied = frozenset(("KmsKeyId", "LogGroupName", "RetentionInDays", "Tags"))
    recorded = frozenset(
        (
            "BearerTokenAuthenticationEnabled",
            "DataProtectionPolicy",
            "DeletionProtectionEnabled",
            "LogGroupClass",
        )
    ) | {"FieldIndexPolicies", "ResourcePolicyDocument"}

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the group; a name that is taken is an error."""
        logs = context.client("logs")
        name = properties.get("LogGroupName") or context.name(512)
        key = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        try:
            logs.create_log_group(logGroupName=name, tags=tag_map(properties.get("Tags")), **key)
        except ClientError as error:
            if is_error(error, "ResourceAlreadyExistsException"):
                raise self.already_exists(name) from error
            raise
        context.physical_id = name
        self._set_retention(logs, name, properties)
        return self._created(context, name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change retention, key and tags."""
        logs = context.client("logs")
        created = self._created(context, physical_id)
        if changed(properties, old, "RetentionInDays"):
            self._set_retention(logs, physical_id, properties)
        if changed(properties, old, "Tags"):
            arn = created.attributes["Arn"].removesuffix(":*")
            logs.untag_resource(resourceArn=arn, tagKeys=list(tag_map(old.get("Tags"))))
            logs.tag_resource(resourceArn=arn, tags=tag_map(properties.get("Tags")))
        return created

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the group with its streams."""
        try:
            context.client("logs").delete_log_group(logGroupName=physical_id)
        except ClientError as error:
            if not is_error(error, "ResourceNotFoundException"):
                raise

    @staticmethod
    def _set_retention(logs: Any, name: str, properties: Properties) -> None:
        days = properties.get("RetentionInDays")
        if days is None:
            logs.delete_retention_policy(logGroupName=name)
        else:
            logs.put_retention_policy(logGroupName=name, retentionInDays=int(days))

    @staticmethod
    def _created(context: ResourceContext, name: str) -> Created:
        return Created(name, {"Arn": context.arn("logs", f"log-group:{name}:*")})
