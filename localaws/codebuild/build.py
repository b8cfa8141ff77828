"""One build: what it is asked to do, how far it is, and how it looks in the API."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from localaws.protocol import Scope

Context = tuple[str, str]
"""Status code and message of what ended a phase."""

_WITHOUT_CONTEXT = frozenset(("SUBMITTED", "QUEUED"))


def now() -> dt.datetime:
    """Return the time in UTC."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Order:
    """A build as it is to run: the project's settings under StartBuild's overrides, in the API's keys."""

    project: str
    source: Mapping[str, Any]
    artifacts: Mapping[str, Any]
    environment: Mapping[str, Any]
    service_role: str
    timeout_minutes: int
    queued_timeout_minutes: int
    logs: Mapping[str, Any]
    cache: Mapping[str, Any]
    encryption_key: str
    initiator: str
    source_version: str | None = None

    @property
    def variables(self) -> list[Mapping[str, str]]:
        """Return the environment variables in the API's form."""
        return list(self.environment.get("environmentVariables", ()))


@dataclass
class PhaseRecord:
    """One phase that began; `status` is None while it runs."""

    type: str
    started: dt.datetime
    status: str | None = None
    ended: dt.datetime | None = None
    contexts: list[Context] = field(default_factory=list)

    def view(self) -> dict[str, Any]:
        """Return the phase as in BatchGetBuilds."""
        view: dict[str, Any] = {"phaseType": self.type, "startTime": self.started}
        if self.status is not None:
            view["phaseStatus"] = self.status
        if self.ended is not None and self.type != "COMPLETED":
            view["endTime"] = self.ended
            view["durationInSeconds"] = round((self.ended - self.started).total_seconds())
            # A phase of the machine that went well has one empty context.
            contexts = self.contexts or ([] if self.type in _WITHOUT_CONTEXT else [("", "")])
            if contexts:
                view["contexts"] = [{"statusCode": code, "message": message} for code, message in contexts]
        return view


class Build:
    """A build. Its state is changed by the thread that runs it and read by any."""

    def __init__(self, scope: Scope, number: int, order: Order) -> None:
        self.scope, self.number, self.order = scope, number, order
        self.uuid = str(uuid.uuid4())
        self.id = f"{order.project}:{self.uuid}"
        self.arn = f"arn:aws:codebuild:{scope.region}:{scope.account}:build/{self.id}"
        self.started = now()
        self.ended: dt.datetime | None = None
        self.status = "IN_PROGRESS"
        self.exported: dict[str, str] = {}
        self.artifact: dict[str, Any] = {}
        self.log_stream: str | None = None
        self._phases: list[PhaseRecord] = []
        self._lock = threading.Lock()
        self.begin("SUBMITTED")
        self.begin("QUEUED")

    @property
    def complete(self) -> bool:
        """Tell whether it has ended."""
        return self.status != "IN_PROGRESS"

    @property
    def phase(self) -> str:
        """Return the type of the phase that runs."""
        return self._phases[-1].type

    @property
    def phase_status(self) -> str:
        """Return the status that the last phase ended with."""
        return self._phases[-1].status or "IN_PROGRESS"

    @property
    def log_group(self) -> str | None:
        """Return the log group, or None for a build without a log in CloudWatch."""
        settings = self.order.logs.get("cloudWatchLogs", {})
        if settings.get("status", "ENABLED") != "ENABLED":
            return None
        return settings.get("groupName") or f"/aws/codebuild/{self.order.project}"

    def begin(self, phase: str) -> None:
        """Enter a phase; one that still runs has succeeded."""
        with self._lock:
            self._end_phase("SUCCEEDED", ())
            self._phases.append(PhaseRecord(phase, now()))

    def end(self, status: str, *contexts: Context) -> None:
        """End the phase that runs."""
        with self._lock:
            self._end_phase(status, contexts)

    def open_log(self) -> None:
        """Note where the log is from now on."""
        prefix = self.order.logs.get("cloudWatchLogs", {}).get("streamName")
        self.log_stream = f"{prefix}/{self.uuid}" if prefix else self.uuid

    def finish(self, status: str) -> None:
        """End the build with its final status; nothing of it changes after that."""
        self.begin("COMPLETED")
        with self._lock:
            self.ended = self._phases[-1].ended = now()
            self.status = status

    def _end_phase(self, status: str, contexts: tuple[Context, ...]) -> None:
        if self._phases and self._phases[-1].status is None:
            phase = self._phases[-1]
            phase.ended, phase.contexts, phase.status = now(), list(contexts), status

    def view(self) -> dict[str, Any]:
        """Return the build as in BatchGetBuilds."""
        order = self.order
        with self._lock:
            view: dict[str, Any] = {
                "id": self.id,
                "arn": self.arn,
                "buildNumber": self.number,
                "startTime": self.started,
                "currentPhase": self.phase,
                "buildStatus": self.status,
                "projectName": order.project,
                "phases": [phase.view() for phase in self._phases],
                "source": dict(order.source),
                "secondarySources": [],
                "secondarySourceVersions": [],
                "artifacts": {"location": ""} | self.artifact,
                "secondaryArtifacts": [],
                "cache": dict(order.cache),
                "environment": dict(order.environment),
                "serviceRole": order.service_role,
                "logs": self._logs(),
                "timeoutInMinutes": order.timeout_minutes,
                "queuedTimeoutInMinutes": order.queued_timeout_minutes,
                "buildComplete": self.complete,
                "initiator": order.initiator,
                "encryptionKey": order.encryption_key,
                "exportedEnvironmentVariables": [
                    {"name": name, "value": value} for name, value in self.exported.items()
                ],
            }
            if order.source_version is not None:
                view["sourceVersion"] = order.source_version
            if self.ended is not None:
                view["endTime"] = self.ended
        return view

    def _logs(self) -> dict[str, Any]:
        """Where the log is; before the build has left the queue, CodeBuild answers null for names."""
        region, account, group = self.scope.region, self.scope.account, self.log_group
        kinds = {"s3Logs": {"status": "DISABLED", "encryptionDisabled": False}} | dict(self.order.logs)
        if group is None:
            return kinds
        stream = self.log_stream
        shown_group, shown_stream = (group, stream) if stream is not None else ("null", "null")
        console = (
            f"https://console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:log-groups/log-group/"
        )
        view = kinds | {
            "deepLink": f"{console}{_twice(shown_group)}/log-events/{_twice(shown_stream)}",
            "cloudWatchLogsArn": (
                f"arn:aws:logs:{region}:{account}:log-group:{shown_group}:log-stream:{shown_stream}"
            ),
        }
        if stream is not None:
            view |= {"groupName": group, "streamName": stream}
        return view


def _twice(name: str) -> str:
    """Escape a name as the console's links do."""
    return quote(quote(name, safe=""), safe="").replace("%25", "$25")
