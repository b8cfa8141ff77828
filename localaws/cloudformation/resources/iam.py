"""IAM roles, inline policies and managed policies."""

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
    tag_list,
)


def _document(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class Role(ResourceType):
    """AWS::IAM::Role."""

    type_name = "AWS::IAM::Role"
    applied = frozenset(
        ("AssumeRolePolicyDocument", "Description", "ManagedPolicyArns", "MaxSessionDuration", "Path")
    ) | {"PermissionsBoundary", "Policies", "RoleName", "Tags"}

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the role with its policies."""
        iam = context.client("iam")
        name = properties.get("RoleName") or context.name(64)
        arguments: dict[str, Any] = {
            "RoleName": name,
            "AssumeRolePolicyDocument": _document(properties["AssumeRolePolicyDocument"]),
            "Tags": tag_list(properties.get("Tags")),
            "MaxSessionDuration": int(properties.get("MaxSessionDuration", 3600)),
        }
        for key in ("Description", "Path", "PermissionsBoundary"):
            if key in properties:
                arguments[key] = properties[key]
        try:
            role = iam.create_role(**arguments)["Role"]
        except ClientError as error:
            if is_error(error, "EntityAlreadyExists"):
                raise self.already_exists(name) from error
            raise
        context.physical_id = name
        self._set_policies(iam, name, properties, {})
        return Created(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change trust, settings, policies and tags."""
        iam = context.client("iam")
        if changed(properties, old, "AssumeRolePolicyDocument"):
            document = _document(properties["AssumeRolePolicyDocument"])
            iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=document)
        if changed(properties, old, "Description", "MaxSessionDuration"):
            iam.update_role(
                RoleName=physical_id,
                Description=properties.get("Description", ""),
                MaxSessionDuration=int(properties.get("MaxSessionDuration", 3600)),
            )
        if changed(properties, old, "PermissionsBoundary"):
            boundary = properties.get("PermissionsBoundary")
            if boundary:
                iam.put_role_permissions_boundary(RoleName=physical_id, PermissionsBoundary=boundary)
            else:
                iam.delete_role_permissions_boundary(RoleName=physical_id)
        if changed(properties, old, "Tags"):
            iam.untag_role(RoleName=physical_id, TagKeys=[tag["Key"] for tag in tag_list(old.get("Tags"))])
            iam.tag_role(RoleName=physical_id, Tags=tag_list(properties.get("Tags")))
        self._set_policies(iam, physical_id, properties, old)
        role = iam.get_role(RoleName=physical_id)["Role"]
        return Created(physical_id, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Take off the role's own policies and delete it; IAM refuses while others attached theirs."""
        iam = context.client("iam")
        try:
            self._set_policies(iam, physical_id, {}, properties)
            iam.delete_role(RoleName=physical_id)
        except ClientError as error:
            if not is_error(error, "NoSuchEntity"):
                raise

    @staticmethod
    def _set_policies(iam: Any, name: str, properties: Properties, old: Properties) -> None:
        wanted, attached = set(properties.get("ManagedPolicyArns", ())), set(old.get("ManagedPolicyArns", ()))
        for arn in sorted(wanted - attached):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        for arn in sorted(attached - wanted):
            iam.detach_role_policy(RoleName=name, PolicyArn=arn)
        inline = {policy["PolicyName"]: policy for policy in properties.get("Policies", ())}
        before = {policy["PolicyName"]: policy for policy in old.get("Policies", ())}
        for policy_name, policy in inline.items():
            if before.get(policy_name) != policy:
                document = _document(policy["PolicyDocument"])
                iam.put_role_policy(RoleName=name, PolicyName=policy_name, PolicyDocument=document)
        for policy_name in before.keys() - inline.keys():
            iam.delete_role_policy(RoleName=name, PolicyName=policy_name)


class Policy(ResourceType):
    """AWS::IAM::Policy: one inline policy on roles, users and groups."""

    type_name = "AWS::IAM::Policy"
    applied = frozenset(("Groups", "PolicyDocument", "PolicyName", "Roles", "Users"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Put the policy on every principal."""
        physical_id = context.name(64)
        context.physical_id = physical_id
        self._apply(context.client("iam"), properties, {})
        return Created(physical_id)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Put the new document and take the policy off principals that are no longer named."""
        self._apply(context.client("iam"), properties, old)
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Take the policy off every principal."""
        self._apply(context.client("iam"), {}, properties)

    @staticmethod
    def _apply(iam: Any, properties: Properties, old: Properties) -> None:
        name, before = properties.get("PolicyName"), old.get("PolicyName")
        for kind in ("Role", "User", "Group"):
            wanted, had = properties.get(f"{kind}s", []), old.get(f"{kind}s", [])
            for principal in wanted:
                document = _document(properties["PolicyDocument"])
                put = getattr(iam, f"put_{kind.lower()}_policy")
                put(**{f"{kind}Name": principal, "PolicyName": name, "PolicyDocument": document})
            for principal in had:
                if principal not in wanted or before != name:
                    _remove(iam, kind, principal, before)


def _remove(iam: Any, kind: str, principal: str, policy_name: str | None) -> None:
    try:
        getattr(iam, f"delete_{kind.lower()}_policy")(**{f"{kind}Name": principal, "PolicyName": policy_name})
    except ClientError as error:
        if not is_error(error, "NoSuchEntity"):
            raise


class ManagedPolicy(ResourceType):
    """AWS::IAM::ManagedPolicy."""

    type_name = "AWS::IAM::ManagedPolicy"
    applied = frozenset(
        ("Description", "Groups", "ManagedPolicyName", "Path", "PolicyDocument", "Roles", "Users")
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the policy and attach it."""
        iam = context.client("iam")
        name = properties.get("ManagedPolicyName") or context.name(128)
        optional = {key: properties[key] for key in ("Description", "Path") if key in properties}
        try:
            arn = iam.create_policy(
                PolicyName=name, PolicyDocument=_document(properties["PolicyDocument"]), **optional
            )["Policy"]["Arn"]
        except ClientError as error:
            if is_error(error, "EntityAlreadyExists"):
                raise self.already_exists(name) from error
            raise
        context.physical_id = arn
        self._attach(iam, arn, properties, {})
        return Created(arn, {"PolicyArn": arn})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Make the new document the default version (IAM keeps at most five) and move attachments."""
        iam = context.client("iam")
        if changed(properties, old, "PolicyDocument"):
            versions = iam.list_policy_versions(PolicyArn=physical_id)["Versions"]
            idle = [version["VersionId"] for version in versions if not version["IsDefaultVersion"]]
            if len(versions) >= 5:
                iam.delete_policy_version(PolicyArn=physical_id, VersionId=idle[-1])
            document = _document(properties["PolicyDocument"])
            iam.create_policy_version(PolicyArn=physical_id, PolicyDocument=document, SetAsDefault=True)
        self._attach(iam, physical_id, properties, old)
        return Created(physical_id, {"PolicyArn": physical_id})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Detach and delete the policy with its versions."""
        iam = context.client("iam")
        self._attach(iam, physical_id, {}, properties)
        try:
            for version in iam.list_policy_versions(PolicyArn=physical_id)["Versions"]:
                if not version["IsDefaultVersion"]:
                    iam.delete_policy_version(PolicyArn=physical_id, VersionId=version["VersionId"])
            iam.delete_policy(PolicyArn=physical_id)
        except ClientError as error:
            if not is_error(error, "NoSuchEntity"):
                raise

    @staticmethod
    def _attach(iam: Any, arn: str, properties: Properties, old: Properties) -> None:
        for kind in ("Role", "User", "Group"):
            wanted, had = set(properties.get(f"{kind}s", ())), set(old.get(f"{kind}s", ()))
            for principal in sorted(wanted - had):
                getattr(iam, f"attach_{kind.lower()}_policy")(**{f"{kind}Name": principal, "PolicyArn": arn})
            for principal in sorted(had - wanted):
                try:
                    getattr(iam, f"detach_{kind.lower()}_policy")(
                        **{f"{kind}Name": principal, "PolicyArn": arn}
                    )
                except ClientError as error:
                    if not is_error(error, "NoSuchEntity"):
                        raise
