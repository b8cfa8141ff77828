"""CloudFormation's API operations."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Set

from localaws.clients import Clients
from localaws.cloudformation import views
from localaws.cloudformation.changes import plan_changes
from localaws.cloudformation.custom_resource import CustomResource, Responses, is_custom
from localaws.cloudformation.engine import Operation
from localaws.cloudformation.queries import Answer, Params, Queries
from localaws.cloudformation.region import ChangeSet, Region, validation_error
from localaws.cloudformation.requests import (
    same_target,
    target_of,
)
from localaws.cloudformation.resources.base import ResourceType
from localaws.cloudformation.resources.registry import RESOURCE_TYPES
from localaws.cloudformation.stack import Stack, Target, now
from localaws.cloudformation.template import TemplateError
from localaws.protocol import Scope, ServiceError

NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
_UPDATABLE = frozenset(
    ("CREATE_COMPLETE", "IMPORT_COMPLETE", "UPDATE_COMPLETE", "UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE")
) | {"CREATE_FAILED", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"}


class CloudFormationBackend(Queries):
    """The operations; state is by account and region, and each stack operation runs on its own thread."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        self.responses = Responses()
        self._custom = CustomResource(self.responses)

    # -- change sets -----------------------------------------------------------------------------------------

    def create_change_set(self, scope: Scope, params: Params) -> Answer:
        """Work out a change set; it is ready (or failed) when the call returns."""
        region, kind = self._region(scope), params.get("ChangeSetType", "UPDATE")
        if kind not in {"CREATE", "UPDATE"}:
            raise validation_error(f"The local AWS makes no change sets of type {kind}")
        if params.get("ResourcesToImport"):
            raise validation_error("The local AWS imports no resources")
        name, stack_name = params["ChangeSetName"], params["StackName"]
        with region.lock:
            stack = region.find(stack_name)
            fresh = stack is None or stack.status == "REVIEW_IN_PROGRESS"
            if kind == "CREATE" and not fresh:
                raise validation_error(
                    f"Stack [{stack_name}] already exists and cannot be created again with the changeSet"
                    f" [{name}]."
                )
            if kind == "UPDATE" and fresh:
                raise validation_error(f"Stack [{stack_name}] does not exist")
            if stack and any(item.name == name and item.stack is stack for item in region.change_sets):
                raise ServiceError("AlreadyExistsException", f"ChangeSet {name} cannot be created: it exists")
            target = target_of(params, region, self._clients, stack)
            if stack is None:
                stack = region.add(stack_name, "REVIEW_IN_PROGRESS")
                stack.operation_id = str(uuid.uuid4())
                stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
            elif kind == "UPDATE":
                _check_updatable(stack)
            change_set = self._plan(region, stack, target, params)
            region.change_sets.append(change_set)
        return {"Id": change_set.change_set_id, "StackId": stack.stack_id}

    def _plan(self, region: Region, stack: Stack, target: Target, params: Params) -> ChangeSet:
        name, scope = params["ChangeSetName"], region.scope
        arn = f"arn:aws:cloudformation:{scope.region}:{scope.account}:changeSet/{name}/{uuid.uuid4()}"
        kind, description = params.get("ChangeSetType", "UPDATE"), params.get("Description")
        made = ChangeSet(name, arn, kind, stack, target, [], "CREATE_COMPLETE", "AVAILABLE")
        made.description = description
        try:
            made.changes = plan_changes(stack, target, region)
        except TemplateError as error:
            made.status, made.execution_status, made.reason = "FAILED", "UNAVAILABLE", str(error)
        else:
            if stack.target is not None and same_target(stack.target, target) and not made.changes:
                made.status, made.execution_status, made.reason = "FAILED", "UNAVAILABLE", NO_CHANGES
        return made

    def describe_change_set(self, scope: Scope, params: Params) -> Answer:
        """Describe one change set."""
        found = self._region(scope).change_set(params["ChangeSetName"], params.get("StackName"))
        return views.change_set_view(found, values=bool(params.get("IncludePropertyValues")))

    def list_change_sets(self, scope: Scope, params: Params) -> Answer:
        """List the change sets of a stack."""
        region = self._region(scope)
        stack = region.get(params["StackName"])
        return {
            "Summaries": [
                views.change_set_summary(item) for item in region.change_sets if item.stack is stack
            ]
        }

    def delete_change_set(self, scope: Scope, params: Params) -> Answer:
        """Delete one change set; deleting one that is not there is no error."""
        region = self._region(scope)
        with region.lock:
            try:
                found = region.change_set(params["ChangeSetName"], params.get("StackName"))
            except ServiceError:
                return {}
            region.change_sets.remove(found)
        return {}

    def execute_change_set(self, scope: Scope, params: Params) -> Answer:
        """Start the stack's creation or update."""
        region = self._region(scope)
        with region.lock:
            found = region.change_set(params["ChangeSetName"], params.get("StackName"))
            if found.execution_status != "AVAILABLE":
                raise ServiceError(
                    "InvalidChangeSetStatus",
                    f"ChangeSet [{found.change_set_id}] cannot be executed in its current status of"
                    f" [{found.status}]",
                )
            if found.kind == "UPDATE":
                _check_updatable(found.stack)
            stack = found.stack
            region.change_sets = [item for item in region.change_sets if item.stack is not stack]
            stack.change_set_id = found.change_set_id
            self._deploy(region, stack, found.target, params)
        return {}

    # -- stacks ----------------------------------------------------------------------------------------------

    def create_stack(self, scope: Scope, params: Params) -> Answer:
        """Start the creation of a stack."""
        region, name = self._region(scope), params["StackName"]
        if params.get("RollbackConfiguration"):
            raise validation_error("The local AWS does not support RollbackConfiguration")
        if params.get("OnFailure") == "DELETE":
            raise validation_error("The local AWS supports OnFailure ROLLBACK and DO_NOTHING only")
        with region.lock:
            if region.find(name) is not None:
                raise ServiceError("AlreadyExistsException", f"Stack [{name}] already exists")
            target = target_of(params, region, self._clients, None)
            stack = region.add(name, "CREATE_IN_PROGRESS")
            stack.termination_protection = bool(params.get("EnableTerminationProtection"))
            keep = bool(params.get("DisableRollback")) or params.get("OnFailure") == "DO_NOTHING"
            self._deploy(region, stack, target, {"DisableRollback": keep})
        return {"StackId": stack.stack_id}

    def update_stack(self, scope: Scope, params: Params) -> Answer:
        """Start the update of a stack."""
        region = self._region(scope)
        with region.lock:
            stack = region.find(params["StackName"])
            if stack is None:
                raise validation_error(f"Stack [{params['StackName']}] does not exist")
            _check_updatable(stack)
            target = target_of(params, region, self._clients, stack)
            if stack.target and same_target(stack.target, target) and not plan_changes(stack, target, region):
                raise validation_error("No updates are to be performed.")
            self._deploy(region, stack, target, params)
        return {"StackId": stack.stack_id}

    def delete_stack(self, scope: Scope, params: Params) -> Answer:
        """Start the deletion of a stack; deleting one that is not there is no error."""
        region = self._region(scope)
        with region.lock:
            stack = region.find(params["StackName"])
            if stack is None or stack.deleted_at is not None:
                return {}
            if stack.termination_protection:
                raise validation_error(
                    f"Stack [{stack.stack_id}] cannot be deleted while TerminationProtection is enabled"
                )
            if stack.status == "DELETE_IN_PROGRESS":
                return {}
            if stack.in_progress:
                raise validation_error(
                    f"Stack [{stack.name}] cannot be deleted while in status {stack.status}"
                )
            region.change_sets = [item for item in region.change_sets if item.stack is not stack]
            operation, retain = self._operation(region, stack), params.get("RetainResources", [])
            self._start(stack, "DELETE_IN_PROGRESS", lambda: operation.delete(retain))
        return {}

    def rollback_stack(self, scope: Scope, params: Params) -> Answer:
        """Start to roll back a stack that failed without rollback."""
        return self._roll_back(scope, params, {"CREATE_FAILED", "UPDATE_FAILED"})

    def continue_update_rollback(self, scope: Scope, params: Params) -> Answer:
        """Start again a rollback that failed, without the resources to skip."""
        self._roll_back(scope, params, {"UPDATE_ROLLBACK_FAILED"})
        return {}

    def _roll_back(self, scope: Scope, params: Params, statuses: Set[str]) -> Answer:
        region = self._region(scope)
        with region.lock:
            stack = region.get(params["StackName"])
            if stack.status not in statuses:
                raise validation_error(
                    f"Stack:{stack.stack_id} is in {stack.status} state and can not be rolled back."
                )
            operation, skip = self._operation(region, stack), params.get("ResourcesToSkip", [])
            verb = "ROLLBACK" if stack.stable is None else "UPDATE_ROLLBACK"
            self._start(stack, f"{verb}_IN_PROGRESS", lambda: operation.roll_back(skip=skip))
        return {"StackId": stack.stack_id, "OperationId": stack.operation_id}

    def update_termination_protection(self, scope: Scope, params: Params) -> Answer:
        """Protect a stack from deletion, or stop to."""
        stack = self._region(scope).get(params["StackName"])
        stack.termination_protection = params["EnableTerminationProtection"]
        return {"StackId": stack.stack_id}

    # -- machinery -------------------------------------------------------------------------------------------

    def _type(self, name: str) -> ResourceType:
        return self._custom if is_custom(name) else RESOURCE_TYPES[name]

    def _operation(self, region: Region, stack: Stack) -> Operation:
        return Operation(stack, self._type, self._clients, region)

    def _deploy(self, region: Region, stack: Stack, target: Target, params: Params) -> None:
        operation = self._operation(region, stack)
        stack.disable_rollback = bool(params.get("DisableRollback"))
        updating = stack.target is not None
        if updating:
            stack.updated_at = now()
        self._start(
            stack,
            "UPDATE_IN_PROGRESS" if updating else "CREATE_IN_PROGRESS",
            lambda: operation.deploy(target, disable_rollback=stack.disable_rollback),
        )

    @staticmethod
    def _start(stack: Stack, status: str, work: Callable[[], None]) -> None:
        stack.operation_id = str(uuid.uuid4())
        stack.set_status(status, "User Initiated")
        threading.Thread(target=work, name=f"cloudformation {stack.name}", daemon=True).start()


def _check_updatable(stack: Stack) -> None:
    if stack.status not in _UPDATABLE or stack.in_progress:
        raise validation_error(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
