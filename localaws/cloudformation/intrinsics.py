"""The value of every intrinsic function of a template (pure)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from localaws.cloudformation.template import SUB_VARIABLE, Document, TemplateError, get_att_parts

#: What CloudFormation shows in a change set for a value that only the deployment can know.
UNKNOWN: Final = "{{changeSet:KNOWN_AFTER_APPLY}}"
#: The value of AWS::NoValue: the property or list item is left out.
NO_VALUE: Final = object()
_DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:([^:}]+):([^}]*)\}\}")


class References(Protocol):
    """Where the values of a stack's resources come from."""

    def ref(self, logical_id: str) -> str:
        """Return what Ref of a resource gives."""

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute of a resource, or raise TemplateError."""


@dataclass
class Evaluation:
    """The values of one template: its parameters, pseudo parameters, conditions, imports and resources.

    `parameters` holds resolved values (lists for list types). `import_value` and `dynamic_reference` look
    outside the stack and raise TemplateError.
    """

    template: Document
    parameters: Mapping[str, Any]
    pseudo: Mapping[str, Any]
    resources: References
    import_value: Callable[[str], str]
    dynamic_reference: Callable[[str, str], str]
    _open_conditions: list[str] = field(default_factory=list)

    def value(self, node: Any) -> Any:
        """Return the value of a template node; NO_VALUE if it is to be left out."""
        if isinstance(node, str):
            return self.resolve_dynamic(node)
        if isinstance(node, list):
            return [item for item in map(self.value, node) if item is not NO_VALUE]
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name in {"Ref", "Condition"} and isinstance(argument, str):
                return self.ref(argument) if name == "Ref" else self.condition(argument)
            if name.startswith("Fn::"):
                return self._function(name, argument)
        for name in node:
            if isinstance(name, str) and name.startswith("Fn::"):
                raise TemplateError(f"Template format error: {name} must be the only key of its object")
        values = {key: self.value(value) for key, value in node.items()}
        return {key: value for key, value in values.items() if value is not NO_VALUE}

    def condition(self, name: str) -> bool:
        """Return the truth of a named condition."""
        conditions = self.template.get("Conditions", {})
        if name not in conditions:
            raise TemplateError(f"Template format error: Unresolved condition dependency {name}")
        if name in self._open_conditions:
            raise TemplateError(
                f"Template format error: Circular dependency in conditions: {self._open_conditions}"
            )
        self._open_conditions.append(name)
        try:
            return _boolean(self.value(conditions[name]), f"condition {name}")
        finally:
            self._open_conditions.pop()

    def active_resources(self) -> dict[str, Document]:
        """Return the definitions whose condition is true, in the template's order."""
        return {
            logical_id: definition
            for logical_id, definition in self.template["Resources"].items()
            if "Condition" not in definition or self.condition(definition["Condition"])
        }

    def resolve_dynamic(self, text: str) -> str:
        """Replace each {{resolve:service:name}} in a text."""
        return _DYNAMIC_REFERENCE.sub(
            lambda found: self.dynamic_reference(found.group(1), found.group(2)), text
        )

    def ref(self, name: str) -> Any:
        """Return what Ref of a parameter, pseudo parameter or resource gives."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.pseudo:
            return self.pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        if name not in self.template["Resources"]:
            raise TemplateError(f"Template format error: Unresolved resource dependencies [{name}]")
        return self.resources.ref(name)

    def _function(self, name: str, argument: Any) -> Any:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise TemplateError(f"Template error: the local AWS does not know the intrinsic function {name}")
        return function(self, argument)


def _boolean(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    if value in {"true", "false"}:
        return bool(value == "true")
    raise TemplateError(f"Template error: {where} must be true or false, not {value!r}")


def _arguments(evaluation: Evaluation, name: str, argument: Any, count: int) -> list[Any]:
    if not isinstance(argument, list) or len(argument) != count:
        raise TemplateError(f"Template error: {name} needs a list of {count} values, not {argument!r}")
    return [evaluation.value(item) for item in argument]


def _get_att(evaluation: Evaluation, argument: Any) -> Any:
    match argument:
        case [str(logical_id), attribute]:
            return evaluation.resources.attribute(logical_id, str(evaluation.value(attribute)))
        case _:
            logical_id, attribute = get_att_parts(argument)
            return evaluation.resources.attribute(logical_id, attribute)


def _sub(evaluation: Evaluation, argument: Any) -> str:
    match argument:
        case str(text):
            variables: Mapping[str, Any] = {}
        case [str(text), Mapping() as given]:
            variables = {key: evaluation.value(value) for key, value in given.items()}
        case _:
            raise TemplateError("Template error: Fn::Sub needs a string, or a string and a map of variables")

    def replaced(found: re.Match[str]) -> str:
        literal, name = found.group(1), found.group(2).strip()
        if literal:
            return f"${{{found.group(2)}}}"
        if name in variables:
            return _text(variables[name], f"${{{name}}}")
        logical_id, dot, attribute = name.partition(".")
        value = evaluation.resources.attribute(logical_id, attribute) if dot else evaluation.ref(name)
        return _text(value, f"${{{name}}}")

    return evaluation.resolve_dynamic(SUB_VARIABLE.sub(replaced, text))


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TemplateError(f"Template error: {where} must be a string, not {value!r}")


def _join(evaluation: Evaluation, argument: Any) -> str:
    delimiter, items = _arguments(evaluation, "Fn::Join", argument, 2)
    if not isinstance(items, list):
        if items == UNKNOWN:
            return UNKNOWN
        raise TemplateError(
            "Template error: every Fn::Join object requires a delimiter and a list of strings"
        )
    return _text(delimiter, "Fn::Join").join(_text(item, "Fn::Join") for item in items)


def _split(evaluation: Evaluation, argument: Any) -> list[str]:
    delimiter, text = _arguments(evaluation, "Fn::Split", argument, 2)
    if not isinstance(delimiter, str) or not delimiter or not isinstance(text, str):
        raise TemplateError("Template error: Fn::Split needs a non-empty delimiter and a string")
    return [UNKNOWN] if UNKNOWN in text else text.split(delimiter)


def _select(evaluation: Evaluation, argument: Any) -> Any:
    index, items = _arguments(evaluation, "Fn::Select", argument, 2)
    if items in (UNKNOWN, [UNKNOWN]):
        return UNKNOWN
    try:
        position = int(index)
    except (TypeError, ValueError) as error:
        raise TemplateError(f"Template error: Fn::Select needs an index, not {index!r}") from error
    if not isinstance(items, list) or not 0 <= position < len(items):
        raise TemplateError(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
    return items[position]


def _if(evaluation: Evaluation, argument: Any) -> Any:
    if not isinstance(argument, list) or len(argument) != 3 or not isinstance(argument[0], str):
        raise TemplateError("Template error: Fn::If needs a condition's name and two values")
    return evaluation.value(argument[1] if evaluation.condition(argument[0]) else argument[2])


def _operands(evaluation: Evaluation, name: str, argument: Any, low: int, high: int) -> list[bool]:
    if not isinstance(argument, list) or not low <= len(argument) <= high:
        raise TemplateError(f"Template error: {name} needs a list of {low} to {high} conditions")
    return [_boolean(evaluation.value(item), name) for item in argument]


def _equals(evaluation: Evaluation, argument: Any) -> bool:
    left, right = _arguments(evaluation, "Fn::Equals", argument, 2)
    return bool(left == right)


def _contains(evaluation: Evaluation, argument: Any) -> bool:
    items, value = _arguments(evaluation, "Fn::Contains", argument, 2)
    return value in items


def _find_in_map(evaluation: Evaluation, argument: Any) -> Any:
    keys = _arguments(evaluation, "Fn::FindInMap", argument, 3)
    node: Any = evaluation.template.get("Mappings", {})
    for key in keys:
        if not isinstance(node, Mapping) or str(key) not in node:
            raise TemplateError(f"Template error: Unable to get mapping for {'::'.join(map(str, keys))}")
        node = node[str(key)]
    return node


def _import_value(evaluation: Evaluation, argument: Any) -> str:
    return evaluation.import_value(_text(evaluation.value(argument), "Fn::ImportValue"))


def _base64(evaluation: Evaluation, argument: Any) -> str:
    text = _text(evaluation.value(argument), "Fn::Base64")
    return UNKNOWN if UNKNOWN in text else base64.b64encode(text.encode()).decode()


def _get_azs(evaluation: Evaluation, argument: Any) -> list[str]:
    region = evaluation.value(argument) or evaluation.pseudo["AWS::Region"]
    return [f"{region}{letter}" for letter in "abc"]


_FUNCTIONS: Mapping[str, Callable[[Evaluation, Any], Any]] = {
    "Fn::And": lambda e, argument: all(_operands(e, "Fn::And", argument, 2, 10)),
    "Fn::Base64": _base64,
    "Fn::Contains": _contains,
    "Fn::Equals": _equals,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": _get_azs,
    "Fn::GetAtt": _get_att,
    "Fn::If": _if,
    "Fn::ImportValue": _import_value,
    "Fn::Join": _join,
    "Fn::Not": lambda e, argument: not _operands(e, "Fn::Not", argument, 1, 1)[0],
    "Fn::Or": lambda e, argument: any(_operands(e, "Fn::Or", argument, 2, 10)),
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
}
