"""Reads templates for the tests: references as words, resources by type, rights by role."""

import re
from typing import Any

PSEUDO = {"AWS::AccountId": "ACCOUNT", "AWS::Partition": "aws", "AWS::URLSuffix": "SUFFIX"}

Templates = dict[str, dict[str, Any]]


def flat(value: Any) -> Any:
    """A value of a template as text: references become words, joins are joined."""
    if isinstance(value, list):
        return [flat(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"Fn::Join": [separator, parts]}:
            text = separator.join(str(flat(part)) for part in parts)
        case {"Ref": name}:
            text = PSEUDO.get(name, f"<{name}>")
        case {"Fn::GetAtt": names}:
            text = f"<{'.'.join(names)}>"
        case {"Fn::ImportValue": name}:
            text = f"<{name}>"
        case {"Fn::Sub": str(pattern)}:
            text = re.sub(r"\$\{([^}]+)\}", lambda found: PSEUDO.get(found[1], f"<{found[1]}>"), pattern)
        case _:
            return {key: flat(item) for key, item in value.items()}
    return text


def of_type(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {key: item for key, item in template["Resources"].items() if item["Type"] == kind}


def the_only(template: dict[str, Any], kind: str) -> dict[str, Any]:
    (resource,) = of_type(template, kind).values()
    return resource


def statements(template: dict[str, Any], role_path: str) -> list[dict[str, Any]]:
    """Policy statements of the role whose logical id begins with `role_path`."""
    return [
        flat(statement)
        for key, policy in of_type(template, "AWS::IAM::Policy").items()
        if key.startswith(f"{role_path}DefaultPolicy")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def rights(template: dict[str, Any], role_path: str) -> dict[tuple[str, ...], Any]:
    """Resources by actions; the log group's own is told apart by its reference."""
    found = {}
    for statement in statements(template, role_path):
        assert statement["Effect"] == "Allow"
        actions = statement["Action"]
        found[tuple([actions] if isinstance(actions, str) else actions)] = statement["Resource"]
    return found


def build_of(template: dict[str, Any], kind: str) -> dict[str, Any]:
    """Properties of the stack's only Custom::BuildRun of a kind."""
    (found,) = (
        flat(item["Properties"])
        for item in of_type(template, "Custom::BuildRun").values()
        if item["Properties"]["Kind"] == kind
    )
    return dict(found)
