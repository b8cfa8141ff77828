"""Request parameters against botocore's shapes, with the sentences AWS services use."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape


def violations(shape: Shape | None, params: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each constraint `params` breaks: required, type, length, range, pattern, enum."""
    return list(_check(shape, params, "")) if shape is not None else []


def _check(shape: Shape, value: Any, path: str) -> Iterator[str]:
    match shape:
        case StructureShape() if isinstance(value, Mapping):
            yield from _check_structure(shape, value, path)
        case ListShape() if isinstance(value, list):
            yield from _bounds(shape, len(value), value, path)
            for index, item in enumerate(value, start=1):
                yield from _check(shape.member, item, f"{path}.{index}.member")
        case MapShape() if isinstance(value, Mapping):
            yield from _bounds(shape, len(value), value, path)
            for key, item in value.items():
                yield from _check(shape.key, key, f"{path}.{key}.key")
                yield from _check(shape.value, item, f"{path}.{key}.member")
        case StructureShape() | ListShape() | MapShape():
            yield _broken(value, path, f"Member must be a {shape.type_name}")
        case _:
            yield from _check_scalar(shape, value, path)


def _check_structure(shape: StructureShape, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield _broken(None, _join(path, name), "Member must not be null")
    for name, member in shape.members.items():
        if value.get(name) is not None:
            yield from _check(member, value[name], _join(path, name))


def _check_scalar(shape: Shape, value: Any, path: str) -> Iterator[str]:
    match shape.type_name:
        case "string" if isinstance(value, str):
            yield from _check_string(shape, value, path)
        case "integer" | "long" if isinstance(value, int) and not isinstance(value, bool):
            yield from _bounds(shape, value, value, path)
        case "string" | "integer" | "long":
            yield _broken(value, path, f"Member must be a {shape.type_name}")
        case "float" | "double" if isinstance(value, bool) or not isinstance(value, int | float):
            yield _broken(value, path, "Member must be a number")
        case "boolean" if not isinstance(value, bool):
            yield _broken(value, path, "Member must be true or false")
        case _:
            return


def _check_string(shape: Shape, value: str, path: str) -> Iterator[str]:
    outside = list(_bounds(shape, len(value), value, path))
    yield from outside
    source = shape.metadata.get("pattern")
    pattern = _compiled(source) if source and not outside else None
    if pattern and not pattern.fullmatch(value):
        yield _broken(value, path, f"Member must satisfy regular expression pattern: {source}")
    allowed = shape.metadata.get("enum")
    if allowed and value not in allowed:
        yield _broken(value, path, f"Member must satisfy enum value set: [{', '.join(allowed)}]")


def _bounds(shape: Shape, size: int, value: Any, path: str) -> Iterator[str]:
    kind = "value" if shape.type_name in {"integer", "long"} else "length"
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _broken(value, path, f"Member must have {kind} greater than or equal to {low}")
    if high is not None and size > high:
        yield _broken(value, path, f"Member must have {kind} less than or equal to {high}")


def _join(path: str, name: str) -> str:
    member = name[:1].lower() + name[1:]
    return f"{path}.{member}" if path else member


def _broken(value: Any, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{value}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern of the service models, or return None for the few that are broken in the models.

    The patterns are Java's, so Unicode categories are spelled out.
    """
    spelled = re.sub(r"\\p\{(\w+)\}", lambda found: _category(found.group(1)), pattern)
    try:
        return re.compile(spelled, re.DOTALL)
    except re.error:
        return None


@functools.cache
def _category(name: str) -> str:
    """Return a Unicode category's code points (L, N, Z, or ASCII) as ranges for a character class."""
    if name == "ASCII":
        return "\\x00-\\x7f"
    ranges: list[str] = []
    start = None
    for point in range(sys.maxunicode + 2):
        inside = point <= sys.maxunicode and unicodedata.category(chr(point)).startswith(name)
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{point - 1:08x}")
            start = None
    return "".join(ranges)
