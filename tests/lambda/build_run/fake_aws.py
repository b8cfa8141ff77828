# ruff: noqa: N803  (the parameters have AWS's own names)
"""A small CodeBuild, ECR, S3, CloudWatch Logs and CloudFormation in memory that keep the real protocol.

One object stands in for all the boto3 clients. Every call and every answer is checked against botocore's
service models. `interruptions` are taken one per call: a throttle, an answer that gets lost, or the death of
the caller.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import botocore.session
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.validate import ParamValidator

TOKEN_TIME = timedelta(minutes=5)
PROJECT = "semif-dev-image-cpu"
LOG_GROUP = "/semif/dev/builds"
LINK = (
    "https://console.aws.amazon.com/cloudwatch/home#logsV2:log-groups/log-group/$252Fsemif$252Fdev$252Fbuilds"
)
SERVICES = {
    "start_build": "codebuild",
    "stop_build": "codebuild",
    "batch_get_builds": "codebuild",
    "list_builds_for_project": "codebuild",
    "describe_images": "ecr",
    "list_objects_v2": "s3",
    "get_object": "s3",
    "get_log_events": "logs",
    "describe_stack_resource": "cloudformation",
}


class Crash(BaseException):
    """The function died: no code of its own runs any more."""


@dataclass
class Plan:
    """What becomes of a build: its end, after how long in the queue and at work."""

    end: str = "SUCCEEDED"
    queue_s: float = 0
    work_s: float = 120
    stop_s: float = 0
    makes_content: bool = True


@dataclass
class FakeAws:
    """One account and region."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    plans: dict[str, Plan] = field(default_factory=dict)
    """By content hash; one that is missing succeeds after two minutes."""
    projects: set[str] = field(default_factory=lambda: {PROJECT})
    builds: list[dict[str, Any]] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    log_lines: list[str] = field(default_factory=list)
    listing_lag_s: float = 0
    running_limit: int = 60
    resource_status: str = "CREATE_IN_PROGRESS"
    refusals: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """By operation: code, message and HTTP status of the answer that it always gives."""
    interruptions: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name not in SERVICES:
            raise AttributeError(name)
        return partial(self._call, name)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self._settle()

    def started_by(self, request_id: str) -> list[dict[str, Any]]:
        """The builds that a request started."""
        return [build for build in self.builds if build["variables"].get("SEMIF_REQUEST_ID") == request_id]

    def running(self) -> list[dict[str, Any]]:
        """The builds that are queued, at work or being stopped."""
        return [build for build in self.builds if build["status"] == "IN_PROGRESS"]

    def _call(self, name: str, **parameters: Any) -> dict[str, Any]:
        self.calls.append(name)
        self._settle()
        _check(name, "input_shape", parameters)
        interruption = self.interruptions.pop(0) if self.interruptions else ""
        if interruption == "crash before":
            raise Crash
        if interruption == "throttle":
            raise _error("ThrottlingException", "Rate exceeded", name)
        if name in self.refusals:
            raise _error(*self.refusals[name][:2], name, self.refusals[name][2])
        answer: dict[str, Any] = getattr(self, f"_op_{name}")(**parameters)
        if name != "get_object":
            _check(name, "output_shape", answer)
        if interruption == "crash after":
            raise Crash
        if interruption == "lost":
            raise ReadTimeoutError(endpoint_url=f"https://{SERVICES[name]}")
        return answer

    def _op_start_build(
        self,
        projectName: str,
        environmentVariablesOverride: list[dict[str, str]],
        idempotencyToken: str = "",
        **source: str,
    ) -> dict[str, Any]:
        self._existing(projectName)
        asked = (projectName, environmentVariablesOverride, source)
        for build in self.builds:
            if idempotencyToken and build["token"] == idempotencyToken:
                if self.now - build["started"] >= TOKEN_TIME:
                    continue
                if build["asked"] != asked:
                    raise _error(
                        "InvalidInputException", "Idempotency token parameter mismatch", "StartBuild"
                    )
                return {"build": self._shown(build)}
        if len(self.running()) >= self.running_limit:
            raise _error(
                "AccountLimitExceededException",
                f"Cannot have more than {self.running_limit} builds in queue for the account",
                "StartBuild",
            )
        variables = {item["name"]: item["value"] for item in environmentVariablesOverride}
        build = {
            "id": f"{projectName}:{len(self.builds):04d}",
            "project": projectName,
            "started": self.now,
            "ended": None,
            "status": "IN_PROGRESS",
            "stopping": None,
            "variables": variables,
            "token": idempotencyToken,
            "asked": asked,
        }
        self.builds.append(build)
        return {"build": self._shown(build)}

    def _op_list_builds_for_project(
        self, projectName: str, sortOrder: str, nextToken: str = "0"
    ) -> dict[str, Any]:
        self._existing(projectName)
        assert sortOrder == "DESCENDING"
        seen_until = self.now - timedelta(seconds=self.listing_lag_s)
        ids = [b["id"] for b in self.builds if b["project"] == projectName and b["started"] <= seen_until]
        ids.reverse()
        begin, page = int(nextToken), 3  # small pages: the caller must follow the token
        more = {"nextToken": str(begin + page)} if begin + page < len(ids) else {}
        # An empty list is left out: the service model allows none.
        return {"ids": ids[begin : begin + page], **more} if ids else {}

    def _op_batch_get_builds(self, ids: list[str]) -> dict[str, Any]:
        if not ids:
            raise _error("InvalidInputException", "At least one build ID must be provided", "BatchGetBuilds")
        found = [self._shown(build) for build in self.builds if build["id"] in ids]
        known = {build["id"] for build in found}
        unknown = [build_id for build_id in ids if build_id not in known]
        return {"builds": found} | ({"buildsNotFound": unknown} if unknown else {})

    def _op_stop_build(self, id: str) -> dict[str, Any]:  # noqa: A002
        build = next((build for build in self.builds if build["id"] == id), None)
        if build is None:
            raise _error("ResourceNotFoundException", f"The build {id} cannot be found", "StopBuild")
        if build["status"] == "IN_PROGRESS" and build["stopping"] is None:
            build["stopping"] = self.now
            self.stopped.append(id)
            self._settle()
        return {"build": self._shown(build)}

    def _op_describe_images(self, repositoryName: str, imageIds: list[dict[str, str]]) -> dict[str, Any]:
        tag = imageIds[0]["imageTag"]
        if tag not in self.images:
            raise _error(
                "ImageNotFoundException",
                f"The image with imageId {{imageDigest:'null', imageTag:'{tag}'}} does not exist within the "
                f"repository with name '{repositoryName}'",
                "DescribeImages",
            )
        return {"imageDetails": [{"imageDigest": self.images[tag], "imageTags": [tag]}]}

    def _op_list_objects_v2(self, Bucket: str, Prefix: str, MaxKeys: int) -> dict[str, Any]:
        keys = sorted(key for key in self.objects if key.startswith(f"{Bucket}/{Prefix}"))
        return {"Contents": [{"Key": key.removeprefix(f"{Bucket}/")} for key in keys[:MaxKeys]]}

    def _op_get_object(self, Bucket: str, Key: str) -> dict[str, Any]:
        return {"Body": io.BytesIO(self.objects[f"{Bucket}/{Key}"])}

    def _op_get_log_events(
        self, logGroupName: str, logStreamName: str, limit: int, startFromHead: bool
    ) -> dict[str, Any]:
        assert (logGroupName, startFromHead) == (LOG_GROUP, False)
        assert logStreamName
        return {"events": [{"timestamp": 0, "message": f"{line}\n"} for line in self.log_lines[-limit:]]}

    def _op_describe_stack_resource(self, StackName: str, LogicalResourceId: str) -> dict[str, Any]:
        return {
            "StackResourceDetail": {
                "StackName": StackName,
                "LogicalResourceId": LogicalResourceId,
                "ResourceType": "Custom::BuildRun",
                "LastUpdatedTimestamp": self.now,
                "ResourceStatus": self.resource_status,
            }
        }

    def _existing(self, project_name: str) -> None:
        if project_name not in self.projects:
            raise _error("ResourceNotFoundException", f"Project cannot be found: {project_name}", "CodeBuild")

    def _plan(self, build: dict[str, Any]) -> Plan:
        return self.plans.get(build["variables"].get("SEMIF_CONTENT_HASH", ""), Plan())

    def _settle(self) -> None:
        for build in self.running():
            plan = self._plan(build)
            over = build["started"] + timedelta(seconds=plan.queue_s + plan.work_s)
            stopped = build["stopping"] and build["stopping"] + timedelta(seconds=plan.stop_s)
            if stopped and stopped <= min(self.now, over):
                build |= {"status": "STOPPED", "ended": stopped}
            elif over <= self.now:
                build |= {"status": plan.end, "ended": over}
                if plan.end == "SUCCEEDED" and plan.makes_content:
                    self.make_content(build["variables"])

    def make_content(self, variables: dict[str, str]) -> None:
        """What the build program does at its very end."""
        if tag := variables.get("SEMIF_IMAGE_TAG"):
            self.images.setdefault(tag, f"sha256:{variables['SEMIF_CONTENT_HASH']}")
        if prefix := variables.get("SEMIF_PREFIX"):
            manifest = {"files": [{"file": "m.gguf", "sha256": "d" * 64}]}
            self.objects[f"{variables['SEMIF_BUCKET']}/{prefix}model-manifest.json"] = json.dumps(
                manifest
            ).encode()

    def _shown(self, build: dict[str, Any]) -> dict[str, Any]:
        queued = self.now < build["started"] + timedelta(seconds=self._plan(build).queue_s)
        over = build["status"] != "IN_PROGRESS"
        phase: dict[str, Any] = {"phaseType": "QUEUED" if queued else "BUILD", "startTime": build["started"]}
        if over:
            phase |= {"phaseStatus": build["status"], "endTime": build["ended"]}
            if build["status"] == "FAILED":
                context = "Error while executing command: python3 -m image_build. Reason: exit status 1"
                phase["contexts"] = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": context}]
        phases = [{"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"}, phase]
        return {
            "id": build["id"],
            "arn": f"arn:aws:codebuild:us-east-1:123456789012:build/{build['id']}",
            "startTime": build["started"],
            "buildStatus": build["status"],
            "buildComplete": over,
            "currentPhase": "COMPLETED" if over else phase["phaseType"],
            "phases": [*phases, {"phaseType": "COMPLETED"}] if over else phases,
            "projectName": build["project"],
            "logs": {"groupName": LOG_GROUP, "streamName": build["id"].split(":")[1], "deepLink": LINK},
            "environment": {
                "type": "LINUX_CONTAINER",
                "image": "aws/codebuild/amazonlinux2-x86_64-standard:5.0",
                "computeType": "BUILD_GENERAL1_MEDIUM",
                "environmentVariables": [
                    {"name": name, "value": value, "type": "PLAINTEXT"}
                    for name, value in build["variables"].items()
                ],
            },
            **({"endTime": build["ended"]} if over else {}),
        }


def _check(operation: str, which: str, value: dict[str, Any]) -> None:
    problems = ParamValidator().validate(value, _shape(operation, which))
    assert not problems.has_errors(), problems.generate_report()


@cache
def _shape(operation: str, which: str) -> Any:
    model = _model(SERVICES[operation])
    name = next(n for n in model.operation_names if n.lower() == operation.replace("_", ""))
    return getattr(model.operation_model(name), which)


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _error(code: str, message: str, operation: str, status: int = 400) -> ClientError:
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "r"},
    }
    return ClientError(response, operation)  # type: ignore[arg-type]
