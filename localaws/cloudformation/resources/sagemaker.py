"""SageMaker models."""

from __future__ import annotations

import secrets
import string

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


class Model(ResourceType):
    """AWS::SageMaker::Model: everything but its tags replaces it; Ref gives the ARN."""

    type_name = "AWS::SageMaker::Model"
    applied = frozenset(
        ("Containers", "EnableNetworkIsolation", "ExecutionRoleArn", "InferenceExecutionConfig", "ModelName")
    ) | {"PrimaryContainer", "Tags", "VpcConfig"}

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the model; a name that is taken is an error."""
        sagemaker = context.client("sagemaker")
        random = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(12))
        name = properties.get("ModelName") or f"{context.logical_id[:50]}-{random}"
        values = {**properties, "ModelName": name, "Tags": tag_list(properties.get("Tags"))}
        try:
            arn = sagemaker.create_model(**api_params(sagemaker, "CreateModel", values))["ModelArn"]
        except ClientError as error:
            if is_error(error, "ValidationException") and "already existing" in str(error):
                raise self.already_exists(name) from error
            raise
        return Created(arn, {"ModelArn": arn, "ModelName": name})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change the tags."""
        sagemaker = context.client("sagemaker")
        if changed(properties, old, "Tags"):
            keys = [tag["Key"] for tag in tag_list(old.get("Tags"))]
            if keys:
                sagemaker.delete_tags(ResourceArn=physical_id, TagKeys=keys)
            sagemaker.add_tags(ResourceArn=physical_id, Tags=tag_list(properties.get("Tags")))
        # An ARN is in lower case, the name as it was created.
        name = sagemaker.describe_model(ModelName=_name(physical_id))["ModelName"]
        return Created(physical_id, {"ModelArn": physical_id, "ModelName": name})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the model."""
        try:
            context.client("sagemaker").delete_model(ModelName=_name(physical_id))
        except ClientError as error:
            if "Could not find" not in str(error):
                raise


def _name(arn: str) -> str:
    return arn.rsplit("/", 1)[-1]
