"""Custom resources, asked and answered through real functions."""

from __future__ import annotations

import json
import textwrap
import time
from typing import Any

from tests.localaws.stacks import Stacks, template

FUNCTION = textwrap.dedent(
    """
    import json, urllib.request

    def handler(event, context):
        properties = event["ResourceProperties"]
        if properties.get("Silent") == "true":
            return
        failing = event["RequestType"] in properties.get("FailOn", [])
        answer = {
            "Status": "FAILED" if failing else "SUCCESS",
            "Reason": "told to",
            "PhysicalResourceId": properties["Id"],
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "Data": {"B": "x" * 5000} if "Big" in properties else {"Seen": json.dumps(event)},
        }
        print("REQUEST", event["RequestType"], event.get("PhysicalResourceId"))
        request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
        urllib.request.urlopen(request)
    """
)


def custom(identifier: str, **properties: Any) -> str:
    trust = {"Version": "2012-10-17", "Statement": []}
    function = {
        "Code": {"ZipFile": FUNCTION},
        "Handler": "index.handler",
        "Runtime": "python3.12",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Timeout": 30,
        "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
    }
    token = {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}}
    resources = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}},
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": {"Fn::Sub": "/custom/${AWS::StackName}"}, "RetentionInDays": 1},
        },
        "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Thing": {"Type": "Custom::Thing", "Properties": {**token, "Id": identifier, **properties}},
    }
    attribute = "B" if "Big" in properties else "Seen"
    return template(resources, Outputs={"Seen": {"Value": {"Fn::GetAtt": ["Thing", attribute]}}})


def requests(stacks: Stacks, stack: str, count: int) -> list[str]:
    """Return what the function was asked, in order: type and physical id. Its log comes after its answer."""
    logs, deadline = stacks.aws.client("logs"), time.monotonic() + 20
    asked: list[str] = []
    while len(asked) < count and time.monotonic() < deadline:
        events = logs.filter_log_events(logGroupName=f"/custom/{stack}")["events"]
        messages = [event["message"] for event in sorted(events, key=lambda event: event["timestamp"])]
        asked = [message.removeprefix("REQUEST ") for message in messages if message.startswith("REQUEST ")]
    return asked


def test_a_custom_resource_is_asked_as_on_aws(stacks: Stacks) -> None:
    capability = {"Capabilities": ["CAPABILITY_IAM"]}
    nested = {"List": [1, True, {"Deep": 2.5}]}
    assert stacks.create("custom", custom("one", Nested=nested), **capability) == "CREATE_COMPLETE"
    seen = json.loads(stacks.outputs("custom")["Seen"])
    assert seen["RequestType"] == "Create"
    assert seen["ResourceType"] == "Custom::Thing"
    assert seen["ResourceProperties"]["Nested"] == {"List": ["1", "true", {"Deep": "2.5"}]}
    assert "PhysicalResourceId" not in seen

    assert stacks.update("custom", custom("two"), **capability) == "UPDATE_COMPLETE"
    seen = json.loads(stacks.outputs("custom")["Seen"])
    assert seen["RequestType"] == "Update"
    assert seen["PhysicalResourceId"] == "one"
    assert seen["OldResourceProperties"]["Id"] == "one"
    assert seen["ResourceProperties"]["Id"] == "two"
    assert requests(stacks, "custom", 3) == ["Create None", "Update one", "Delete one"]

    failing = custom("two", FailOn=["Update"])
    assert stacks.update("custom", failing, **capability) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Received response status [FAILED] from custom resource. Message returned: told to" in (
        stacks.reasons("custom")
    )
    assert requests(stacks, "custom", 5)[3:] == ["Update two", "Update two"]

    assert stacks.update("custom", custom("two", Big="yes"), **capability) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Response object is too long" in stacks.reasons("custom")
    assert stacks.delete("custom") == "DELETE_COMPLETE"


def test_a_custom_resource_that_fails_is_deleted_again(stacks: Stacks) -> None:
    text = custom("half", FailOn=["Create"])
    status = stacks.create("half", text, Capabilities=["CAPABILITY_IAM"], DisableRollback=True)
    assert status == "CREATE_FAILED"
    assert requests(stacks, "half", 1) == ["Create None"]
    stacks.delete("half")
    stack_ids = [
        item["StackId"]
        for item in stacks.api.list_stacks(StackStatusFilter=["DELETE_COMPLETE"])["StackSummaries"]
        if item["StackName"] == "half"
    ]
    assert ("Thing", "DELETE_COMPLETE") in stacks.events(stack_ids[0])


def test_a_custom_resource_that_is_silent_times_out(stacks: Stacks) -> None:
    text = custom("silent", Silent=True, ServiceTimeout=1)
    assert stacks.create("silent", text, Capabilities=["CAPABILITY_IAM"]) == "ROLLBACK_FAILED"
    assert "did not receive a response from your Custom Resource" in stacks.reasons("silent")


def test_a_resource_in_progress_is_described(stacks: Stacks) -> None:
    cloudformation = stacks.aws.client("cloudformation")
    text = custom("silent", Silent=True, ServiceTimeout=3)
    cloudformation.create_stack(StackName="slow", TemplateBody=text, Capabilities=["CAPABILITY_IAM"])

    def described() -> set[str]:
        found = cloudformation.describe_stack_resources(StackName="slow")["StackResources"]
        return {item["ResourceStatus"] for item in found if item["LogicalResourceId"] == "Thing"}

    deadline = time.monotonic() + 30
    while not (seen := described()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert seen == {"CREATE_IN_PROGRESS"}
    one = cloudformation.describe_stack_resource(StackName="slow", LogicalResourceId="Thing")
    assert one["StackResourceDetail"]["ResourceStatus"] == "CREATE_IN_PROGRESS"
