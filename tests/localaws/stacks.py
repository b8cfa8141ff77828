"""Stacks of one test, driven through CloudFormation's own API."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from localaws.session import LocalAws

PARAMETER = "AWS::SSM::Parameter"


def parameter(value: Any, name: str | None = None, **more: Any) -> dict[str, Any]:
    """Return an SSM parameter as a resource."""
    properties = {"Type": "String", "Value": value, **({"Name": name} if name else {})}
    return {"Type": PARAMETER, "Properties": properties, **more}


def template(resources: Mapping[str, Any], **sections: Any) -> str:
    return json.dumps({"Resources": resources, **sections})


class Stacks:
    """The stacks of one test; they are deleted after it."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        self.api = aws.client("cloudformation")
        self.ssm = aws.client("ssm")
        self._names: list[str] = []

    def create(self, name: str, text: str, **more: Any) -> str:
        self._names.append(name)
        self.api.create_stack(StackName=name, TemplateBody=text, **more)
        return self.settle(name)

    def update(self, name: str, text: str, **more: Any) -> str:
        self.api.update_stack(StackName=name, TemplateBody=text, **more)
        return self.settle(name)

    def delete(self, name: str, **more: Any) -> str:
        stack_id = self.describe(name)["StackId"]
        self.api.delete_stack(StackName=name, **more)
        return self.settle(stack_id)

    def describe(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.describe_stacks(StackName=name)["Stacks"][0]
        return found

    def settle(self, name: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = str(self.describe(name)["StackStatus"])
            if not status.endswith("_IN_PROGRESS"):
                return status
            time.sleep(0.02)
        raise AssertionError(f"{name} is still {status}")

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return (logical id, status) of the newest operation and its rollback, oldest first."""
        found = self.api.describe_stack_events(StackName=name)["StackEvents"]
        starts = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}
        listed = []
        for event in found:
            listed.append((event["LogicalResourceId"], event["ResourceStatus"]))
            if event["ResourceType"] == "AWS::CloudFormation::Stack" and event["ResourceStatus"] in starts:
                break
        return listed[::-1]

    def reasons(self, name: str) -> str:
        found = self.api.describe_stack_events(StackName=name)["StackEvents"]
        return "\n".join(event.get("ResourceStatusReason", "") for event in found)

    def outputs(self, name: str) -> dict[str, str]:
        return {item["OutputKey"]: item["OutputValue"] for item in self.describe(name).get("Outputs", [])}

    def value(self, name: str) -> str | None:
        try:
            return str(self.ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError:
            return None

    def clean_up(self) -> None:
        for name in reversed(self._names):
            try:
                self.api.update_termination_protection(StackName=name, EnableTerminationProtection=False)
                self.delete(name)
            except ClientError:
                continue
