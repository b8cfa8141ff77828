"""CodeBuild's operations: projects, lists, overrides, tokens, and the errors that clients tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

from tests.localaws.codebuild.builds import Builds

QUICK = "version: 0.2\nphases: {build: {commands: [echo done]}}"


@contextmanager
def refused(code: str, text: str) -> Iterator[None]:
    with pytest.raises(ClientError) as raised:
        yield
    error = raised.value.response["Error"]
    assert (error["Code"], text in error["Message"]) == (code, True), error


def test_a_project_from_creation_to_deletion(builds: Builds) -> None:
    name = builds.project(QUICK, timeoutInMinutes=15, tags=[{"key": "team", "value": "x"}])
    (project,) = builds.api.batch_get_projects(names=[name, "absent"])["projects"]
    assert project["arn"] == f"arn:aws:codebuild:us-east-1:123456789012:project/{name}"
    assert (project["timeoutInMinutes"], project["queuedTimeoutInMinutes"]) == (15, 480)
    assert project["environment"]["privilegedMode"] is False
    assert builds.api.batch_get_projects(names=["absent"])["projectsNotFound"] == ["absent"]
    assert name in builds.api.list_projects(sortBy="CREATED_TIME", sortOrder="DESCENDING")["projects"]

    builds.api.update_project(name=name, description="changed")
    (project,) = builds.api.batch_get_projects(names=[project["arn"]])["projects"]
    assert (project["description"], project["timeoutInMinutes"]) == ("changed", 15)

    with refused("ResourceAlreadyExistsException", name):
        builds.api.create_project(
            name=name,
            source=project["source"],
            artifacts={"type": "NO_ARTIFACTS"},
            environment=project["environment"],
            serviceRole=project["serviceRole"],
        )
    builds.api.delete_project(name=name)
    builds.api.delete_project(name=name)
    with refused("ResourceNotFoundException", f"Project cannot be found: {project['arn']}"):
        builds.start(name)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"source": {"type": "GITHUB", "location": "x"}},
            "supports source types NO_SOURCE and S3, not GITHUB",
        ),
        ({"source": {"type": "S3", "location": "bucket"}}, "location must be a valid S3 source"),
        ({"source": {"type": "NO_SOURCE"}}, "buildspec must be provided"),
        ({"artifacts": {"type": "CODEPIPELINE"}}, "not CODEPIPELINE"),
        ({"cache": {"type": "LOCAL"}}, "cache type NO_CACHE, not LOCAL"),
        ({"vpcConfig": {"vpcId": "vpc-1"}}, "does not support vpcConfig of a project"),
        ({"timeoutInMinutes": 3000}, "timeoutInMinutes"),
        ({"name": "no spaces"}, "'name' failed to satisfy constraint"),
        (
            {"environment": {"environmentVariables": [{"name": "CODEBUILD_X", "value": ""}]}},
            "CODEBUILD_X is not allowed",
        ),
    ],
)
def test_a_project_that_is_refused(builds: Builds, settings: dict[str, object], told: str) -> None:
    with refused("InvalidInputException", told):
        builds.project(QUICK, **settings)


def test_the_overrides_are_of_one_build(builds: Builds) -> None:
    project = builds.project(QUICK)

    build = builds.run(
        project,
        buildspecOverride=QUICK.replace("done", "other"),
        imageOverride="another:1",
        computeTypeOverride="BUILD_GENERAL1_LARGE",
        privilegedModeOverride=True,
        environmentVariablesOverride=[{"name": "A", "value": "1"}],
        logsConfigOverride={"cloudWatchLogs": {"status": "DISABLED"}},
    )

    assert build["environment"] == {
        "type": "LINUX_CONTAINER",
        "image": "another:1",
        "computeType": "BUILD_GENERAL1_LARGE",
        "privilegedMode": True,
        "imagePullCredentialsType": "CODEBUILD",
        "environmentVariables": [{"name": "A", "value": "1", "type": "PLAINTEXT"}],
    }
    assert "groupName" not in build["logs"]
    again = builds.run(project)
    assert builds.printed(again) == ["done"]
    assert (again["buildNumber"], again["environment"]["environmentVariables"]) == (2, [])
    with refused("InvalidInputException", "does not support debugSessionEnabled of StartBuild"):
        builds.start(project, debugSessionEnabled=True)


def test_a_token_starts_one_build(builds: Builds) -> None:
    project = builds.project(QUICK)
    first = builds.start(project, idempotencyToken="once")

    assert builds.start(project, idempotencyToken="once") == first
    assert builds.api.list_builds_for_project(projectName=project)["ids"] == [first]
    with refused("InvalidInputException", "Parameter mismatch"):
        builds.start(project, idempotencyToken="once", imageOverride="another:1")
    builds.finished(first)


def test_builds_are_listed_by_time_in_pages(builds: Builds) -> None:
    builds.aws.put_builds(concurrent_builds=100)
    builds.aws.put_faults({"codebuild:*": {"mode": "fail", "phase": "QUEUED"}})
    project = builds.project(QUICK)
    started = [builds.start(project) for _ in range(103)]

    first = builds.api.list_builds_for_project(projectName=project)
    newer = builds.start(project)
    second = builds.api.list_builds_for_project(projectName=project, nextToken=first["nextToken"])

    assert first["ids"] + second["ids"] == started[::-1]
    assert "nextToken" not in second
    oldest = builds.api.list_builds_for_project(projectName=project, sortOrder="ASCENDING")["ids"]
    assert oldest == started[:100]
    assert builds.api.list_builds()["ids"][0] == newer
    with refused("InvalidInputException", "next token"):
        builds.api.list_builds(nextToken="bogus")
    with refused("ResourceNotFoundException", "Project cannot be found"):
        builds.api.list_builds_for_project(projectName="absent")
    builds.finished(newer)


def test_builds_by_id_and_arn(builds: Builds) -> None:
    project = builds.project(QUICK)
    build = builds.run(project)

    found = builds.api.batch_get_builds(ids=[build["arn"], "absent:1"])

    assert [item["id"] for item in found["builds"]] == [build["id"]]
    assert found["buildsNotFound"] == ["absent:1"]
    with refused("ResourceNotFoundException", "absent:1"):
        builds.api.stop_build(id="absent:1")

    retried = builds.finished(builds.api.retry_build(id=build["id"])["build"]["id"])
    assert (retried["buildStatus"], retried["buildNumber"]) == ("SUCCEEDED", 2)
    assert builds.api.batch_delete_builds(ids=[build["id"]])["buildsDeleted"] == [build["arn"]]
    assert builds.api.list_builds_for_project(projectName=project)["ids"] == [retried["id"]]


def test_accounts_and_regions_have_their_own(builds: Builds) -> None:
    name = builds.project(QUICK)

    elsewhere = builds.aws.client("codebuild", region="eu-west-1")
    other = builds.aws.client("codebuild", account="111111111111")

    for client in (elsewhere, other):
        assert client.batch_get_projects(names=[name])["projectsNotFound"] == [name]
