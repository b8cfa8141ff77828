"""Buildspecs of version 0.2, read strictly: what is not understood is refused with its place."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import yaml

PHASES = ("install", "pre_build", "build", "post_build")
_SHELLS = ("bash", "/bin/sh")


class BuildspecError(ValueError):
    """A buildspec that cannot be run; the text names the place and what is allowed."""


@dataclass(frozen=True)
class Phase:
    """One phase. `on_failure` is ABORT, CONTINUE or, where the buildspec is silent, None."""

    commands: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    on_failure: str | None = None
    runtimes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifacts:
    """Which files of the build's folder are its output."""

    files: tuple[str, ...]
    name: str | None = None
    base_directory: str = ""
    discard_paths: bool = False
    exclude_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Buildspec:
    """A whole buildspec. `secrets` and `parameters` map variables to what CodeBuild is to look up."""

    phases: Mapping[str, Phase]
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    exported: tuple[str, ...] = ()
    shell: str = "sh"
    artifacts: Artifacts | None = None


class _Loader(yaml.BaseLoader):
    """Every scalar is text, as where CodeBuild reads commands and variables; a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - yaml's
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise BuildspecError(f"yaml: line {line}: key {key.value!r} already set in map")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def parse(text: str) -> Buildspec:
    """Read a buildspec in YAML or JSON.

    Raises:
        BuildspecError: naming the key and the next step.
    """
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a BaseLoader makes nothing but text
    except yaml.YAMLError as error:
        raise BuildspecError(f"yaml: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise BuildspecError("a buildspec is a map with the keys version and phases")
    version = document.get("version")
    if version != "0.2":
        raise BuildspecError(f"wrong version: {version!r}; the local AWS runs buildspecs of version 0.2")
    _only(document, {"version", "env", "phases", "artifacts", "cache"}, "the buildspec")
    environment = _map(document, "env", "the buildspec")
    _only(
        environment,
        {"shell", "variables", "parameter-store", "secrets-manager", "exported-variables"},
        "env",
    )
    shell = environment.get("shell") or "/bin/sh"
    if shell not in _SHELLS:
        raise BuildspecError(f"env.shell: {shell!r} is none of: {', '.join(_SHELLS)}")
    _check_cache(document)
    return Buildspec(
        phases=_phases(_map(document, "phases", "the buildspec")),
        variables=_texts(environment, "variables", "env"),
        secrets=_texts(environment, "secrets-manager", "env"),
        parameters=_texts(environment, "parameter-store", "env"),
        exported=_list(environment, "exported-variables", "env"),
        shell="bash" if shell == "bash" else "sh",
        artifacts=_artifacts(document),
    )


def _phases(document: Mapping[str, Any]) -> Mapping[str, Phase]:
    if not document:
        raise BuildspecError("phases: at least one phase is required")
    _only(document, set(PHASES), "phases")
    return {name: _phase(_map(document, name, "phases"), f"phases.{name}") for name in document}


def _phase(document: Mapping[str, Any], where: str) -> Phase:
    allowed = {"commands", "finally", "on-failure"}
    _only(document, allowed | ({"runtime-versions"} if where == "phases.install" else set()), where)
    on_failure = document.get("on-failure") or None
    if on_failure not in {None, "ABORT", "CONTINUE"}:
        raise BuildspecError(f"{where}.on-failure: {on_failure!r} is none of: ABORT, CONTINUE")
    return Phase(
        commands=_list(document, "commands", where),
        last=_list(document, "finally", where),
        on_failure=on_failure,
        runtimes=_texts(document, "runtime-versions", where),
    )


def _artifacts(document: Mapping[str, Any]) -> Artifacts | None:
    if not document.get("artifacts"):
        return None
    found = _map(document, "artifacts", "the buildspec")
    allowed = {"files", "name", "base-directory", "discard-paths", "exclude-paths"}
    _only(found, allowed, "artifacts")
    files = _list(found, "files", "artifacts")
    if not files:
        raise BuildspecError("artifacts.files: at least one pattern is required, such as '**/*'")
    return Artifacts(
        files=files,
        name=found.get("name") or None,
        base_directory=found.get("base-directory", ""),
        discard_paths=found.get("discard-paths") == "yes",
        exclude_paths=_list(found, "exclude-paths", "artifacts"),
    )


def _check_cache(document: Mapping[str, Any]) -> None:
    """A cache's paths are taken and not used: projects here have none."""
    cache = _map(document, "cache", "the buildspec")
    _only(cache, {"paths"}, "cache")
    _list(cache, "paths", "cache")


def _only(document: Mapping[str, Any], allowed: Set[str], where: str) -> None:
    unknown = sorted(set(document) - allowed)
    if unknown:
        raise BuildspecError(f"unknown key {unknown[0]!r} in {where}; allowed: {', '.join(sorted(allowed))}")


def _map(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise BuildspecError(f"expected {key} in {where} to be a map")
    return value


def _texts(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, str]:
    values = _map(document, key, where)
    for name, value in values.items():
        if not isinstance(value, str):
            raise BuildspecError(f"expected {where}.{key}.{name} to be of string type")
    return values


def _list(document: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = document.get(key) or []
    if not isinstance(values, list):
        raise BuildspecError(f"expected {where}.{key} to be a list of strings")
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise BuildspecError(
                f"Expected {key.capitalize()}[{index}] to be of string type in {where}: found subkeys"
                " instead; quote the whole text"
            )
    return tuple(values)
