"""Bring a stack to a target and back: order, replacement, clean-up, rollback."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from localaws.clients import Clients
from localaws.cloudformation.evaluation import Surroundings, evaluation_of
from localaws.cloudformation.graph import creation_order, dependencies
from localaws.cloudformation.intrinsics import Evaluation
from localaws.cloudformation.resources.base import Created, ResourceError, ResourceType
from localaws.cloudformation.stack import Output, Resource, Stable, Stack, Target, now
from localaws.cloudformation.steps import OperationError, Steps
from localaws.cloudformation.template import Document, TemplateError


class Operation(Steps):
    """One create, update or delete of one stack, on the calling thread."""

    def __init__(
        self, stack: Stack, types: Callable[[str], ResourceType], clients: Clients, surroundings: Surroundings
    ) -> None:
        super().__init__(stack, types, clients)
        self.surroundings = surroundings
        self._active: Mapping[str, Document] = {}
        self._imported: set[str] = set()

    def deploy(self, target: Target, *, disable_rollback: bool = False) -> None:
        """Create or update the stack; on failure roll it back. Never raises."""
        stack = self.stack
        creating = stack.target is None
        verb = "CREATE" if creating else "UPDATE"
        stable = stack.stable or Stable(dict(stack.resources), stack.imports)
        try:
            outputs = self._converge(target)
        except OperationError as error:
            reason = str(error)
            if creating:
                stack.target = target
            else:
                stack.stable = stable
            if disable_rollback:
                stack.leftover = self._cleanup
                stack.set_status(f"{verb}_FAILED", reason)
            else:
                stack.operation_id = str(uuid.uuid4())
                back = "ROLLBACK_IN_PROGRESS" if creating else "UPDATE_ROLLBACK_IN_PROGRESS"
                stack.set_status(back, reason)
                self.roll_back()
            return
        stack.stable, stack.leftover = None, []
        stack.target, stack.outputs, stack.imports = target, outputs, frozenset(self._imported)
        if creating:
            stack.set_status("CREATE_COMPLETE")
            return
        gone = [stack.resources[name] for name in stack.resources.keys() - set(self._active)]
        stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        undeleted = self._clean_up(gone)
        left = (
            f"The following resource(s) failed to delete: [{', '.join(undeleted)}]. " if undeleted else None
        )
        stack.set_status("UPDATE_COMPLETE", left)

    def roll_back(self, skip: Iterable[str] = ()) -> None:
        """Undo a failed creation or update; the ids in `skip` are taken as rolled back. Never raises."""
        if self.stack.stable is None:
            self._roll_back_creation()
        else:
            self._roll_back_update(self.stack.stable, frozenset(skip))

    def delete(self, retain: Iterable[str] = ()) -> None:
        """Delete every resource, in reverse order; a failure leaves DELETE_FAILED. Never raises."""
        stack = self.stack
        try:
            self.surroundings.check_exports(stack, {})
        except TemplateError as error:
            stack.set_status("DELETE_FAILED", f"Delete canceled. {error}")
            return
        failed = self._delete_all(stack.resources.values(), retain=frozenset(retain))
        if failed:
            stack.set_status(
                "DELETE_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. "
            )
            return
        stack.outputs, stack.imports = {}, frozenset()
        stack.deleted_at = now()
        stack.set_status("DELETE_COMPLETE")

    # -- forward ---------------------------------------------------------------------------------------------

    def _converge(self, target: Target) -> dict[str, Output]:
        stack = self.stack
        evaluation = evaluation_of(stack, target, self.surroundings)
        evaluation.import_value = self._import_value
        try:
            self._active = evaluation.active_resources()
            among = self._active.keys()
            order = creation_order({name: dependencies(self._active[name], among) for name in self._active})
        except TemplateError as error:
            raise OperationError(str(error)) from error
        for logical_id in order:
            self._apply(logical_id, evaluation)
        try:
            outputs = outputs_of(evaluation, target)
            exports = {output.export_name: output.value for output in outputs.values() if output.export_name}
            self.surroundings.check_exports(stack, exports)
        except TemplateError as error:
            raise OperationError(str(error)) from error
        return outputs

    def _import_value(self, name: str) -> str:
        # Noted before it is read, so that the exporting stack cannot drop it in between.
        self.stack.imports |= {name}
        self._imported.add(name)
        return self.surroundings.import_value(self.stack, name)

    def _apply(self, logical_id: str, evaluation: Evaluation) -> None:
        definition, current = self._active[logical_id], self.stack.resources.get(logical_id)
        if current is not None and current.physical_id is None:
            current = None  # an earlier create failed and was not rolled back
        type_name = definition["Type"]
        verb = "UPDATE" if current else "CREATE"
        try:
            kind = self.types(type_name)
            properties = evaluation.value(definition.get("Properties", {}))
            kind.check(logical_id, properties)
        except (TemplateError, ResourceError) as error:
            raise self._failure(logical_id, type_name, verb, str(error), current) from error
        needs = dependencies(definition, self._active.keys())
        draft = Resource(logical_id, type_name, None, properties, {}, definition, needs, "")
        if current is None:
            self._create(draft, kind)
        elif current.type != type_name or replacing(kind, current.properties, properties):
            self._replace(draft, kind, current)
        elif current.properties != properties or current.status.endswith("FAILED"):
            self._update(draft, kind, current)
        else:
            self.stack.resources[logical_id] = replace(current, definition=definition, needs=needs)

    def _create(self, draft: Resource, kind: ResourceType) -> None:
        self._event(draft, "CREATE_IN_PROGRESS")
        try:
            created = self._call(draft, lambda context: kind.create(context, draft.properties))
        except ResourceError as error:
            left = replace(draft, physical_id=error.physical_id, status="CREATE_FAILED", reason=error.reason)
            self.stack.resources[draft.logical_id] = left
            raise self._failure(draft.logical_id, draft.type, "CREATE", error.reason, left) from error
        self._keep(draft, created, "CREATE_COMPLETE")

    def _replace(self, draft: Resource, kind: ResourceType, current: Resource) -> None:
        self._event(
            current,
            "UPDATE_IN_PROGRESS",
            "Requested update requires the creation of a new physical resource; hence creating one.",
        )
        try:
            created = self._call(draft, lambda context: kind.create(context, draft.properties))
        except ResourceError as error:
            if error.physical_id is not None:
                self._cleanup.append(replace(draft, physical_id=error.physical_id))
            raise self._failure(draft.logical_id, draft.type, "UPDATE", error.reason, current) from error
        self._cleanup.append(current)
        self._keep(draft, created, "UPDATE_COMPLETE")

    def _update(self, draft: Resource, kind: ResourceType, current: Resource) -> None:
        """Update in place; a type that answers with another physical id has replaced the resource itself."""
        self._event(current, "UPDATE_IN_PROGRESS")
        physical_id = current.physical_id or ""
        try:
            created = self._call(
                replace(draft, physical_id=physical_id),
                lambda context: kind.update(context, physical_id, draft.properties, current.properties),
            )
        except ResourceError as error:
            # What the failed update left behind is unknown, so a rollback sends the old properties again.
            self.stack.resources[draft.logical_id] = replace(
                current, properties=draft.properties, status="UPDATE_FAILED", reason=error.reason
            )
            raise self._failure(draft.logical_id, draft.type, "UPDATE", error.reason, current) from error
        if created.physical_id != physical_id:
            self._cleanup.append(current)
        self._keep(draft, created, "UPDATE_COMPLETE")

    # -- back ------------------------------------------------------------------------------------------------

    def _roll_back_creation(self) -> None:
        stack = self.stack
        failed = self._delete_all(stack.resources.values(), rollback=True)
        stack.imports = frozenset()
        if failed:
            stack.set_status(
                "ROLLBACK_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}]. "
            )
        else:
            stack.set_status("ROLLBACK_COMPLETE")

    def _roll_back_update(self, stable: Stable, skip: frozenset[str]) -> None:
        stack, before = self.stack, stable.resources
        kept = {(item.type, item.physical_id) for item in before.values()}
        self._cleanup = [item for item in self._cleanup if (item.type, item.physical_id) not in kept]
        for logical_id in creation_order({name: item.needs & before.keys() for name, item in before.items()}):
            if logical_id in skip:
                self._keep(before[logical_id], _as_created(before[logical_id]), "UPDATE_COMPLETE")
                continue
            try:
                self._restore(before[logical_id])
            except OperationError as error:
                stack.leftover = self._cleanup
                stack.set_status("UPDATE_ROLLBACK_FAILED", str(error))
                return
        new = [stack.resources[name] for name in stack.resources.keys() - before.keys()]
        stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean_up(new, rollback=True)
        stack.imports, stack.stable, stack.leftover = stable.imports, None, []
        stack.set_status("UPDATE_ROLLBACK_COMPLETE")

    def _restore(self, old: Resource) -> None:
        current = self.stack.resources[old.logical_id]
        same = current.properties == old.properties and current.physical_id == old.physical_id
        # One whose way back failed has the old properties, but who knows what it is.
        if same and not current.status.endswith("FAILED"):
            self.stack.resources[old.logical_id] = old
            return
        kind = self.types(old.type)
        if current.physical_id != old.physical_id and not kind.rolls_back_by_update:
            # The old resource still exists: the replacement goes in the clean-up, and nothing else is to do.
            self._event(old, "UPDATE_IN_PROGRESS")
            self._cleanup.append(current)
            self._keep(old, _as_created(old), "UPDATE_COMPLETE")
            return
        self._update(replace(old, physical_id=None, status=""), kind, current)


def _as_created(resource: Resource) -> Created:
    return Created(resource.physical_id or "", resource.attributes)


def replacing(kind: ResourceType, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether going from `old` to `new` needs a new resource."""
    names = old.keys() | new.keys()
    return any(
        kind.replaced_by(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    )


def outputs_of(evaluation: Evaluation, target: Target) -> dict[str, Output]:
    """Evaluate the outputs whose condition holds."""
    outputs = {}
    for key, definition in target.template.get("Outputs", {}).items():
        if "Condition" in definition and not evaluation.condition(definition["Condition"]):
            continue
        value = evaluation.value(definition.get("Value"))
        if isinstance(value, list | dict) or value is None:
            raise TemplateError(
                f"Template format error: Output {key} is malformed: its value must be a string"
            )
        export = evaluation.value(definition["Export"]["Name"]) if "Export" in definition else None
        text = ("true" if value else "false") if isinstance(value, bool) else str(value)
        outputs[key] = Output(key, text, definition.get("Description"), export)
    return outputs
