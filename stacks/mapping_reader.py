"""Reads JSON-like values with their path, so that every error says where it is.

A key that begins with `//` is a line commented out: it is as if it were not there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Choice = TypeVar("Choice", bound=str)
COMMENT: Final = "//"


class SettingsError(ValueError):
    """A setting that cannot be used; the text begins with its path."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


@dataclass(frozen=True)
class MappingReader:
    """One JSON object and where it lies. Each read checks the type and names the path in the error."""

    value: Mapping[str, object]
    path: str

    @classmethod
    def of(cls, value: object, path: str, known: Sequence[str] | None) -> "MappingReader":
        """Read an object that may have the keys `known` and no others, or any keys if that is None."""
        if not isinstance(value, Mapping):
            raise SettingsError(path, f"must be an object, not {_shown(value)}")
        kept = {key: item for key, item in value.items() if not str(key).startswith(COMMENT)}
        for key in kept:
            if known is not None and key not in known:
                raise SettingsError(f"{path}.{key}", f"is no setting; known here: {', '.join(known)}")
        return cls(kept, path)

    def has(self, key: str) -> bool:
        """Whether the key is there with a value other than null."""
        return self.value.get(key) is not None

    def at(self, key: str) -> str:
        """Path of a key."""
        return f"{self.path}.{key}"

    def mapping(self, key: str, known: Sequence[str] | None) -> "MappingReader":
        """Read an object inside this one; `known` as in `of`."""
        return MappingReader.of(self._required(key), self.at(key), known)

    def text(self, key: str, pattern: str, allowed: str) -> str:
        """Read a string that matches `pattern` as a whole."""
        return matching(self._required(key), self.at(key), pattern, allowed)

    def optional_text(self, key: str, pattern: str, allowed: str) -> str | None:
        """Read a string, or None where the key is absent or null."""
        return self.text(key, pattern, allowed) if self.has(key) else None

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """Read a whole number from `low` to `high`."""
        value = self.value.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingsError(
                self.at(key), f"must be a whole number from {low} to {high}, not {_shown(value)}"
            )
        return value

    def optional_whole(self, key: str, low: int, high: int) -> int | None:
        """Read a whole number, or None where the key is absent or null."""
        return self.whole(key, low, low, high) if self.has(key) else None

    def flag(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        value = self.value.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise SettingsError(self.at(key), f"must be true or false, not {_shown(value)}")
        return value

    def choice(self, key: str, allowed: Sequence[Choice]) -> Choice | None:
        """Read one of some words, or None where the key is absent or null."""
        if not self.has(key):
            return None
        for word in allowed:
            if self.value[key] == word:
                return word
        raise SettingsError(
            self.at(key), f"must be one of {', '.join(allowed)}, not {_shown(self.value[key])}"
        )

    def texts(self, key: str, pattern: str, allowed: str) -> tuple[str, ...]:
        """Read a non-empty list of different strings that match `pattern`."""
        items = self._required(key)
        if not isinstance(items, Sequence) or isinstance(items, str) or not items:
            raise SettingsError(self.at(key), f"must be a list of at least one item, not {_shown(items)}")
        read = [matching(item, f"{self.at(key)}[{i}]", pattern, allowed) for i, item in enumerate(items)]
        for i, item in enumerate(read):
            if item in read[:i]:
                raise SettingsError(f"{self.at(key)}[{i}]", f"{item} is listed twice")
        return tuple(read)

    def _required(self, key: str) -> object:
        if not self.has(key):
            raise SettingsError(self.at(key), "is missing")
        return self.value[key]


def matching(value: object, path: str, pattern: str, allowed: str) -> str:
    """Read a string that matches `pattern` as a whole; `allowed` says what that is."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise SettingsError(path, f"must be {allowed}, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
