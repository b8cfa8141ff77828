"""Builds read through botocore; its service models check every answer that the test gives."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from semif.builds_api import BuildReader
from semif.deployment import BuildRun, Run
from tests.semif.recording import at

PROJECT = "semif-dev-image-cpu"
SESSION = boto3.Session("testing", "testing", region_name="eu-central-1")
RUN = BuildRun(PROJECT, frozenset({"a" * 64}), at(100), Run("CREATE", at(100), ended=False), 50)


@dataclass
class Stubs:
    codebuild: Stubber
    logs: Stubber
    reader: BuildReader

    def look(self, *builds: dict[str, Any], asked: list[str] | None = None) -> None:
        ids = [build["id"] for build in builds]
        listed = {"ids": ids} if ids else {}
        self.codebuild.add_response(
            "list_builds_for_project", listed, {"projectName": PROJECT, "sortOrder": "DESCENDING"}
        )
        asked = ids if asked is None else asked
        if asked:
            found = [build for build in builds if build["id"] in asked]
            self.codebuild.add_response("batch_get_builds", {"builds": found}, {"ids": asked})


@pytest.fixture(scope="module")
def clients() -> tuple[Any, Any]:
    return SESSION.client("codebuild"), SESSION.client("logs")


@pytest.fixture
def stubs(clients: tuple[Any, Any]) -> Iterator[Stubs]:
    with Stubber(clients[0]) as codebuild, Stubber(clients[1]) as logs:
        yield Stubs(codebuild, logs, BuildReader(*clients))
        codebuild.assert_no_pending_responses()
        logs.assert_no_pending_responses()


def build(number: int, status: str = "IN_PROGRESS", *, content: str = "a", **more: Any) -> dict[str, Any]:
    over = status != "IN_PROGRESS"
    phase = {"phaseType": "BUILD", "startTime": at(110 + number)}
    if over:
        phase |= {"phaseStatus": status, "contexts": [{"statusCode": "C", "message": "words"}]}
    return {
        "id": f"{PROJECT}:{number}",
        "buildStatus": status,
        "currentPhase": "COMPLETED" if over else "BUILD",
        "startTime": at(100 + number),
        **({"endTime": at(200 + number)} if over else {}),
        "phases": [{"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED", "startTime": at(100)}, phase],
        "environment": {
            "type": "LINUX_CONTAINER",
            "image": "i",
            "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": "SEMIF_CONTENT_HASH", "value": content * 64}],
        },
        "logs": {"groupName": "/semif/dev/builds", "streamName": "s", "deepLink": "https://link"},
    } | more


def test_nothing_yet(stubs: Stubs) -> None:
    stubs.look()
    assert stubs.reader.read(RUN) == []


def test_a_failed_build_with_the_last_lines_is_read_once(stubs: Stubs) -> None:
    failed = build(1, "FAILED")
    stubs.look(failed)
    lines = [*(f"step {i}\n" for i in range(20)), "error: x\n", "[Container] Phase complete\n", "\n"]
    events = {"events": [{"message": line} for line in lines]}
    asked = {
        "logGroupName": "/semif/dev/builds",
        "logStreamName": "s",
        "limit": 60,
        "startFromHead": False,
    }
    stubs.logs.add_response("get_log_events", events, asked)
    (found,) = stubs.reader.read(RUN)
    assert (found.status, found.phase, found.context, found.link) == (
        "FAILED",
        "BUILD",
        "C: words",
        "https://link",
    )
    assert found.log == (*(f"step {i}" for i in range(11, 20)), "error: x")
    stubs.look(failed, asked=[])
    assert stubs.reader.read(RUN) == [found]


def test_only_builds_of_the_wanted_content_that_ran_while_it_waited(stubs: Stubs) -> None:
    old = build(1, "SUCCEEDED", startTime=at(10), endTime=at(20))
    stubs.look(build(3), build(2, content="b"), old)
    assert [found.id for found in stubs.reader.read(RUN)] == [f"{PROJECT}:3"]


def test_a_queued_build_counts_those_before_it(stubs: Stubs) -> None:
    queued = build(3, currentPhase="QUEUED", phases=[], logs={"deepLink": "https://link/null"})
    stubs.look(build(4, content="c"), queued, build(2, content="b"), build(1, content="b"))
    (found,) = stubs.reader.read(RUN)
    assert (found.phase, found.ahead, found.link, found.phase_since) == ("QUEUED", 2, "", at(103))


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException"])
def test_an_operator_without_rights_sees_no_builds(stubs: Stubs, code: str) -> None:
    stubs.codebuild.add_client_error("list_builds_for_project", code, "no", 400)
    assert stubs.reader.read(RUN) == []


def test_a_log_without_rights_is_named(stubs: Stubs) -> None:
    stubs.look(build(1, "TIMED_OUT"))
    stubs.logs.add_client_error("get_log_events", "AccessDeniedException", "no", 400)
    (found,) = stubs.reader.read(RUN)
    assert found.log == ("(the log cannot be read: AccessDeniedException)",)
