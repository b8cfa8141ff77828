"""Command lines of `docker`: what is understood, and the refusal of all else by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PLATFORM = "linux/amd64"


class UsageError(Exception):
    """A command line that is not answered here. The text names the part."""


@dataclass(frozen=True)
class Flags:
    """Which flags a command has: with a value, once or repeated, and without; and fixed values."""

    single: Mapping[str, str] = field(default_factory=dict)
    """Flag to its name in `Parsed.values`."""
    repeated: Mapping[str, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    only: Mapping[str, str] = field(default_factory=dict)
    """Flags with the one value that is true here."""


@dataclass(frozen=True)
class Parsed:
    """A command line that was read; flags that were not given are absent."""

    values: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]
    switches: frozenset[str]
    positional: tuple[str, ...]


BUILD = Flags(
    single={"-f": "file", "--file": "file", "--network": "network"},
    repeated={"-t": "tags", "--tag": "tags", "--build-arg": "build_args", "--label": "labels"},
    switches=frozenset(("--no-cache", "--quiet", "-q")),
    only={
        "--platform": PLATFORM,
        "--provenance": "false",
        "--sbom": "false",
        "--output": "type=docker",
        "--progress": "plain",
    },
)
LOGIN = Flags(
    single={"--username": "user", "-u": "user"},
    switches=frozenset(("--password-stdin",)),
)
INSPECT = Flags(only={"--format": "{{json .}}", "-f": "{{json .}}"})
PULL = Flags(only={"--platform": PLATFORM}, switches=frozenset(("--quiet", "-q")))
RUN = Flags(
    single={"--entrypoint": "entrypoint"},
    repeated={"-e": "variables", "--env": "variables"},
    switches=frozenset(("--rm", "--read-only")),
    only={"--platform": PLATFORM},
)
PUSH = Flags(switches=frozenset(("--quiet", "-q")))
RMI = Flags(switches=frozenset(("--force", "-f")))
TAG = Flags()


def parse(command: str, flags: Flags, arguments: Sequence[str], *, positional: tuple[int, int]) -> Parsed:
    """Read a command's arguments; flags end at the first positional one, as docker's do for `run`.

    Raises:
        UsageError: naming a flag, a value or a number of arguments that is not answered here.
    """
    values: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    switches: set[str] = set()
    rest = list(arguments)
    names: list[str] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            names.append(word)
            if command == "run":
                names.extend(rest)
                break
            continue
        name, equals, value = word.partition("=")
        if name in flags.switches and not equals:
            switches.add(name)
            continue
        if not equals:
            value = _next(command, name, rest)
        _check(command, flags, name, value)
        if name in flags.repeated:
            key = flags.repeated[name]
            lists[key] = (*lists.get(key, ()), value)
        elif name in flags.single:
            values[flags.single[name]] = value
    least, most = positional
    if not least <= len(names) <= most:
        raise UsageError(f"docker {command}: takes {least} to {most} arguments, not {len(names)}")
    return Parsed(values, lists, frozenset(switches), tuple(names))


def _next(command: str, name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"docker {command}: flag needs an argument: {name}")
    return rest.pop(0)


def _check(command: str, flags: Flags, name: str, value: str) -> None:
    if name not in {*flags.single, *flags.repeated, *flags.only}:
        raise UsageError(f"docker {command}: the local AWS does not answer {name}")
    if flags.only.get(name, value) != value:
        raise UsageError(f"docker {command}: {name} {value}: the local AWS answers {flags.only[name]} only")
