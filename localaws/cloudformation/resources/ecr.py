"""ECR repositories."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    api_params,
    changed,
    is_error,
    tag_list,
)


class Repository(ResourceType):
    """AWS::ECR::Repository."""

    type_name = "AWS::ECR::Repository"
    applied = frozenset(
        ("EmptyOnDelete", "EncryptionConfiguration", "ImageScanningConfiguration", "ImageTagMutability")
    ) | {"LifecyclePolicy", "RepositoryName", "RepositoryPolicyText", "Tags"}
    recorded = frozenset(("ImageTagMutabilityExclusionFilters",))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the repository with its policies; ECR's names are lower case."""
        ecr = context.client("ecr")
        name = properties.get("RepositoryName") or context.name(256, lower=True)
        settings = {
            key: properties[key]
            for key in ("EncryptionConfiguration", "ImageScanningConfiguration", "ImageTagMutability", "Tags")
            if key in properties
        }
        try:
            ecr.create_repository(**api_params(ecr, "CreateRepository", {"RepositoryName": name, **settings}))
        except ClientError as error:
            if is_error(error, "RepositoryAlreadyExistsException"):
                raise self.already_exists(name) from error
            raise
        context.physical_id = name
        self._set_policies(ecr, name, properties, {})
        return self._created(context, name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Apply the settings that changed."""
        ecr = context.client("ecr")
        created = self._created(context, physical_id)
        if changed(properties, old, "ImageTagMutability"):
            mutability = properties.get("ImageTagMutability", "MUTABLE")
            ecr.put_image_tag_mutability(repositoryName=physical_id, imageTagMutability=mutability)
        if changed(properties, old, "ImageScanningConfiguration"):
            scan = properties.get("ImageScanningConfiguration", {}).get("ScanOnPush") in {True, "true"}
            ecr.put_image_scanning_configuration(
                repositoryName=physical_id, imageScanningConfiguration={"scanOnPush": scan}
            )
        if changed(properties, old, "Tags"):
            arn = created.attributes["Arn"]
            ecr.untag_resource(resourceArn=arn, tagKeys=[tag["Key"] for tag in tag_list(old.get("Tags"))])
            ecr.tag_resource(resourceArn=arn, tags=tag_list(properties.get("Tags")))
        self._set_policies(ecr, physical_id, properties, old)
        return created

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the repository; ECR refuses one with images unless EmptyOnDelete is set."""
        force = properties.get("EmptyOnDelete") in {True, "true"}
        try:
            context.client("ecr").delete_repository(repositoryName=physical_id, force=force)
        except ClientError as error:
            if not is_error(error, "RepositoryNotFoundException"):
                raise

    @staticmethod
    def _set_policies(ecr: Any, name: str, properties: Properties, old: Properties) -> None:
        if changed(properties, old, "LifecyclePolicy"):
            text = properties.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
            if text:
                ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=text)
            else:
                ecr.delete_lifecycle_policy(repositoryName=name)
        if changed(properties, old, "RepositoryPolicyText"):
            policy = properties.get("RepositoryPolicyText")
            if policy:
                text = policy if isinstance(policy, str) else json.dumps(policy)
                ecr.set_repository_policy(repositoryName=name, policyText=text)
            else:
                ecr.delete_repository_policy(repositoryName=name)

    @staticmethod
    def _created(context: ResourceContext, name: str) -> Created:
        registry = f"{context.scope.account}.dkr.ecr.{context.scope.region}.amazonaws.com"
        arn = context.arn("ecr", f"repository/{name}")
        return Created(name, {"Arn": arn, "RepositoryUri": f"{registry}/{name}"})
