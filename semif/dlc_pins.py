"""The pinned digests of AWS's llama.cpp containers, as stacks/dlc.py of the working copy has them.

The app is no part of this package, so its text is read, not imported; that also says which line to change.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from semif.errors import UsageError

PINS_FILE = Path("stacks/dlc.py")
_ASKED = re.compile(
    r"((?P<repository>[a-z0-9]+(?:[._-]+[a-z0-9]+)*):)?(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127})"
)


@dataclass(frozen=True)
class Pin:
    """A flavour's tag, and the digest (`sha256:…`) that `line` of the file pins."""

    flavour: str
    tag: str
    digest: str
    line: int


@dataclass(frozen=True)
class Pins:
    """`repository` is HOST/PATH of the public registry."""

    repository: str
    pins: tuple[Pin, ...]


def read_pins(path: Path) -> Pins:
    """Read PUBLIC_REPOSITORY, TAGS and DIGESTS of the file. Raises `UsageError` if they are not there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "no_pins", f"{path}: {error}", next_step="run it in the project's folder, or give --pins"
        ) from None
    try:
        constants = _constants(ast.parse(text))
        repository = _text(constants["PUBLIC_REPOSITORY"])
        tags = {_text(key): _text(value) for key, value in _items(constants["TAGS"])}
        pins = tuple(
            Pin(_text(key), tags[_text(key)], _text(value), value.lineno)
            for key, value in _items(constants["DIGESTS"])
        )
    except (SyntaxError, LookupError, TypeError) as error:
        raise UsageError(
            "bad_pins",
            f"{path} does not hold PUBLIC_REPOSITORY, TAGS and DIGESTS as literals ({error})",
            next_step="give --pins with the stacks/dlc.py of this project",
        ) from None
    return Pins(repository, pins)


def asked_tag(text: str, repository: str) -> tuple[str, str]:
    """Read [REPOSITORY:]TAG: the repository, a sibling of `repository` or itself, and the tag.

    Raises `UsageError` if it is neither.
    """
    match = _ASKED.fullmatch(text)
    if match is None:
        raise UsageError(
            "bad_tag",
            f"--tag {text!r} is neither TAG nor REPOSITORY:TAG",
            next_step="give one such as vllm:server-sagemaker-cuda-v1",
        )
    if match["repository"] is None:
        return repository, match["tag"]
    return f"{repository.rpartition('/')[0]}/{match['repository']}", match["tag"]


def comparison(pins: Pins, latest: Sequence[str], path: Path) -> str:
    """Say what each tag means now beside what is pinned, and the line to change where they differ."""
    lines = []
    for pin, digest in zip(pins.pins, latest, strict=True):
        lines.append(f"{pin.flavour:<5} {pins.repository}:{pin.tag}")
        lines.append(f"      pinned  {pin.digest}")
        lines.append(f"      latest  {digest}{'  (the same)' if digest == pin.digest else ''}")
        if digest != pin.digest:
            lines.append(f'      change  {path}:{pin.line}  "{pin.flavour}": "{digest}",')
    if any(pin.digest != digest for pin, digest in zip(pins.pins, latest, strict=True)):
        lines.append("")
        lines.append(
            "A newer container may carry a llama.cpp with other structs: change the Dockerfile's ARG too,"
            " and build the image; its self-test says whether the bindings fit."
        )
    return "\n".join(lines)


def _constants(module: ast.Module) -> dict[str, ast.expr]:
    return {
        node.target.id: node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    }


def _items(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(node, ast.Dict):
        raise TypeError(f"line {node.lineno} is no dict")
    return [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]


def _text(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise TypeError(f"line {node.lineno} is no string")
    return node.value
