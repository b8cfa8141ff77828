"""Condition blocks of IAM policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


class UnsupportedPolicyError(Exception):
    """A policy has something that the local AWS does not evaluate. The text names it."""


@cache
def _compiled(pattern: str, *, any_case: bool) -> re.Pattern[str]:
    source = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.compile(source, re.DOTALL | (re.IGNORECASE if any_case else 0))


def matches(pattern: str, value: str, *, any_case: bool = False) -> bool:
    """Whether a value matches a pattern with `*` and `?`."""
    return _compiled(pattern, any_case=any_case).fullmatch(value) is not None


def texts(value: Any) -> list[str]:
    """Return a policy element that is one value or a list of them as strings; true and false as JSON's."""
    found = value if isinstance(value, list) else [value]
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in found]


def substituted(text: str, context: Mapping[str, str]) -> str | None:
    """Fill policy variables such as ${aws:PrincipalAccount}; None if the request lacks one's value."""
    lower = {key.lower(): value for key, value in context.items()}
    missing = False

    def fill(found: re.Match[str]) -> str:
        nonlocal missing
        key = found.group(1)
        if key in {"*", "?", "$"}:
            return key
        if key.lower() not in lower:
            missing = True
        return lower.get(key.lower(), "")

    filled = re.sub(r"\$\{([^}]+)\}", fill, text)
    return None if missing else filled


def _equals(wanted: str, value: str) -> bool:
    return wanted == value


def _equals_in_any_case(wanted: str, value: str) -> bool:
    return wanted.lower() == value.lower()


# Each operator: how one wanted value is compared, and whether it is a negation.
_OPERATORS: Mapping[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equals, False),
    "StringNotEquals": (_equals, True),
    "StringEqualsIgnoreCase": (_equals_in_any_case, False),
    "StringNotEqualsIgnoreCase": (_equals_in_any_case, True),
    "StringLike": (matches, False),
    "StringNotLike": (matches, True),
    "ArnEquals": (matches, False),
    "ArnNotEquals": (matches, True),
    "ArnLike": (matches, False),
    "ArnNotLike": (matches, True),
    "Bool": (_equals_in_any_case, False),
}


def holds(block: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    """Whether every condition of a block holds; a key that the request lacks is as AWS takes it.

    Raises:
        UnsupportedPolicyError: an operator that is not implemented.
    """
    lower = {key.lower(): value for key, value in context.items()}
    return all(
        _holds(operator, texts(wanted), lower.get(key.lower()), context)
        for operator, keys in block.items()
        for key, wanted in keys.items()
    )


def _holds(operator: str, wanted: list[str], value: str | None, context: Mapping[str, str]) -> bool:
    quantifier, _, rest = operator.rpartition(":")
    name = rest.removesuffix("IfExists")
    if name == "Null":
        return any((value is None) == (one == "true") for one in wanted)
    if name not in _OPERATORS or quantifier not in {"", "ForAnyValue", "ForAllValues"}:
        raise UnsupportedPolicyError(
            f"The local AWS does not evaluate the condition operator {operator};"
            " add it to localaws/access/conditions.py."
        )
    compare, negated = _OPERATORS[name]
    if value is None:
        return (
            quantifier == "ForAllValues"
            or rest.endswith("IfExists")
            or (negated and quantifier != "ForAnyValue")
        )
    filled = [text for one in wanted if (text := substituted(one, context)) is not None]
    return any(compare(one, value) for one in filled) != negated
