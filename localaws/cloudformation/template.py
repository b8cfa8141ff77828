"""Templates: text to a checked document, and what its parts refer to (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Document = Mapping[str, Any]

PSEUDO_PARAMETERS = frozenset(
    f"AWS::{name}"
    for name in (
        "AccountId",
        "NotificationARNs",
        "NoValue",
        "Partition",
        "Region",
        "StackId",
        "StackName",
        "URLSuffix",
    )
)
SECTIONS = frozenset(
    ("AWSTemplateFormatVersion", "Conditions", "Description", "Hooks", "Mappings", "Metadata", "Outputs")
) | {"Parameters", "Resources", "Rules", "Transform"}
RESOURCE_KEYS = frozenset(
    ("Condition", "CreationPolicy", "DeletionPolicy", "DependsOn", "Description", "Metadata", "Properties")
) | {"Type", "UpdatePolicy", "UpdateReplacePolicy"}
SUB_VARIABLE = re.compile(r"\$\{(!?)([^{}]*)\}")


class TemplateError(Exception):
    """The template, or a value in it, is wrong; the message is CloudFormation's."""


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of the intrinsic functions."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = str(value).split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    else:
        raise TemplateError(f"Template format error: !{suffix} has no value")
    return {name: value}


_Loader.add_multi_constructor("!", _short_form)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_template(text: str) -> dict[str, Any]:
    """Read a JSON or YAML template and check its form.

    Raises TemplateError for what CloudFormation refuses before it looks at resource types: bad syntax,
    unknown sections or attributes, no resources, transforms, references to nothing.
    """
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else yaml.load(text, _Loader)  # noqa: S506
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        raise TemplateError(f"Template format error: {error}") from error
    if not isinstance(document, dict):
        raise TemplateError("Template format error: unsupported structure.")
    unknown = sorted(set(document) - SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties {unknown}")
    if document.get("Transform"):
        raise TemplateError(
            f"The local AWS runs no transform, but the template asks for {document['Transform']!r}"
        )
    resources = document.get("Resources")
    if not isinstance(resources, dict) or not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    for logical_id, definition in resources.items():
        _check_resource(logical_id, definition)
    _check_references(document)
    return document


def _check_resource(logical_id: str, definition: Any) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]+", logical_id):
        raise TemplateError(f"Template format error: Resource name {logical_id} is non alphanumeric.")
    if not isinstance(definition, dict) or not isinstance(definition.get("Type"), str):
        raise TemplateError(
            f"Template format error: [/Resources/{logical_id}] Every resource must have a Type."
        )
    unknown = sorted(set(definition) - RESOURCE_KEYS)
    if unknown:
        raise TemplateError(f"Invalid template resource property '{unknown[0]}' in {logical_id}")


def _check_references(document: Document) -> None:
    known = set(document["Resources"]) | set(document.get("Parameters", {})) | PSEUDO_PARAMETERS
    for section in ("Resources", "Outputs", "Conditions"):
        names = {name for name, _ in references(document.get(section, {}))}
        missing = sorted(names - known)
        if missing:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{', '.join(missing)}]"
                f" in the {section} block of the template"
            )
    for logical_id, definition in document["Resources"].items():
        depends_on = definition.get("DependsOn", [])
        for name in [depends_on] if isinstance(depends_on, str) else depends_on:
            if name not in document["Resources"]:
                raise TemplateError(
                    f"Template format error: Unresolved resource dependencies [{name}] in the Resources block"
                    f" of the template ({logical_id} depends on it)"
                )


def references(node: Any) -> Iterator[tuple[str, str | None]]:
    """Yield each (logical id, attribute) that Ref, Fn::GetAtt and Fn::Sub name; a Ref's attribute is None."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
        return
    if not isinstance(node, Mapping):
        return
    if len(node) == 1:
        ((name, argument),) = node.items()
        match name, argument:
            case "Ref", str():
                yield argument, None
                return
            case "Fn::GetAtt", _:
                yield get_att_parts(argument)
                return
            case "Fn::Sub", str():
                yield from _sub_references(argument, {})
                return
            case "Fn::Sub", [str(text), Mapping() as variables]:
                yield from _sub_references(text, variables)
                yield from references(list(variables.values()))
                return
    for value in node.values():
        yield from references(value)


def _sub_references(text: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for literal, name in SUB_VARIABLE.findall(text):
        if not literal and name.strip() not in variables:
            logical_id, dot, attribute = name.strip().partition(".")
            yield logical_id, attribute if dot else None


def get_att_parts(argument: Any) -> tuple[str, str]:
    """Split the argument of Fn::GetAtt into logical id and attribute."""
    match argument:
        case [str(logical_id), str(attribute)]:
            return logical_id, attribute
        case [str(logical_id), Mapping()]:
            raise TemplateError(f"Fn::GetAtt of {logical_id}: the local AWS wants the attribute as a string")
        case str() if "." in argument:
            logical_id, _, attribute = argument.partition(".")
            return logical_id, attribute
    raise TemplateError(
        "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the"
        f" resource attribute, not {argument!r}"
    )
