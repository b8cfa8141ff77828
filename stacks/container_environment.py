"""What SageMaker takes as a container's environment, and the variables on which AWS's containers break."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stacks.mapping_reader import MappingReader, SettingsError, matching

MAX_VARIABLES: Final = 100
MAX_VARIABLE_BYTES: Final = 1_024
MAX_ENVIRONMENT_BYTES: Final = 32 * 1_024
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
    together = {**own, **read}
    if len(together) > MAX_VARIABLES:
        raise SettingsError(
            variables.path,
            f"has {len(read)} variables beside the deployment's {len(own)}; SageMaker takes {MAX_VARIABLES}",
        )
    size_bytes = sum(len(name.encode()) + len(value.encode()) for name, value in together.items())
    if size_bytes > MAX_ENVIRONMENT_BYTES:
        raise SettingsError(
            variables.path,
            f"comes to {size_bytes} bytes with the deployment's own variables;"
            f" SageMaker takes {MAX_ENVIRONMENT_BYTES}",
        )
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
    if len(value.encode()) > MAX_VARIABLE_BYTES or len(name.encode()) > MAX_VARIABLE_BYTES:
        raise SettingsError(
            path, f"has {len(value.encode())} bytes; SageMaker takes {MAX_VARIABLE_BYTES} for each variable"
        )
    return value
