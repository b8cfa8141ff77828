"""CodeBuild projects."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceType,
    api_params,
    is_error,
    tag_list,
)


class Project(ResourceType):
    """AWS::CodeBuild::Project: only its name replaces it; Ref gives the name."""

    type_name = "AWS::CodeBuild::Project"
    applied = frozenset(
        ("Artifacts", "Cache", "Description", "EncryptionKey", "Environment", "LogsConfig", "Name")
    ) | {"QueuedTimeoutInMinutes", "ServiceRole", "Source", "SourceVersion", "Tags", "TimeoutInMinutes"}

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the project; a name that is taken is an error."""
        codebuild = context.client("codebuild")
        name = properties.get("Name") or context.name(150)
        try:
            codebuild.create_project(**self._params(context, "CreateProject", name, properties))
        except ClientError as error:
            if is_error(error, "ResourceAlreadyExistsException"):
                raise self.already_exists(name) from error
            raise
        return self._created(context, name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Apply all settings; one that the template no longer has gets CodeBuild's default."""
        defaults = {
            "Cache": {"Type": "NO_CACHE"},
            "Description": "",
            "EncryptionKey": context.arn("kms", "alias/aws/s3"),
            "LogsConfig": {},
            "QueuedTimeoutInMinutes": 480,
            "SourceVersion": "",
            "TimeoutInMinutes": 60,
        }
        values = self._params(context, "UpdateProject", physical_id, {**defaults, **properties})
        context.client("codebuild").update_project(**values)
        return self._created(context, physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the project; CodeBuild takes the name of one that is gone."""
        context.client("codebuild").delete_project(name=physical_id)

    @staticmethod
    def _params(
        context: ResourceContext, operation: str, name: str, properties: Properties
    ) -> dict[str, Any]:
        values = {**properties, "Name": name, "Tags": tag_list(properties.get("Tags"))}
        return api_params(context.client("codebuild"), operation, values)

    @staticmethod
    def _created(context: ResourceContext, name: str) -> Created:
        arn = context.arn("codebuild", f"project/{name}")
        return Created(name, {"Arn": arn, "Id": arn})
