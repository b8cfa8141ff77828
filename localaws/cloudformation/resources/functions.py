"""Lambda functions, their permissions and asynchronous settings."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceError,
    ResourceType,
    api_params,
    changed,
    is_error,
    tag_map,
)

_CONFIGURATION = (
    *("DeadLetterConfig", "Description", "Environment", "EphemeralStorage", "Handler", "KmsKeyArn", "Layers"),
    *("LoggingConfig", "MemorySize", "Role", "Runtime", "Timeout", "TracingConfig", "VpcConfig"),
)


class Function(ResourceType):
    """AWS::Lambda::Function."""

    type_name = "AWS::Lambda::Function"
    applied = frozenset(_CONFIGURATION) | {"Architectures", "Code", "FunctionName", "PackageType", "Tags"}
    recorded = frozenset(("RecursiveLoop", "ReservedConcurrentExecutions"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the function; a name that is taken is an error."""
        client = context.client("lambda")
        name = properties.get("FunctionName") or context.name(64)
        settings = {key: properties[key] for key in (*_CONFIGURATION, "Architectures") if key in properties}
        values = {"FunctionName": name, "Code": _code(properties), "Tags": tag_map(properties.get("Tags"))}
        try:
            client.create_function(**api_params(client, "CreateFunction", {**settings, **values}))
        except ClientError as error:
            if is_error(error, "ResourceConflictException"):
                raise self.already_exists(name) from error
            raise
        return self._created(context, name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change code, configuration and tags."""
        client = context.client("lambda")
        created = self._created(context, physical_id)
        if changed(properties, old, "Code", "Runtime", "Architectures"):
            values = {"FunctionName": physical_id, **_code(properties)}
            client.update_function_code(**api_params(client, "UpdateFunctionCode", values))
        if changed(properties, old, *_CONFIGURATION):
            settings = {key: properties[key] for key in _CONFIGURATION if key in properties}
            settings.setdefault("Environment", {"Variables": {}})
            values = {"FunctionName": physical_id, **settings}
            client.update_function_configuration(**api_params(client, "UpdateFunctionConfiguration", values))
        if changed(properties, old, "Tags"):
            arn = created.attributes["Arn"]
            client.untag_resource(Resource=arn, TagKeys=list(tag_map(old.get("Tags"))))
            client.tag_resource(Resource=arn, Tags=tag_map(properties.get("Tags")))
        return created

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the function."""
        try:
            context.client("lambda").delete_function(FunctionName=physical_id)
        except ClientError as error:
            if not is_error(error, "ResourceNotFoundException"):
                raise

    @staticmethod
    def _created(context: ResourceContext, name: str) -> Created:
        return Created(name, {"Arn": context.arn("lambda", f"function:{name}")})


def _code(properties: Properties) -> dict[str, Any]:
    code = dict(properties["Code"])
    if "ImageUri" in code:
        raise ResourceError("The local AWS runs Lambda functions from zip files only, not from ImageUri")
    if "ZipFile" in code:
        suffix = "py" if str(properties.get("Runtime", "")).startswith("python") else "js"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo(f"index.{suffix}", (1980, 1, 1, 0, 0, 0)), code["ZipFile"])
        code["ZipFile"] = packed.getvalue()
    return code


class Permission(ResourceType):
    """AWS::Lambda::Permission."""

    type_name = "AWS::Lambda::Permission"
    applied = frozenset(
        ("Action", "FunctionName", "Principal", "PrincipalOrgID", "SourceAccount", "SourceArn")
    )
    recorded = frozenset(("EventSourceToken", "FunctionUrlAuthType", "InvokedViaFunctionUrl"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Add a statement to the function's policy."""
        client = context.client("lambda")
        statement = context.name(100)
        settings = {key: properties[key] for key in self.applied if key in properties}
        client.add_permission(StatementId=statement, **settings)
        return Created(statement, {"Id": statement})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change nothing: every applied property replaces the permission."""
        return Created(physical_id, {"Id": physical_id})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Remove the statement."""
        try:
            context.client("lambda").remove_permission(
                FunctionName=properties["FunctionName"], StatementId=physical_id
            )
        except ClientError as error:
            if not is_error(error, "ResourceNotFoundException"):
                raise


class EventInvokeConfig(ResourceType):
    """AWS::Lambda::EventInvokeConfig: retries and destinations of asynchronous invocations."""

    type_name = "AWS::Lambda::EventInvokeConfig"
    applied = frozenset(
        ("DestinationConfig", "FunctionName", "MaximumEventAgeInSeconds", "MaximumRetryAttempts", "Qualifier")
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Put the settings."""
        physical_id = f"{properties['FunctionName']}|{properties.get('Qualifier', '$LATEST')}"
        return self.update(context, physical_id, properties, {})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Put the settings again."""
        client = context.client("lambda")
        client.put_function_event_invoke_config(
            **api_params(client, "PutFunctionEventInvokeConfig", properties)
        )
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the settings."""
        try:
            context.client("lambda").delete_function_event_invoke_config(
                FunctionName=properties["FunctionName"]
            )
        except ClientError as error:
            if not is_error(error, "ResourceNotFoundException"):
                raise
