"""Where a build's variables come from: texts, Secrets Manager and the Parameter Store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from localaws.codebuild.buildspec import Buildspec

_ARN_PARTS = 7


class UnresolvedVariableError(Exception):
    """A secret or parameter that cannot be read: the phase's status code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.context = code, message


@dataclass(frozen=True)
class Variable:
    """A variable and where its value comes from: `kind` is PLAINTEXT, SECRETS_MANAGER or PARAMETER_STORE."""

    name: str
    value: str
    kind: str = "PLAINTEXT"


def declared(buildspec: Buildspec, ordered: Iterable[Mapping[str, str]]) -> list[Variable]:
    """Return all variables of a build; those of the project and of StartBuild win over the buildspec's."""
    found = {name: Variable(name, value) for name, value in buildspec.variables.items()}
    found |= {name: Variable(name, value, "PARAMETER_STORE") for name, value in buildspec.parameters.items()}
    found |= {name: Variable(name, value, "SECRETS_MANAGER") for name, value in buildspec.secrets.items()}
    for item in ordered:
        found[item["name"]] = Variable(item["name"], item["value"], item.get("type", "PLAINTEXT"))
    return list(found.values())


def resolved(variables: Iterable[Variable], client: Callable[[str], Any]) -> tuple[dict[str, str], list[str]]:
    """Return the values by name, and those that are secret.

    Raises:
        UnresolvedVariableError: for the first that cannot be read.
    """
    values, secret = {}, []
    for variable in variables:
        match variable.kind:
            case "SECRETS_MANAGER":
                value = _secret(client("secretsmanager"), variable.value)
                secret.append(value)
            case "PARAMETER_STORE":
                value = _parameter(client("ssm"), variable.value)
                secret.append(value)
            case _:
                value = variable.value
        values[variable.name] = value
    return values, secret


def _secret(secrets: Any, reference: str) -> str:
    """Read SECRET[:json-key[:version-stage[:version-id]]], where SECRET is a name or an ARN."""
    parts = reference.split(":")
    count = _ARN_PARTS if reference.startswith("arn:") else 1
    rest = [*parts[count:], "", "", ""]
    key, stage, version = rest[:3]
    where = {"SecretId": ":".join(parts[:count])}
    where |= {"VersionStage": stage} if stage else {}
    where |= {"VersionId": version} if version else {}
    try:
        found = secrets.get_secret_value(**where)
    except ClientError as error:
        detail = error.response["Error"]
        raise UnresolvedVariableError(
            "Secrets Manager Error", f"{detail['Code']}: {detail['Message']}"
        ) from error
    text: str = found.get("SecretString", "")
    if not key:
        return text
    try:
        value = json.loads(text)[key]
    except (ValueError, KeyError, TypeError) as error:
        raise UnresolvedVariableError(
            "Secrets Manager Error", f"The secret {where['SecretId']} is no JSON object with the key {key}"
        ) from error
    return value if isinstance(value, str) else json.dumps(value)


def _parameter(ssm: Any, name: str) -> str:
    try:
        value: str = ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
    except ClientError as error:
        detail = error.response["Error"]
        message = (
            f"parameter does not exist: {name}"
            if detail["Code"] == "ParameterNotFound"
            else f"{detail['Code']}: {detail['Message']}"
        )
        raise UnresolvedVariableError("Decrypted Variables Error", message) from error
    return value
