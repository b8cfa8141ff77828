"""What a stack is between operations: its template, parameters, resources, outputs and events."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from localaws.cloudformation.parameters import ParameterValues
from localaws.cloudformation.template import Document
from localaws.protocol import Scope

IN_PROGRESS = "_IN_PROGRESS"


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Target:
    """What a stack is to become, or is: a template with its parameter values and the stack's settings."""

    text: str
    template: Document
    parameters: ParameterValues
    tags: Mapping[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    notification_arns: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resource:
    """A resource that exists: `definition` is its template part, `needs` are the ids it was made after."""

    logical_id: str
    type: str
    physical_id: str | None
    properties: Mapping[str, Any]
    attributes: Mapping[str, Any]
    definition: Document
    needs: frozenset[str]
    status: str
    reason: str | None = None
    updated_at: datetime = field(default_factory=now)

    def policy(self, name: str) -> str:
        """Return DeletionPolicy or UpdateReplacePolicy."""
        return str(self.definition.get(name, "Delete"))


@dataclass(frozen=True)
class Event:
    """One stack event."""

    event_id: str
    operation_id: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    properties: str | None
    timestamp: datetime


@dataclass(frozen=True)
class Output:
    """One output of a stack."""

    key: str
    value: str
    description: str | None
    export_name: str | None


@dataclass(frozen=True)
class Stable:
    """What a rollback goes back to: the resources and imports before the first update that failed."""

    resources: Mapping[str, Resource]
    imports: frozenset[str]


@dataclass
class Stack:
    """One stack. Only the thread of the operation in progress changes it."""

    name: str
    stack_id: str
    scope: Scope
    status: str
    created_at: datetime
    target: Target | None = None
    reason: str | None = None
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    termination_protection: bool = False
    disable_rollback: bool = False
    resources: dict[str, Resource] = field(default_factory=dict)
    #: What is being created, updated or deleted at this moment, by logical id.
    changing: dict[str, Resource] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    imports: frozenset[str] = frozenset()
    events: list[Event] = field(default_factory=list)
    change_set_id: str | None = None
    #: Set while a failed update waits, unfinished, to be rolled back or repaired.
    stable: Stable | None = None
    #: Replaced resources that such an update left behind.
    leftover: list[Resource] = field(default_factory=list)
    operation_id: str = ""

    @property
    def in_progress(self) -> bool:
        """Tell whether an operation runs (a stack under review is not one)."""
        return self.status.endswith(IN_PROGRESS) and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        """Change the stack's status and write the event."""
        self.status, self.reason = status, reason
        self.record(self.name, self.stack_id, "AWS::CloudFormation::Stack", status, reason)

    def record(
        self,
        logical_id: str,
        physical_id: str | None,
        type_name: str,
        status: str,
        reason: str | None = None,
        *,
        properties: str | None = None,
    ) -> None:
        """Append an event; times are a millisecond apart at least, for clients order events by them."""
        time = now()
        if self.events:
            time = max(time, self.events[-1].timestamp + timedelta(milliseconds=1))
        self.events.append(
            Event(
                str(uuid.uuid4()),
                self.operation_id,
                logical_id,
                physical_id or "",
                type_name,
                status,
                reason[:1020] if reason else None,
                properties,
                time,
            )
        )

    def exports(self) -> dict[str, str]:
        """Return the stack's exports, by name."""
        return {output.export_name: output.value for output in self.outputs.values() if output.export_name}


def new_stack(name: str, scope: Scope, status: str) -> Stack:
    """Make a stack with a fresh id."""
    arn = f"arn:aws:cloudformation:{scope.region}:{scope.account}:stack/{name}/{uuid.uuid4()}"
    return Stack(name, arn, scope, status, now())
