"""Template parameters: which values are given, which are resolved, and what is wrong with them (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localaws.cloudformation.template import Document, TemplateError

_SSM_TYPE = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
_LIST_TYPES = ("List<", "CommaDelimitedList")


@dataclass(frozen=True)
class ParameterValues:
    """The parameters of one stack or change set.

    `given` is what the caller (or the default) says, as text. `resolved` is what Ref gives: for SSM types the
    value behind the name, for list types a list. `ssm` holds the resolved text of SSM types only.
    """

    given: Mapping[str, str]
    resolved: Mapping[str, Any]
    ssm: Mapping[str, str]


def resolve_parameters(
    template: Document,
    requested: Iterable[Mapping[str, Any]],
    previous: Mapping[str, str],
    read_ssm: Callable[[str], str],
) -> ParameterValues:
    """Match a request's Parameters (ParameterKey, ParameterValue, UsePreviousValue) with the template's.

    `previous` are the values given last time; `read_ssm` returns an SSM parameter's value or raises
    TemplateError. Raises TemplateError for unknown, missing and disallowed values.
    """
    declared: Mapping[str, Document] = template.get("Parameters", {})
    given = _requested_values(requested, previous, declared)
    missing = []
    for name, declaration in declared.items():
        if name not in given and "Default" in declaration:
            given[name] = _text(declaration["Default"])
        elif name not in given:
            missing.append(name)
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    resolved: dict[str, Any] = {}
    ssm: dict[str, str] = {}
    for name, declaration in declared.items():
        kind, value = declaration.get("Type", "String"), given[name]
        _check_constraints(name, declaration, value)
        found = _SSM_TYPE.fullmatch(kind)
        if found:
            kind, value = found.group(1), read_ssm(value)
            ssm[name] = value
        resolved[name] = (
            [part.strip() for part in value.split(",")] if kind.startswith(_LIST_TYPES) else value
        )
    return ParameterValues(given, resolved, ssm)


def _requested_values(
    requested: Iterable[Mapping[str, Any]], previous: Mapping[str, str], declared: Mapping[str, Document]
) -> dict[str, str]:
    given: dict[str, str] = {}
    unknown = []
    for parameter in requested:
        name = parameter.get("ParameterKey", "")
        if name not in declared:
            unknown.append(name)
        elif parameter.get("UsePreviousValue"):
            if name in previous:
                given[name] = previous[name]
        elif "ParameterValue" in parameter:
            given[name] = parameter["ParameterValue"]
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    return given


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)


def _check_constraints(name: str, declaration: Document, value: str) -> None:
    problem = _broken_constraint(name, declaration, value)
    if problem:
        described = declaration.get("ConstraintDescription")
        reason = f"Parameter '{name}' failed to satisfy constraint: {described}" if described else problem
        raise TemplateError(reason)


def _broken_constraint(name: str, declaration: Document, value: str) -> str | None:
    allowed = declaration.get("AllowedValues")
    if allowed is not None and value not in map(_text, allowed):
        return f"Parameter '{name}' must be one of AllowedValues"
    pattern = declaration.get("AllowedPattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        return f"Parameter '{name}' must match pattern {pattern}"
    if declaration.get("Type") == "Number":
        return _broken_number(name, declaration, value)
    low, high = declaration.get("MinLength"), declaration.get("MaxLength")
    if low is not None and len(value) < int(low):
        return f"Parameter '{name}' must contain at least {low} characters"
    if high is not None and len(value) > int(high):
        return f"Parameter '{name}' must contain at most {high} characters"
    return None


def _broken_number(name: str, declaration: Document, value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return f"Parameter '{name}' must be a number"
    low, high = declaration.get("MinValue"), declaration.get("MaxValue")
    if low is not None and number < float(low):
        return f"Parameter '{name}' must be a number not less than {low}"
    if high is not None and number > float(high):
        return f"Parameter '{name}' must be a number not greater than {high}"
    return None
