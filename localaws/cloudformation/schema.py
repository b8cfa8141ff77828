"""CloudFormation's own schemas of resource types, as cfn-lint ships them.

They say which properties exist, which are required and which replace the resource when they change.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The set of types differs a little from region to region; us-east-1 has every type this package knows.
_REGION = "us-east-1"


@dataclass(frozen=True)
class ResourceSchema:
    """What the registry says of one type; property paths are tuples such as ("Code", "ImageUri")."""

    properties: frozenset[str]
    required: frozenset[str]
    create_only: frozenset[tuple[str, ...]]

    def problems(self, properties: Mapping[str, Any]) -> list[str]:
        """Return the registry's sentences for missing and unknown properties."""
        missing = [f"#: required key [{name}] not found" for name in sorted(self.required - set(properties))]
        extra = sorted(set(properties) - self.properties)
        return missing + [f"#: extraneous key [{name}] is not permitted" for name in extra]

    def replaces(self, name: str, old: Any, new: Any) -> bool:
        """Tell whether changing the top-level property `name` from `old` to `new` needs a new resource."""
        return any(
            _at(old, path[1:]) != _at(new, path[1:]) for path in self.create_only if path and path[0] == name
        )


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


@functools.cache
def _schemas() -> Path:
    """Find cfn-lint's data without importing cfn-lint, which takes seconds."""
    spec = find_spec("cfnlint")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("cfn-lint is not installed; run `make setup`", name="cfnlint")
    return Path(spec.submodule_search_locations[0]) / "data" / "schemas"


@functools.cache
def _index() -> Mapping[str, str]:
    index: Mapping[str, str] = json.loads((_schemas() / "providers" / f"{_REGION}.json").read_text())
    return index


@functools.cache
def resource_schema(type_name: str) -> ResourceSchema | None:
    """Return the schema of a type, or None if AWS has no such type."""
    file = _index().get(type_name)
    if file is None:
        return None
    document = json.loads((_schemas() / "resources" / f"{file}.json").read_text())
    read_only = {
        pointer.split("/")[2] for pointer in document.get("readOnlyProperties", []) if pointer.count("/") == 2
    }
    return ResourceSchema(
        properties=frozenset(document["properties"]) - read_only,
        required=frozenset(document.get("required") or ()),
        create_only=frozenset(
            tuple(pointer.split("/")[2:]) for pointer in document.get("createOnlyProperties", [])
        ),
    )
