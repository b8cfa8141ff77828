"""Step Functions state machines."""

from __future__ import annotations

import json
import re
from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceError,
    ResourceType,
    is_error,
    tag_list,
)


class StateMachine(ResourceType):
    """AWS::StepFunctions::StateMachine."""

    type_name = "AWS::StepFunctions::StateMachine"
    applied = frozenset(
        ("Definition", "DefinitionString", "DefinitionSubstitutions", "RoleArn", "StateMachineName", "Tags")
    ) | {"StateMachineType"}
    recorded = frozenset(("EncryptionConfiguration", "LoggingConfiguration", "TracingConfiguration"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the state machine; a name that is taken is an error."""
        name = properties.get("StateMachineName") or context.name(80)
        tags = [{"key": tag["Key"], "value": tag["Value"]} for tag in tag_list(properties.get("Tags"))]
        try:
            arn = context.client("stepfunctions").create_state_machine(
                name=name,
                definition=_definition(properties),
                roleArn=properties["RoleArn"],
                type=properties.get("StateMachineType", "STANDARD"),
                tags=tags,
            )["stateMachineArn"]
        except ClientError as error:
            if is_error(error, "StateMachineAlreadyExists"):
                raise self.already_exists(name) from error
            raise
        return Created(arn, {"Arn": arn, "Name": name})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Change definition and role."""
        context.client("stepfunctions").update_state_machine(
            stateMachineArn=physical_id, definition=_definition(properties), roleArn=properties["RoleArn"]
        )
        return Created(physical_id, {"Arn": physical_id, "Name": physical_id.rsplit(":", 1)[-1]})

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the state machine."""
        try:
            context.client("stepfunctions").delete_state_machine(stateMachineArn=physical_id)
        except ClientError as error:
            if not is_error(error, "StateMachineDoesNotExist"):
                raise


def _definition(properties: Properties) -> str:
    if "DefinitionString" in properties:
        text: str = properties["DefinitionString"]
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    else:
        raise ResourceError("A state machine needs DefinitionString or Definition")
    substitutions: dict[str, Any] = properties.get("DefinitionSubstitutions", {})
    return re.sub(r"\$\{(\w+)\}", lambda found: str(substitutions.get(found.group(1), found.group(0))), text)
