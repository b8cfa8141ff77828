"""Requests against the local AWS's CodeBuild, S3 and CloudWatch Logs, through boto3."""

import io
import json
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from build_run import handler
from build_run.failures import BuildRunError
from build_run.reconcile import Apis
from localaws.session import LocalAws

PROJECT = "semif-dev-archive"
LOG_GROUP = "/semif/dev/builds"
MAKE = """\
version: 0.2
phases:
  build:
    commands:
      - test "$SEMIF_MODE" != wait || sleep 60
      - python3 make.py
"""
PROGRAM = """\
import boto3, os, sys
if os.environ["SEMIF_MODE"] == "fail":
    sys.exit("error: checksum_mismatch: as it should; do nothing")
manifest = '{"version": 2, "files": [{"file": "m.gguf", "sha256": "' + "d" * 64 + '", "bytes": 1}]}'
key = os.environ["SEMIF_PREFIX"] + "model-manifest.json"
boto3.client("s3").put_object(Bucket=os.environ["SEMIF_BUCKET"], Key=key, Body=manifest)
"""


@pytest.fixture(scope="module")
def local() -> Iterator[LocalAws]:
    with LocalAws(ready_s=0.2, poll_s=0.2) as running:
        source = io.BytesIO()
        with zipfile.ZipFile(source, "w") as opened:
            opened.writestr("buildspec.yml", MAKE)
            opened.writestr("make.py", PROGRAM)
        s3: Any = running.client("s3")
        for bucket in ("models", "sources"):
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket="sources", Key="0123.zip", Body=source.getvalue())
        codebuild: Any = running.client("codebuild")
        codebuild.create_project(
            name=PROJECT,
            source={"type": "S3", "location": "sources/0123.zip"},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={
                "type": "LINUX_CONTAINER",
                "image": "aws/codebuild/standard:7.0",
                "computeType": "BUILD_GENERAL1_SMALL",
            },
            logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": LOG_GROUP}},
            serviceRole="arn:aws:iam::123456789012:role/builds",
        )
        yield running


class Request:
    """One request of CloudFormation, polled."""

    def __init__(self, local: LocalAws, fake_stack: Any, event: dict[str, Any]) -> None:
        def client(service: str) -> Any:
            return fake_stack if service == "cloudformation" else local.client(service)

        self.event = event
        self.apis = Apis.of(client, lambda: datetime.now(UTC))

    def poll(self) -> dict[str, Any]:
        with patch.object(handler, "_apis", lambda: self.apis):
            return handler.is_complete(self.event, None)

    def until_complete(self) -> dict[str, str]:
        deadline = time.monotonic() + 120
        while not (answer := self.poll())["IsComplete"]:
            assert time.monotonic() < deadline, "not within 120 s"
            time.sleep(0.2)
        data: dict[str, str] = answer["Data"]
        return data


@pytest.fixture
def request_of(local: LocalAws, aws: Any, events: ModuleType) -> Any:
    def make(request_id: str, content: str, mode: str = "", request_type: str = "Create") -> Request:
        properties = events.archive_properties(content * 64) | {
            "ProjectName": PROJECT,
            "SourceLocation": "sources/0123.zip",
        }
        properties["Environment"] |= {"SEMIF_MODE": mode}
        event = {
            "RequestType": request_type,
            "RequestId": request_id,
            "StackId": events.STACK_ID,
            "LogicalResourceId": "Build",
            "ResourceProperties": properties,
            "PhysicalResourceId": f"{PROJECT}-build-run",
            "Data": {"StartedAt": datetime.now(UTC).isoformat()},
        }
        return Request(local, aws, event)

    return make


def test_a_build_makes_the_content_and_the_next_request_finds_it(local: LocalAws, request_of: Any) -> None:
    data = request_of("first", "a").until_complete()
    assert data == {
        "ModelUri": f"s3://models/models/{'a' * 64}/",
        "Sha256": "d" * 64,
        "File": "m.gguf",
        "BuildId": data["BuildId"],
    }
    codebuild: Any = local.client("codebuild")
    assert codebuild.list_builds_for_project(projectName=PROJECT)["ids"] == [data["BuildId"]]
    deadline = time.monotonic() + 60
    while not codebuild.batch_get_builds(ids=[data["BuildId"]])["builds"][0]["buildComplete"]:
        assert time.monotonic() < deadline, "the build did not end"
        time.sleep(0.1)
    again = request_of("second", "a").poll()
    assert again == {"IsComplete": True, "Data": data | {"BuildId": ""}}


def test_a_failed_build_tells_its_phase_its_log_and_its_link(request_of: Any) -> None:
    with pytest.raises(BuildRunError) as caught:
        request_of("failing", "b", "fail").until_complete()
    text = str(caught.value)
    assert text.startswith(f"build_failed: {PROJECT}:")
    assert " ended FAILED in BUILD. COMMAND_EXECUTION_ERROR: " in text
    assert "error: checksum_mismatch: as it should; do nothing Next: " in text
    assert " Log: https://" in text
    assert len(text) <= 1000


def test_a_deletion_stops_the_running_build_and_waits(
    local: LocalAws, request_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    creating = request_of("waiting", "c", "wait")
    creating.poll()
    assert request_of("deleting", "c", request_type="Delete").until_complete() == {}
    codebuild: Any = local.client("codebuild")
    ids = codebuild.list_builds_for_project(projectName=PROJECT)["ids"]
    newest = max(codebuild.batch_get_builds(ids=ids)["builds"], key=lambda build: build["startTime"])
    assert (newest["buildStatus"], newest["buildComplete"]) == ("STOPPED", True)
    with pytest.raises(BuildRunError, match=r"^build_stopped: "):
        creating.until_complete()
    steps = [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()]
    assert steps[0] == "Start"
    assert "Stop" in steps
    assert steps[-2:] == ["Gone", "Fail"]
