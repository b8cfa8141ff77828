"""Looks at an environment's stacks and their endpoints: CloudFormation and SageMaker in, snapshots out."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from semif.aws import Aws, ClientError, aws_errors, describe
from semif.builds import Build
from semif.builds_api import BuildReader
from semif.deployment import (
    Snapshot,
    Stack,
    StackEvent,
    build_runs,
    is_start,
    last_operation,
    pool_endpoint,
    stacks_of,
)
from semif.walk_api import AttemptReader, read_endpoint

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.literals import StackStatusType
    from mypy_boto3_cloudformation.type_defs import StackEventTypeDef, StackTypeDef

LIST_S = 10  # between two listings of the account's stacks while some of ours are under way


EXISTING: "tuple[StackStatusType, ...]" = (
    "CREATE_COMPLETE", "CREATE_FAILED", "CREATE_IN_PROGRESS", "DELETE_FAILED", "DELETE_IN_PROGRESS",
    "IMPORT_COMPLETE", "IMPORT_IN_PROGRESS", "IMPORT_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_FAILED",
    "IMPORT_ROLLBACK_IN_PROGRESS", "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED",
    "ROLLBACK_IN_PROGRESS", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_FAILED",
    "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
    "UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS",
)  # fmt: skip


def _utc_now() -> datetime:
    return datetime.now(UTC)


class DeploymentReader:
    """Reads snapshots of environment `env`, page by page only as far back as needed.

    `stacks` are the names to look at; without them the account's stacks are listed, while some are under way
    every `LIST_S` seconds only.
    """

    def __init__(
        self,
        aws: Aws,
        env: str,
        *,
        stacks: Sequence[str] | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._env = env
        self._now = now
        self._names = tuple(stacks or ())
        self._lists = stacks is None
        self._listed_at: datetime | None = None
        self._under_way = False
        self._ids: dict[str, str] = {}
        self._events: dict[str, tuple[StackEvent, ...]] = {}
        self._settled: dict[str, tuple[tuple[object, ...], Stack]] = {}
        self.connect(aws)

    def connect(self, aws: Aws) -> None:
        """Use another session from now on; what has been read is kept."""
        self._cloudformation = aws.cloudformation()
        self._sagemaker = aws.sagemaker()
        self._attempts = AttemptReader(self._sagemaker)
        self._aws = aws
        self._builds: BuildReader | None = None

    def read(self) -> Snapshot:
        """Look once. Raises `SemifError`; then nothing is lost, and the next look may succeed."""
        with aws_errors(f"environment {self._env}"):
            self._list()
            found = [self._find(name) for name in self._names]
            stacks = tuple(self._stack(stack) for stack in found if stack is not None)
        self._under_way = any(stack.under_way for stack in stacks)
        return Snapshot(self._now(), stacks)

    def _list(self) -> None:
        """Find the environment's stacks by their names, those that this reader has seen included."""
        now = self._now()
        fresh = self._listed_at is not None and (now - self._listed_at).total_seconds() < LIST_S
        if not self._lists or (self._under_way and fresh):
            return
        pages = self._cloudformation.get_paginator("list_stacks").paginate(StackStatusFilter=list(EXISTING))
        names = [stack["StackName"] for page in pages for stack in page["StackSummaries"]]
        self._names = stacks_of(self._env, [*names, *self._ids])
        self._listed_at = now

    def _find(self, name: str) -> "StackTypeDef | None":
        found = self._describe(name)
        if found is None and name in self._ids:
            # A deleted stack answers to its id only.
            found = self._describe(self._ids[name])
        if found is not None:
            self._ids[name] = found["StackId"]
        return found

    def _stack(self, found: "StackTypeDef") -> Stack:
        name, stack_id, status = found["StackName"], found["StackId"], found["StackStatus"]
        version = (status, found.get("LastUpdatedTime"), found.get("DeletionTime"))
        settled = self._settled.get(stack_id)
        if settled and settled[0] == version:
            return settled[1]
        events = self._new_events(stack_id)
        endpoint = pool_endpoint(events, name)
        stack = Stack(
            name=name,
            id=stack_id,
            status=status,
            reason=found.get("StackStatusReason", ""),
            # An export is the CDK's wire between two stacks, nothing for people.
            outputs={
                output.get("OutputKey", ""): output.get("OutputValue", "")
                for output in found.get("Outputs", [])
                if not output.get("ExportName")
            },
            events=events,
            endpoint=read_endpoint(self._sagemaker, endpoint) if endpoint else None,
            attempts=tuple(self._attempts.read(endpoint)) if endpoint else (),
            builds=self._builds_of(events),
        )
        if not status.endswith("_IN_PROGRESS"):
            self._settled[stack_id] = (version, stack)
        return stack

    def _describe(self, name_or_id: str) -> "StackTypeDef | None":
        try:
            return self._cloudformation.describe_stacks(StackName=name_or_id)["Stacks"][0]
        except ClientError as error:
            code, text, _ = describe(error)
            if code == "ValidationError" and "does not exist" in text:
                return None
            raise

    def _new_events(self, stack_id: str) -> tuple[StackEvent, ...]:
        """The events of the last operation, oldest first; reads back to the first one known."""
        known = self._events.get(stack_id, ())
        known_ids = {event.id for event in known}
        fresh: list[StackEvent] = []
        pages = self._cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        for found in (event for page in pages for event in page["StackEvents"]):
            event = _event(found)
            if event.id in known_ids:
                break
            fresh.append(event)
            if is_start(event, stack_id):
                break
        self._events[stack_id] = last_operation((*known, *reversed(fresh)), stack_id)
        return self._events[stack_id]

    def _builds_of(self, events: tuple[StackEvent, ...]) -> tuple[Build, ...]:
        runs = build_runs(events)
        if runs and self._builds is None:
            # Most deployments build nothing, and a client takes a while to make.
            self._builds = BuildReader(self._aws.codebuild(), self._aws.logs())
        return tuple(build for run in runs if self._builds for build in self._builds.read(run))


def _event(found: "StackEventTypeDef") -> StackEvent:
    return StackEvent(
        id=found["EventId"],
        at=found["Timestamp"],
        logical_id=found.get("LogicalResourceId", ""),
        physical_id=found.get("PhysicalResourceId", ""),
        resource_type=found.get("ResourceType", ""),
        status=found.get("ResourceStatus", ""),
        reason=found.get("ResourceStatusReason", ""),
        properties=found.get("ResourceProperties", ""),
    )
