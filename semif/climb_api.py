"""The endpoints that an environment has, and the calls of a climb: SSM, CloudFormation, Lambda, SageMaker."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from semif.attempts import Attempt
from semif.aws import Aws, aws_errors
from semif.climb import Target, parse_pool
from semif.errors import NotFoundError
from semif.walk_api import AttemptReader, read_endpoint
from semif.walk_lines import WalkLines, attempt_state

POOL, FUNCTION = "pool", "pool-function"
HEARTBEAT_S = 60


def read_targets(aws: Aws, env: str, key: str | None) -> tuple[list[Target], datetime]:
    """The environment's endpoints, or the one that is `key` in the settings; and the time at AWS.

    Raises SemifError.
    """
    path = f"/semif/{env}/"
    with aws_errors(f"parameters {path}"):
        pages = aws.client("ssm").get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
        found = {item["Name"]: item["Value"] for page in pages for item in page["Parameters"]}
    keys = sorted(
        name.removeprefix(path).removesuffix(f"/{FUNCTION}")
        for name in found
        if name.endswith(f"/{FUNCTION}")
    )
    wanted = [name for name in keys if key in {None, name}]
    if not wanted:
        what = f"endpoint {key}" if key else "endpoint that can climb"
        there = f"; it has {', '.join(keys)}" if keys else ""
        raise NotFoundError(
            "not_deployed",
            f"environment {env} has no {what} in {aws.region}{there}",
            next_step=f"deploy it (semif deploy {env}), or check the name and --region",
        )
    targets, now, cloudformation = [], datetime.now(UTC), aws.cloudformation()
    for name in wanted:
        stack = f"semif-{env}-{name}"
        with aws_errors(f"stack {stack}"):
            answer = cloudformation.describe_stacks(StackName=stack)
        stack_id, now = str(answer["Stacks"][0].get("StackId", "")), _moment(answer)
        parameter = f"{path}{name}/{POOL}"
        pool = parse_pool(found.get(parameter, ""), parameter)
        targets.append(Target(name, stack_id, pool, found[f"{path}{name}/{FUNCTION}"]))
    return targets, now


class ClimbCalls:
    """The calls of one command's climbs, all with one request id."""

    def __init__(self, aws: Aws, request_id: str, started_at: datetime) -> None:
        self._request_id = request_id
        self._started_at = started_at.isoformat()
        self._lines: dict[str, WalkLines] = {}
        self._told_at: dict[str, datetime] = {}
        self.connect(aws)

    def connect(self, aws: Aws) -> None:
        """Use another session from now on."""
        self._functions = aws.functions()
        self._sagemaker = aws.sagemaker()
        self._attempts = AttemptReader(self._sagemaker)

    def poll(self, target: Target) -> tuple[bytes, bool]:
        """Invoke the function once: its answer, and whether that is an error. Raises SemifError."""
        with aws_errors(f"function {target.function_name}"):
            answer = self._functions.invoke(
                FunctionName=target.function_name, Payload=target.event(self._request_id, self._started_at)
            )
            return answer["Payload"].read(), bool(answer.get("FunctionError"))

    def look(self, target: Target) -> Sequence[str]:
        """What is new of a climb; once a minute what it is at. Raises SemifError."""
        with aws_errors(f"endpoint {target.endpoint_name}"):
            mine = [a for a in self._attempts.read(target.endpoint_name) if a.request_id == self._request_id]
            endpoint = read_endpoint(self._sagemaker, target.endpoint_name)
        mine.sort(key=lambda attempt: attempt.started_at)
        lines = self._lines.setdefault(target.key, WalkLines()).attempt_lines(mine, endpoint)
        now = datetime.now(UTC)
        if lines or not mine:
            self._told_at[target.key] = now
            return lines
        return self._heartbeat(target, mine[-1], now)

    def _heartbeat(self, target: Target, last: Attempt, now: datetime) -> list[str]:
        if last.outcome or (now - self._told_at[target.key]).total_seconds() < HEARTBEAT_S:
            return []
        self._told_at[target.key] = now
        return [attempt_state(last, now)]


def _moment(answer: Any) -> datetime:
    """When AWS answered, by its own clock: the function reckons the climb's time by that."""
    date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date", "")
    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.now(UTC)
