"""The stacks and change sets of one account and region, and what they see of one another."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from localaws.clients import Clients
from localaws.cloudformation.changes import Change
from localaws.cloudformation.stack import Stack, Target, new_stack, now
from localaws.cloudformation.template import TemplateError
from localaws.protocol import Scope, ServiceError


@dataclass
class ChangeSet:
    """One change set: the target it would bring its stack to."""

    name: str
    change_set_id: str
    kind: str
    stack: Stack
    target: Target
    changes: list[Change]
    status: str
    execution_status: str
    reason: str | None = None
    description: str | None = None
    created_at: datetime = field(default_factory=now)


def validation_error(message: str) -> ServiceError:
    """Return CloudFormation's answer to a request it does not accept."""
    return ServiceError("ValidationError", message)


class Region:
    """Stacks and change sets. The lock is held for look-ups and for starting operations, not during them."""

    def __init__(self, scope: Scope, clients: Clients) -> None:
        self.scope = scope
        self.lock = threading.RLock()
        self.stacks: list[Stack] = []
        self.change_sets: list[ChangeSet] = []
        self._clients = clients

    def live(self) -> Iterator[Stack]:
        """Yield the stacks that are not deleted."""
        with self.lock:
            return iter([stack for stack in self.stacks if stack.deleted_at is None])

    def find(self, name: str) -> Stack | None:
        """Find a stack by name (live ones only) or by id (deleted ones too)."""
        with self.lock:
            for stack in reversed(self.stacks):
                if stack.stack_id == name or (stack.name == name and stack.deleted_at is None):
                    return stack
        return None

    def get(self, name: str) -> Stack:
        """Find a stack or raise CloudFormation's error."""
        stack = self.find(name)
        if stack is None:
            raise validation_error(f"Stack with id {name} does not exist")
        return stack

    def add(self, name: str, status: str) -> Stack:
        """Add a new stack."""
        stack = new_stack(name, self.scope, status)
        with self.lock:
            self.stacks.append(stack)
        return stack

    def change_set(self, name: str, stack_name: str | None) -> ChangeSet:
        """Find a change set by id, or by name within a stack."""
        with self.lock:
            for change_set in self.change_sets:
                if change_set.change_set_id == name:
                    return change_set
                stack = change_set.stack
                if change_set.name == name and stack_name in {stack.name, stack.stack_id}:
                    return change_set
        raise ServiceError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)

    # -- Surroundings --------------------------------------------------------------------------------------

    def exports(self) -> Mapping[str, tuple[Stack, str]]:
        """Return every export with the stack it comes from."""
        found = {}
        for stack in self.live():
            for name, value in stack.exports().items():
                found[name] = (stack, value)
        return found

    def importers(self, name: str) -> list[str]:
        """Return the names of the stacks that use an export."""
        return sorted(stack.name for stack in self.live() if name in stack.imports)

    def import_value(self, stack: Stack, name: str) -> str:
        """Return an export of the account and region."""
        found = self.exports().get(name)
        if found is None:
            raise TemplateError(f"No export named {name} found.")
        exporter, value = found
        if exporter is stack:
            raise TemplateError(f"Cannot import the export {name} in the stack that exports it.")
        return value

    def check_exports(self, stack: Stack, exports: Mapping[str, str]) -> None:
        """Refuse exports that clash with another stack's, or that change or drop one in use."""
        with self.lock:
            for name, value in stack.exports().items():
                users = self.importers(name)
                if users and exports.get(name) != value:
                    verb = "updated" if name in exports else "deleted"
                    raise TemplateError(
                        f"Export {name} cannot be {verb} as it is in use by {' and '.join(users)}"
                    )
            for name in exports:
                exporter, _ = self.exports().get(name, (stack, ""))
                if exporter is not stack:
                    raise TemplateError(
                        f"Export with name {name} is already exported by stack {exporter.name}."
                    )

    def dynamic_reference(self, scope: Scope, service: str, name: str) -> str:
        """Return the value behind {{resolve:ssm:name}}; other services are unknown here."""
        if service != "ssm":
            raise TemplateError(
                f"The local AWS does not know the dynamic reference {{{{resolve:{service}:...}}}}"
            )
        parameter, _, version = name.partition(":")
        return self.read_parameter(f"{parameter}:{version}" if version else parameter)

    def read_parameter(self, name: str) -> str:
        """Return the value of an SSM parameter."""
        try:
            found = self._clients.get("ssm", self.scope).get_parameter(Name=name)
        except ClientError as error:
            raise TemplateError(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error
        return str(found["Parameter"]["Value"])


def tags_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return a request's tags as a map."""
    return {tag["Key"]: tag["Value"] for tag in params.get("Tags", [])}
