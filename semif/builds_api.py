"""Reads the builds that a deployment waits for: CodeBuild, and the log of one that failed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from semif.aws import ABSENT, DENIED, ClientError, describe
from semif.builds import Build, program_lines, read_build
from semif.deployment import BuildRun

LOG_LINES = 10
LOG_EVENTS = 60  # CodeBuild ends a failed build's log with some twenty lines of its own
# CloudFormation's clock and CodeBuild's are two.
CLOCK_SLACK = timedelta(seconds=5)


class BuildReader:
    """Reads builds again and again; one that is over is read once.

    An operator who may not read builds, or the log of one, follows the deployment without them.
    """

    def __init__(self, codebuild_client: Any, logs_client: Any) -> None:
        self._codebuild = codebuild_client
        self._logs = logs_client
        self._over: dict[str, Build] = {}

    def read(self, run: BuildRun) -> list[Build]:
        """The builds of what `run` wants that ran while it waited, oldest first. Raises what boto3 raises."""
        try:
            page = self._codebuild.list_builds_for_project(projectName=run.project, sortOrder="DESCENDING")
            # The newest hundred: those that a deployment waits for are among them.
            ids = page.get("ids", [])
            fresh = [build_id for build_id in ids if build_id not in self._over]
            found = self._codebuild.batch_get_builds(ids=fresh)["builds"] if fresh else []
        except ClientError as error:
            if describe(error)[0] in DENIED | ABSENT | {"ResourceNotFoundException"}:
                return []
            raise
        builds = [read_build(item) for item in found]
        running = sorted((b.started_at, b.id) for b in builds if b.ended_at is None)
        for build, item in zip(builds, found, strict=True):
            if build.ended_at is not None:
                self._over[build.id] = self._with_log(build, item, run) if build.bad else build
        known = [self._over.get(build.id) or _queued(build, running) for build in builds]
        known += [
            self._over[build_id] for build_id in ids if build_id in self._over and build_id not in fresh
        ]
        return sorted((b for b in known if _belongs(b, run)), key=lambda b: (b.started_at, b.id))

    def _with_log(self, build: Build, item: dict[str, Any], run: BuildRun) -> Build:
        logs = item.get("logs", {})
        if not _belongs(build, run) or "streamName" not in logs:
            return build
        try:
            answer = self._logs.get_log_events(
                logGroupName=logs["groupName"],
                logStreamName=logs["streamName"],
                limit=LOG_EVENTS,
                startFromHead=False,
            )
        except ClientError as error:
            return replace(build, log=(f"(the log cannot be read: {describe(error)[0]})",))
        lines = [line for event in answer["events"] for line in event["message"].splitlines()]
        return replace(build, log=tuple(program_lines(lines)[-LOG_LINES:]))


def _queued(build: Build, running: list[tuple[Any, str]]) -> Build:
    if not build.waiting:
        return build
    return replace(build, ahead=sum(other < (build.started_at, build.id) for other in running))


def _belongs(build: Build, run: BuildRun) -> bool:
    if run.content_hashes and build.content_hash not in run.content_hashes:
        return False
    return build.ended_at is None or build.ended_at >= run.since - CLOCK_SLACK
