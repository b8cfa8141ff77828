"""Projects and builds for tests, through boto3 as any client."""

from __future__ import annotations

import io
import itertools
import time
import zipfile
from collections.abc import Mapping
from typing import Any

from localaws.session import LocalAws

ROLE = "arn:aws:iam::123456789012:role/builds"
BUCKET = "sources-of-builds"
_NUMBERS = itertools.count(1)
_LONGEST_S = 60.0


class Builds:
    """Makes projects with inline or S3 sources, runs builds and reads their logs."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        self.api: Any = aws.client("codebuild")
        self.s3: Any = aws.client("s3")

    def put_source(self, files: Mapping[str, str]) -> str:
        """Upload a zip and return its BUCKET/KEY."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as opened:
            for name, text in files.items():
                opened.writestr(name, text)
        key = f"source-{next(_NUMBERS)}.zip"
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=archive.getvalue())
        return f"{BUCKET}/{key}"

    def project(self, buildspec: str = "", **settings: Any) -> str:
        """Create a project and return its name; without a source, the buildspec is inline."""
        name = f"project-{next(_NUMBERS)}"
        environment = {
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/standard:7.0",
            "computeType": "BUILD_GENERAL1_SMALL",
        }
        self.api.create_project(
            **{
                "name": name,
                "source": {"type": "NO_SOURCE", "buildspec": buildspec},
                "artifacts": {"type": "NO_ARTIFACTS"},
                "environment": environment | settings.pop("environment", {}),
                "serviceRole": ROLE,
                **settings,
            }
        )
        return name

    def start(self, project: str, **overrides: Any) -> str:
        """Start a build and return its id."""
        build_id: str = self.api.start_build(projectName=project, **overrides)["build"]["id"]
        return build_id

    def get(self, build_id: str) -> dict[str, Any]:
        """Return one build."""
        (build,) = self.api.batch_get_builds(ids=[build_id])["builds"]
        found: dict[str, Any] = build
        return found

    def finished(self, build_id: str) -> dict[str, Any]:
        """Wait for a build's end and return it."""
        deadline = time.monotonic() + _LONGEST_S
        while not (build := self.get(build_id))["buildComplete"]:
            assert time.monotonic() < deadline, build
            time.sleep(0.05)
        return build

    def run(self, project: str, **overrides: Any) -> dict[str, Any]:
        """Run a build to its end."""
        return self.finished(self.start(project, **overrides))

    def reached(self, build_id: str, text: str) -> None:
        """Wait until a command of a build that runs has printed a line with `text`."""
        deadline = time.monotonic() + _LONGEST_S
        while not any(text in line for line in self.printed(self.get(build_id))):
            assert time.monotonic() < deadline, f"{build_id} never printed {text}"
            time.sleep(0.05)

    def log(self, build: Mapping[str, Any]) -> list[str]:
        """Return the lines of a build's log, those of CodeBuild without their time."""
        logs: Any = self.aws.client("logs")
        where = build["logs"]
        if "groupName" not in where:
            return []
        try:
            pages = logs.get_log_events(
                logGroupName=where["groupName"], logStreamName=where["streamName"], startFromHead=True
            )
        except logs.exceptions.ResourceNotFoundException:
            return []
        return [event["message"] for event in pages["events"]]

    def printed(self, build: Mapping[str, Any]) -> list[str]:
        """Return what the commands printed."""
        return [line for line in self.log(build) if not line.startswith("[Container] ")]


def phases(build: Mapping[str, Any]) -> dict[str, str]:
    """Return the phases' status by type; COMPLETED has none."""
    return {phase["phaseType"]: phase.get("phaseStatus", "") for phase in build["phases"]}


def contexts(build: Mapping[str, Any], phase: str) -> list[tuple[str, str]]:
    """Return a phase's contexts."""
    (found,) = (item for item in build["phases"] if item["phaseType"] == phase)
    return [(item["statusCode"], item["message"]) for item in found.get("contexts", ())]
