"""The last lines of a build's log in CloudWatch Logs."""

from typing import Any, Final

from build_run.aws_call import call
from build_run.failures import ApiError
from build_run.observation import Build

EVENTS: Final = 60
"""How many of the newest events are read: CodeBuild ends each log with some twenty of its own."""


class LogsApi:
    """Reads logs. A log that cannot be read is no reason to keep a failure back, so nothing is raised."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def last_lines(self, build: Build) -> list[str]:
        """The newest lines, oldest first; or one line that says why there are none."""
        if not build.log_group or not build.log_stream:
            return []
        try:
            answer = call(
                self._client,
                "get_log_events",
                logGroupName=build.log_group,
                logStreamName=build.log_stream,
                limit=EVENTS,
                startFromHead=False,
            )
        except ApiError as error:
            return [f"(the log cannot be read: {error.code})"]
        return [line for event in answer.get("events", []) for line in str(event["message"]).splitlines()]
