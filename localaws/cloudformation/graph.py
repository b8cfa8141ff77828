"""The order in which a stack's resources are made and deleted (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from localaws.cloudformation.template import Document, TemplateError, references


def dependencies(definition: Document, among: Set[str]) -> frozenset[str]:
    """Return the logical ids in `among` that a resource needs first: by references or DependsOn.

    A resource that refers to itself is among its own dependencies, so that it shows as a cycle.
    """
    explicit: Any = definition.get("DependsOn", [])
    named = {explicit} if isinstance(explicit, str) else set(explicit)
    named |= {name for name, _ in references(definition.get("Properties", {}))}
    return frozenset(named & among)


def creation_order(needs: Mapping[str, Set[str]]) -> list[str]:
    """Order the keys so that each follows all that it needs; among equals, the mapping's own order stays.

    `needs` maps each logical id to the ids it depends on (all of them keys). Raises TemplateError on a cycle,
    naming its members.
    """
    waiting = {name: set(needed) for name, needed in needs.items()}
    order: list[str] = []
    while waiting:
        ready = next((name for name, needed in waiting.items() if not needed), None)
        if ready is None:
            cycle = _members_of_cycles(waiting)
            raise TemplateError(f"Circular dependency between resources: [{', '.join(sorted(cycle))}]")
        del waiting[ready]
        order.append(ready)
        for needed in waiting.values():
            needed.discard(ready)
    return order


def _members_of_cycles(waiting: Mapping[str, Set[str]]) -> set[str]:
    """Drop, again and again, whatever nothing else waits for: what remains lies on cycles or between them."""
    members = set(waiting)
    while True:
        needed = {name for member in members for name in waiting[member]}
        kept = members & needed
        if kept == members:
            return members
        members = kept
