"""Variables that settings give to a container of AWS's, and those on which such containers break."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stacks.container_variables import check_variables
from stacks.mapping_reader import MappingReader, SettingsError, matching

_NAME: Final = (r"[A-Za-z_][A-Za-z0-9_]*", "named in letters, digits and _, not beginning with a digit")
_LINE_BREAK: Final = re.compile(r"[\x00\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Refusal:
    """Variables that may not be set: `pattern` is searched in the upper-case name; `reason` ends "…: is"."""

    pattern: str
    reason: str


COMMON_REFUSALS: Final = (
    Refusal(
        r"API_?KEY",
        "may not be set: SageMaker does not pass a caller's key on, so that each call would be answered 401;"
        " IAM decides who may call",
    ),
    Refusal(
        r"(^|_)HOST$", "may not be set: the container's own proxy finds the server at its default address"
    ),
    Refusal(r"(^|_)PORT$", "may not be set: SageMaker expects port 8080, and the proxy knows the server's"),
    Refusal(
        r"(^|_)(HF|HUGGING_FACE)(_HUB)?_TOKEN$",
        "may not be set: anybody who may describe the model could read the token;"
        " put the model into the archive instead (model.token_secret)",
    ),
)


def read_environment(
    reader: MappingReader, key: str, refusals: tuple[Refusal, ...], own: Mapping[str, str]
) -> Mapping[str, str]:
    """Read free variables, or none where the key is absent.

    `own` are the variables that the deployment sets beside them, as long as they can get.
    Raises SettingsError with the variable's path.
    """
    if not reader.has(key):
        return {}
    variables = reader.mapping(key, None)
    read = {name: _value(variables, name, (*refusals, *COMMON_REFUSALS)) for name in variables.value}
    check_variables({**own, **read}, variables.path)
    return read


def _value(variables: MappingReader, name: str, refusals: tuple[Refusal, ...]) -> str:
    path, value = variables.at(name), variables.value[name]
    matching(name, path, *_NAME)
    for refusal in refusals:
        if re.search(refusal.pattern, name.upper()):
            raise SettingsError(path, refusal.reason)
    if not isinstance(value, str):
        raise SettingsError(path, f'must be a text in quotes such as "true" or "8", not {value!r}')
    if _LINE_BREAK.search(value):
        raise SettingsError(path, "has a line break, on which the container's start-up script breaks")
    return value
