"""AWS::CodeBuild::Project through CloudFormation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localaws.codebuild.builds import ROLE, Builds
from tests.localaws.stacks import Stacks, template


def resources(**properties: Any) -> str:
    project = {
        "Name": "of-a-stack",
        "Artifacts": {"Type": "NO_ARTIFACTS"},
        "Cache": {"Type": "NO_CACHE"},
        "EncryptionKey": "alias/aws/s3",
        "Environment": {
            "Type": "LINUX_CONTAINER",
            "Image": "aws/codebuild/standard:7.0",
            "ComputeType": "BUILD_GENERAL1_SMALL",
            "PrivilegedMode": True,
            "EnvironmentVariables": [{"Name": "A", "Type": "PLAINTEXT", "Value": "one"}],
        },
        "LogsConfig": {"CloudWatchLogs": {"Status": "ENABLED", "GroupName": {"Ref": "Log"}}},
        "ServiceRole": ROLE,
        "Source": {
            "Type": "NO_SOURCE",
            "BuildSpec": "version: 0.2\nphases: {build: {commands: ['echo $A']}}",
        },
        "QueuedTimeoutInMinutes": 30,
        "TimeoutInMinutes": 20,
    }
    return template(
        {
            "Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/of/a/stack"}},
            "Project": {"Type": "AWS::CodeBuild::Project", "Properties": {**project, **properties}},
        },
        Outputs={"Name": {"Value": {"Ref": "Project"}}, "Arn": {"Value": {"Fn::GetAtt": "Project.Arn"}}},
    )


def test_a_project_of_a_stack(builds: Builds, stacks: Stacks) -> None:
    assert stacks.create("with-project", resources()) == "CREATE_COMPLETE"
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stacks.describe("with-project")["Outputs"]}
    (project,) = builds.api.batch_get_projects(names=[outputs["Name"]])["projects"]
    assert project["arn"] == outputs["Arn"]
    assert (project["timeoutInMinutes"], project["queuedTimeoutInMinutes"]) == (20, 30)
    assert project["environment"]["privilegedMode"] is True
    build = builds.run("of-a-stack")
    assert builds.printed(build) == ["one"]
    assert build["logs"]["groupName"] == "/of/a/stack"

    changed = resources(
        TimeoutInMinutes={"Ref": "AWS::NoValue"}, Tags=[{"Key": "team", "Value": "x"}], Description="changed"
    )
    assert stacks.update("with-project", changed) == "UPDATE_COMPLETE"
    (project,) = builds.api.batch_get_projects(names=["of-a-stack"])["projects"]
    assert (project["timeoutInMinutes"], project["description"]) == (60, "changed")
    assert project["tags"] == [{"key": "team", "value": "x"}]
    assert builds.run("of-a-stack")["buildNumber"] == 2

    assert stacks.update("with-project", resources(Name="of-a-stack-2")) == "UPDATE_COMPLETE"
    assert builds.api.batch_get_projects(names=["of-a-stack"])["projectsNotFound"] == ["of-a-stack"]

    assert stacks.delete("with-project") == "DELETE_COMPLETE"
    assert builds.api.batch_get_projects(names=["of-a-stack-2"])["projects"] == []


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"ConcurrentBuildLimit": 1},
            "does not support property ConcurrentBuildLimit of AWS::CodeBuild::Project",
        ),
        ({"Source": {"Type": "GITHUB", "Location": "x"}}, "not GITHUB"),
    ],
)
def test_a_property_without_effect_here_is_refused(
    stacks: Stacks, properties: dict[str, Any], told: str
) -> None:
    assert stacks.create("refused-project", resources(**properties)) == "ROLLBACK_COMPLETE"

    assert told in stacks.reasons("refused-project")
