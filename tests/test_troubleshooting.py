"""docs/troubleshooting.md has an entry for each code that a deployment, a build or `semif` can show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "troubleshooting.md"
PROGRAMS = ("lambda", "semif", "container/image", "container/image_build")
SHELL = ("container/Dockerfile", "container/Dockerfile.gpu", "container/image/probe.sh")
CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
OPENING = re.compile(r"([a-z][a-z0-9]*(?:_[a-z0-9]+)+): ")
"""How a message begins that names its code itself."""
PRINTED = re.compile(r"error: ([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+):")
HEADING = re.compile(r"^### `?([A-Za-z0-9_]+)`?$", re.MULTILINE)

Classes = dict[str, ast.ClassDef]


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression can be, of an f-string its parts; no keys and no arguments."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp | ast.JoinedStr):
        for value in node.values:
            yield from _texts(value)


def _parameters(name: str, classes: Classes) -> list[str]:
    """What a class is called with: the parameters of its `__init__`, or a dataclass's fields."""
    found = classes.get(name)
    if found is None:
        return []
    for item in found.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return [argument.arg for argument in item.args.args[1:]]
    fields = [item.target for item in found.body if isinstance(item, ast.AnnAssign)]
    names = [target.id for target in fields if isinstance(target, ast.Name)]
    bases = [base.id for base in found.bases if isinstance(base, ast.Name)]
    return [*(parameter for base in bases for parameter in _parameters(base, classes)), *names]


def _of_call(call: ast.Call, called: dict[str, list[str]]) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    parameters = called.get(name, [])
    if "code" in parameters[: len(call.args)]:
        yield from _texts(call.args[parameters.index("code")])
    if parameters or name == "__init__":
        for keyword in call.keywords:
            if keyword.arg == "code":
                yield from _texts(keyword.value)
    if call.args and (name == "__init__" or name.endswith("Error")):
        for text in _texts(call.args[0]):
            yield from OPENING.findall(text)[:1] if OPENING.match(text) else [text][: name == "__init__"]


def _of_module(tree: ast.Module, called: dict[str, list[str]]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "Cause":
            for member in node.body:
                if isinstance(member, ast.Assign):
                    yield from _texts(member.value)
        elif isinstance(node, ast.Call):
            yield from _of_call(node, called)
        elif isinstance(node, ast.Assign):
            yield from _assigned(node)


def _assigned(node: ast.Assign) -> Iterator[str]:
    """`code = …`, and the first of `code, advice = …, …`."""
    (target,) = node.targets[:1]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        target, value = target.elts[0], node.value.elts[0]
    else:
        value = node.value
    if isinstance(target, ast.Name) and target.id == "code":
        yield from _texts(value)


@cache
def codes() -> dict[str, str]:
    """Every code with a place where it is made."""
    paths = [path for program in PROGRAMS for path in sorted((ROOT / program).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text()) for path in paths}
    found: dict[str, str] = {}
    for program in PROGRAMS:
        mine = {path: tree for path, tree in trees.items() if path.is_relative_to(ROOT / program)}
        nodes = [node for tree in mine.values() for node in ast.walk(tree)]
        classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        called = {name: _parameters(name, classes) for name in classes}
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                called.setdefault(node.name, [argument.arg for argument in node.args.args])
        for path, tree in mine.items():
            place = str(path.relative_to(ROOT))
            made = [text for text in _of_module(tree, called) if CODE.fullmatch(text)]
            found |= dict.fromkeys((*made, *PRINTED.findall(path.read_text())), place)
    for script in SHELL:
        found |= dict.fromkeys(PRINTED.findall((ROOT / script).read_text()), script)
    return found


@cache
def entries() -> dict[str, str]:
    """Each entry's code and text."""
    parts = HEADING.split(DOCUMENT.read_text())
    return {
        code: text.partition("\n## ")[0].strip() for code, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.mark.parametrize(("code", "place"), sorted(codes().items()))
def test_every_code_has_an_entry(code: str, place: str) -> None:
    assert entries().get(code), f"docs/troubleshooting.md lacks `### {code}`, which {place} can show"


def test_every_entry_is_of_a_code_and_stands_once() -> None:
    headings = HEADING.findall(DOCUMENT.read_text())

    assert sorted(set(headings) - codes().keys()) == []
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize(
    "code",
    [
        "no_capacity",
        "no_quota",
        "walk_timed_out",
        "build_queue_timed_out",
        "archive_differs",
        "checksum_mismatch",
    ],
)
def test_codes_are_found_however_they_are_written(code: str) -> None:
    """A member of Cause, a Fail, an assignment, a message's first word, an error's first argument."""
    assert code in codes()
