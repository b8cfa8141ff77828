"""KMS keys and aliases."""

from __future__ import annotations

import json
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


def _policy(properties: Properties) -> str | None:
    policy = properties.get("KeyPolicy")
    return policy if policy is None or isinstance(policy, str) else json.dumps(policy)


class Key(ResourceType):
    """AWS::KMS::Key."""

    type_name = "AWS::KMS::Key"
    applied = frozenset(
        ("Description", "Enabled", "EnableKeyRotation", "KeyPolicy", "KeySpec", "KeyUsage")
    ) | {
        "MultiRegion",
        "PendingWindowInDays",
        "Tags",
    }
    recorded = frozenset(("BypassPolicyLockoutSafetyCheck", "RotationPeriodInDays"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the key."""
        kms = context.client("kms")
        arguments: dict[str, Any] = {
            key: properties[key] for key in ("Description", "KeySpec", "KeyUsage") if key in properties
        }
        policy = _policy(properties)
        if policy:
            arguments["Policy"] = policy
        if "MultiRegion" in properties:
            arguments["MultiRegion"] = properties["MultiRegion"] in {True, "true"}
        tags = [{"TagKey": key, "TagValue": value} for key, value in tag_map(properties.get("Tags")).items()]
        key = kms.create_key(**arguments, Tags=tags)["KeyMetadata"]
        context.physical_id = key["KeyId"]
        self._apply(kms, key["KeyId"], properties, {"Enabled": True})
        return Created(key["KeyId"], {"Arn": key["Arn"], "KeyId": key["KeyId"]})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change policy, description, rotation, state and tags."""
        kms = context.client("kms")
        if changed(properties, old, "KeyPolicy"):
            kms.put_key_policy(KeyId=physical_id, PolicyName="default", Policy=_policy(properties))
        if changed(properties, old, "Description"):
            kms.update_key_description(KeyId=physical_id, Description=properties.get("Description", ""))
        if changed(properties, old, "Tags"):
            kms.untag_resource(KeyId=physical_id, TagKeys=list(tag_map(old.get("Tags"))))
            tags = tag_map(properties.get("Tags"))
            kms.tag_resource(
                KeyId=physical_id, Tags=[{"TagKey": key, "TagValue": value} for key, value in tags.items()]
            )
        self._apply(kms, physical_id, properties, old)
        return Created(physical_id, {"Arn": context.arn("kms", f"key/{physical_id}"), "KeyId": physical_id})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Schedule the key's deletion."""
        days = int(properties.get("PendingWindowInDays", 30))
        try:
            context.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)
        except ClientError as error:
            if not is_error(error, "NotFoundException"):
                raise

    @staticmethod
    def _apply(kms: Any, key_id: str, properties: Properties, old: Properties) -> None:
        if changed(properties, old, "EnableKeyRotation"):
            rotate = properties.get("EnableKeyRotation") in {True, "true"}
            (kms.enable_key_rotation if rotate else kms.disable_key_rotation)(KeyId=key_id)
        if properties.get("Enabled", True) != old.get("Enabled", True):
            enable = properties.get("Enabled", True) in {True, "true"}
            (kms.enable_key if enable else kms.disable_key)(KeyId=key_id)


class Alias(ResourceType):
    """AWS::KMS::Alias."""

    type_name = "AWS::KMS::Alias"
    applied = frozenset(("AliasName", "TargetKeyId"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the alias; a name that is taken is an error."""
        name = properties["AliasName"]
        try:
            context.client("kms").create_alias(AliasName=name, TargetKeyId=properties["TargetKeyId"])
        except ClientError as error:
            if is_error(error, "AlreadyExistsException"):
                raise self.already_exists(name) from error
            raise
        return Created(name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Point the alias at another key."""
        context.client("kms").update_alias(AliasName=physical_id, TargetKeyId=properties["TargetKeyId"])
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the alias."""
        try:
            context.client("kms").delete_alias(AliasName=physical_id)
        except ClientError as error:
            if not is_error(error, "NotFoundException"):
                raise
