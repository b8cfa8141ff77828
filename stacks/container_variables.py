"""Limits of SageMaker on a container's environment."""

from collections.abc import Mapping
from typing import Final

from stacks.mapping_reader import SettingsError

MAX_VARIABLES: Final = 100
MAX_VALUE_BYTES: Final = 1024
MAX_BYTES: Final = 32 * 1024


def check_variables(variables: Mapping[str, str], path: str) -> None:
    """Raise SettingsError where CreateModel would refuse the environment, or the container misread it."""
    if len(variables) > MAX_VARIABLES:
        raise SettingsError(
            path, f"makes {len(variables)} environment variables; SageMaker takes {MAX_VARIABLES}"
        )
    for name, value in variables.items():
        if any(ord(c) < 32 for c in value):
            raise SettingsError(path, f"the variable {name} has a line break or another control character")
        if max(len(name.encode()), len(value.encode())) > MAX_VALUE_BYTES:
            raise SettingsError(
                path, f"the variable {name} is longer than the {MAX_VALUE_BYTES} bytes that SageMaker takes"
            )
    size = sum(len(name.encode()) + len(value.encode()) for name, value in variables.items())
    if size > MAX_BYTES:
        raise SettingsError(
            path, f"makes environment variables of {size} bytes; SageMaker takes {MAX_BYTES} bytes in all"
        )
