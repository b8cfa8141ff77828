"""CodeBuild: list a project's builds, start one, stop one."""

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from build_run.aws_call import call
from build_run.failures import ApiError, Cause
from build_run.observation import Build, BuildStatus
from build_run.properties import CONTENT_HASH, REQUEST_ID, STACK_ID, Operation, Wanted

HORIZON: Final = timedelta(hours=36)
"""A build that began before cannot run any more: at most 8 h in the queue and 8 h of ours at work."""
_BATCH: Final = 100
_REMEMBERED: Final = 20


class CodeBuildApi:
    """Calls on one client. Every error leaves as ApiError.

    Remembers the ids of builds that it started, because ListBuildsForProject may not show them at once.
    """

    def __init__(self, client: Any, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._started: dict[str, list[str]] = {}

    def builds(self, project_name: str) -> tuple[Build, ...]:
        """The project's builds of the last day and a half, newest first."""
        found: dict[str, Build] = {}
        token: dict[str, str] = {}
        remembered = self._started.get(project_name, [])
        while True:
            page = call(
                self._client,
                "list_builds_for_project",
                projectName=project_name,
                sortOrder="DESCENDING",
                **token,
            )
            listed = list(page.get("ids", []))
            batch = self._read(dict.fromkeys([*listed, *(remembered if not token else [])]))
            found |= {build.id: build for build in batch}
            oldest = min((build.started_at for build in batch if build.id in listed), default=None)
            if not page.get("nextToken") or oldest is None or self._now() - oldest > HORIZON:
                return tuple(sorted(found.values(), key=lambda b: (b.started_at, b.id), reverse=True))
            token = {"nextToken": page["nextToken"]}

    def start(self, operation: Operation, wanted: Wanted) -> str:
        """Start this request's build and return its id. Repeated within five minutes it starts nothing."""
        own = {
            CONTENT_HASH: wanted.content_hash,
            REQUEST_ID: operation.request_id,
            STACK_ID: operation.stack_id,
        }
        answer = call(
            self._client,
            "start_build",
            projectName=operation.project_name,
            sourceTypeOverride="S3",
            sourceLocationOverride=wanted.source_location,
            environmentVariablesOverride=[
                {"name": name, "value": value, "type": "PLAINTEXT"}
                for name, value in {**dict(wanted.environment), **own}.items()
            ],
            idempotencyToken=idempotency_token(operation),
        )
        build_id = str(answer["build"]["id"])
        kept = self._started.setdefault(operation.project_name, [])
        if build_id not in kept:
            self._started[operation.project_name] = [*kept, build_id][-_REMEMBERED:]
        return build_id

    def stop(self, build_id: str) -> None:
        """Begin to stop a build; one that has ended or is gone is fine."""
        try:
            call(self._client, "stop_build", id=build_id)
        except ApiError as error:
            # InvalidInputException: it has ended since it was read; the next poll sees how.
            if error.cause is not Cause.NOT_FOUND and error.code != "InvalidInputException":
                raise

    def _read(self, ids: Iterable[str]) -> list[Build]:
        wanted = list(ids)
        found = []
        for begin in range(0, len(wanted), _BATCH):
            answer = call(self._client, "batch_get_builds", ids=wanted[begin : begin + _BATCH])
            found += [parse_build(item, self._now()) for item in answer.get("builds", [])]
        return found


def idempotency_token(operation: Operation) -> str:
    """The same for every poll of one request, and for no other request."""
    return hashlib.sha256(f"{operation.project_name} {operation.request_id}".encode()).hexdigest()


def parse_build(item: dict[str, Any], now: datetime) -> Build:
    """Read a build of BatchGetBuilds. One that has ended without saying when has ended `now`."""
    status = BuildStatus(str(item.get("buildStatus")))
    over = item.get("buildComplete", False) or "endTime" in item
    if status is not BuildStatus.UNKNOWN:
        over = status is not BuildStatus.IN_PROGRESS
    variables = {
        str(variable["name"]): str(variable["value"])
        for variable in item.get("environment", {}).get("environmentVariables", [])
    }
    phase, context = _phase(item)
    logs = item.get("logs", {})
    return Build(
        id=str(item["id"]),
        status=status,
        phase=phase,
        context=context,
        started_at=item.get("startTime", now),
        ended_at=item.get("endTime", now) if over else None,
        log_group=str(logs.get("groupName", "")),
        log_stream=str(logs.get("streamName", "")),
        # Until it has a log stream, a build's link leads to no log.
        link=str(logs.get("deepLink", "")) if "streamName" in logs else "",
        content_hash=variables.get(CONTENT_HASH, ""),
        request_id=variables.get(REQUEST_ID, ""),
        stack_id=variables.get(STACK_ID, ""),
    )


def _phase(item: dict[str, Any]) -> tuple[str, str]:
    """The first phase that ended badly with what CodeBuild says of it, else the current one."""
    for phase in item.get("phases", []):
        if phase.get("phaseStatus") in {"FAILED", "FAULT", "TIMED_OUT", "STOPPED"}:
            texts = [
                ": ".join(
                    text for text in (context.get("statusCode", ""), context.get("message", "")) if text
                )
                for context in phase.get("contexts", [])
            ]
            return str(phase["phaseType"]), "; ".join(text for text in texts if text)
    return str(item.get("currentPhase", "an unknown phase")), ""
