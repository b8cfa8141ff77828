"""Request body → JSON value, strictly: what JSON forbids, or what could mean two things, is refused.

Beyond json.loads: no NaN or Infinity (nor a number that overflows to it), no lone surrogates, no
duplicate keys, no nesting beyond MAX_DEPTH, no integers beyond what Python converts.
"""

import json
import math
import re
from collections.abc import Iterator, Set
from typing import Any, Final

from semif_server.errors import BodyError, Code

MAX_DEPTH: Final = 128
MAX_INTEGER_DIGITS: Final = 4300  # Python's own limit for text → int

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _TooLong:
    """Stands for an integer with too many digits."""


class _DuplicateKey:
    """Stands for an object in which a key occurs twice."""


def parse_json(body: bytes, own_names: Set[str]) -> Any:
    """Parse a body. own_names: the contract's field names, the only keys that may appear in `field`.

    Raises BodyError. Its `field` ends where the caller's own data begins.
    """
    if not body.strip():
        raise BodyError(Code.EMPTY_BODY, "The body is empty. Send a JSON object.")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BodyError(
            Code.INVALID_UTF8, f"The body is not UTF-8: byte {error.start} is wrong. Send UTF-8."
        ) from None
    _refuse_deep(text)
    try:
        value = json.loads(
            text, parse_int=_parse_int, object_pairs_hook=_parse_object, parse_constant=_parse_constant
        )
    except json.JSONDecodeError as error:
        raise BodyError(
            Code.INVALID_JSON,
            f"The body is not JSON: line {error.lineno}, column {error.colno} is wrong.",
        ) from None
    for field, found in _walk(value, "", own_names, is_ours=True):
        _refuse(field or None, found)
    return value


def _refuse_deep(text: str) -> None:
    """Refuse deep nesting before the parser recurses into it."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if match[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise BodyError(
                Code.JSON_TOO_DEEP, f"The body is nested deeper than {MAX_DEPTH} levels. Flatten it."
            )


def _parse_int(digits: str) -> int | _TooLong:
    return int(digits) if len(digits.lstrip("-")) <= MAX_INTEGER_DIGITS else _TooLong()


def _parse_constant(name: str) -> float:
    return float(name)  # NaN and ±Infinity: found, with their place, by the walk


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _DuplicateKey:
    result = dict(pairs)
    return result if len(result) == len(pairs) else _DuplicateKey()


def _walk(value: Any, path: str, own_names: Set[str], *, is_ours: bool) -> Iterator[tuple[str, Any]]:
    """Every leaf, key and stand-in, with the innermost field of the contract that holds it."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield path, key
            inside = is_ours and key in own_names
            # A state's own keys are the caller's data, even where they look like ours.
            yield from _walk(
                member, _join(path, key) if inside else path, own_names, is_ours=inside and key != "state"
            )
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, _join(path, str(index)) if is_ours else path, own_names, is_ours=is_ours)
    else:
        yield path, value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _refuse(field: str | None, found: Any) -> None:
    if isinstance(found, str):
        if _SURROGATE.search(found):
            raise BodyError(
                Code.LONE_SURROGATE, "A text holds half of a surrogate pair, which is no character.", field
            )
    elif isinstance(found, float):
        if not math.isfinite(found):
            raise BodyError(
                Code.NON_FINITE_NUMBER, "A number is NaN, infinite, or too large. Send finite numbers.", field
            )
    elif isinstance(found, _DuplicateKey):
        raise BodyError(Code.DUPLICATE_KEY, "An object has the same key twice. Keep one of them.", field)
    elif isinstance(found, _TooLong):
        raise BodyError(
            Code.NUMBER_TOO_LONG,
            f"A whole number has more than {MAX_INTEGER_DIGITS:,} digits. Send it as a string.",
            field,
        )
