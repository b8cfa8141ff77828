"""The steps of a stack operation: one call of one resource type with its events, and deletions in order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from localaws.clients import Clients
from localaws.cloudformation.graph import creation_order
from localaws.cloudformation.resources.base import (
    Created,
    ResourceContext,
    ResourceError,
    ResourceType,
    failure,
)
from localaws.cloudformation.stack import IN_PROGRESS, Resource, Stack, now

log = logging.getLogger("localaws.cloudformation")
Result = TypeVar("Result")


class OperationError(Exception):
    """A resource or an output could not be brought to the target; the message is the stack's reason."""


class Steps:
    """What every operation on one stack can do to its resources."""

    def __init__(self, stack: Stack, types: Callable[[str], ResourceType], clients: Clients) -> None:
        self.stack = stack
        self.types = types
        self.clients = clients
        #: Resources that were replaced, or whose replacement was given up: the clean-up deletes them.
        self._cleanup: list[Resource] = list(stack.leftover)

    # -- clean-up --------------------------------------------------------------------------------------------

    def _clean_up(self, gone: Iterable[Resource], *, rollback: bool = False) -> list[str]:
        """Delete what the operation replaced or left out, last first; returns what could not be deleted."""
        failed = [
            resource.logical_id
            for resource in reversed(self._cleanup)
            if self._delete(resource, resource.policy("UpdateReplacePolicy")) is not None
        ]
        return failed + self._delete_all(gone, rollback=rollback)

    def _delete_all(
        self, resources: Iterable[Resource], *, retain: frozenset[str] = frozenset(), rollback: bool = False
    ) -> list[str]:
        """Delete resources, each after those that need it; skip what still serves one that failed."""
        chosen = {resource.logical_id: resource for resource in resources}
        order = creation_order({name: item.needs & chosen.keys() for name, item in chosen.items()})
        failed: list[str] = []
        for logical_id in reversed(order):
            resource = chosen[logical_id]
            if any(logical_id in chosen[name].needs for name in failed):
                failed.append(logical_id)
                continue
            policy = resource.policy("DeletionPolicy")
            if policy == "RetainExceptOnCreate":
                policy = "Delete" if rollback else "Retain"
            if logical_id in retain:
                policy = "Retain"
            reason = self._delete(resource, policy)
            if reason is None:
                self.stack.resources.pop(logical_id, None)
            else:
                failed.append(logical_id)
                self.stack.resources[logical_id] = replace(resource, status="DELETE_FAILED", reason=reason)
        return failed

    def _delete(self, resource: Resource, policy: str) -> str | None:
        """Delete or keep one resource by its policy; returns the reason if that failed."""
        if policy != "Delete":
            self._event(resource, "DELETE_SKIPPED")
            return None
        self._event(resource, "DELETE_IN_PROGRESS")
        if resource.physical_id is not None:
            physical_id = resource.physical_id
            kind = self.types(resource.type)
            try:
                self._call(resource, lambda context: kind.delete(context, physical_id, resource.properties))
            except ResourceError as error:
                self._event(resource, "DELETE_FAILED", error.reason)
                return error.reason
        self._event(resource, "DELETE_COMPLETE")
        return None

    # -- one call --------------------------------------------------------------------------------------------

    def _call(self, resource: Resource, act: Callable[[ResourceContext], Result]) -> Result:
        context = ResourceContext(
            self.stack.scope,
            self.stack.stack_id,
            self.stack.name,
            resource.logical_id,
            resource.type,
            self.clients,
        )
        try:
            return act(context)
        except Exception as error:
            found = failure(error, context.physical_id)
            if found.unexpected:
                log.exception("%s of %s failed", resource.logical_id, self.stack.name)
            raise found from error

    def _keep(self, draft: Resource, created: Created, status: str) -> None:
        kept = replace(
            draft,
            physical_id=created.physical_id,
            attributes=created.attributes,
            status=status,
            updated_at=now(),
            reason=None,
        )
        self.stack.resources[draft.logical_id] = kept
        self._event(kept, status)

    def _failure(
        self, logical_id: str, type_name: str, verb: str, reason: str, resource: Resource | None
    ) -> OperationError:
        physical_id = resource.physical_id if resource else None
        self.stack.changing.pop(logical_id, None)
        self.stack.record(logical_id, physical_id, type_name, f"{verb}_FAILED", reason)
        return OperationError(f"The following resource(s) failed to {verb.lower()}: [{logical_id}]. ")

    def _event(self, resource: Resource, status: str, reason: str | None = None) -> None:
        if status.endswith(IN_PROGRESS):
            in_progress = replace(resource, status=status, reason=reason, updated_at=now())
            self.stack.changing[resource.logical_id] = in_progress
        else:
            self.stack.changing.pop(resource.logical_id, None)
        properties = json.dumps(resource.properties, default=str)
        self.stack.record(
            resource.logical_id, resource.physical_id, resource.type, status, reason, properties=properties
        )
