"""The entry point's decisions: from the container's variables to llama-server's command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "SM_LLAMA_CPP_"
MODEL_DIR = "/opt/ml/model"
_OWN = frozenset(f"{PREFIX}{name}" for name in ("MODEL", "MODEL_DIR", "PORT"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What the entry point starts: nginx on `port`, llama-server on `upstream_port` (0: any free one).

    `flags` are llama-server's without its address; `lines` is what the entry point says first.
    """

    port: int
    upstream_port: int
    flags: tuple[str, ...]
    lines: tuple[str, ...]


def plan(environment: Mapping[str, str]) -> Plan:
    """Read the variables as AWS's entry point does; none is refused here, llama-server judges its flags."""
    model_dir = environment.get(f"{PREFIX}MODEL_DIR") or MODEL_DIR
    model, line = environment.get(f"{PREFIX}MODEL") or None, None
    if model is None:
        model = discover(Path(model_dir))
        line = (
            f"INFO: auto-detected GGUF model {model}"
            if model
            else f"WARNING: no *.gguf found under {model_dir}; set SM_LLAMA_CPP_MODEL or mount a GGUF."
        )
    named = ("--model", model) if model else ()
    return Plan(
        port=int(environment.get(f"{PREFIX}PORT") or 8080),
        upstream_port=int(environment.get("LLAMA_CPP_UPSTREAM_PORT") or 0),
        flags=(*named, *flags(environment.items())),
        lines=(line,) if line else (),
    )


def discover(model_dir: Path) -> str | None:
    """Return the first GGUF in the shell's glob order, down to one folder below; an mmproj file can win."""
    for pattern in ("*.gguf", "*/*.gguf"):
        for found in sorted(model_dir.glob(pattern)):
            hidden = any(part.startswith(".") for part in found.relative_to(model_dir).parts)
            if found.is_file() and not hidden:
                return str(found)
    return None


def flags(variables: Iterable[tuple[str, str]]) -> Sequence[str]:
    """Turn every other variable into a flag: `true` and nothing give a bare one, `false` none at all.

    The real one reads the output of `env` by lines, so that of a value with a line break only the first
    line arrives, and the rest can pass for another variable.
    """
    found: list[str] = []
    for line in "\n".join(f"{name}={value}" for name, value in variables).split("\n"):
        name, _, value = line.partition("=")
        if not name.startswith(PREFIX) or name in _OWN or value.lower() == "false":
            continue
        found.append("--" + name.removeprefix(PREFIX).lower().replace("_", "-"))
        if value and value.lower() != "true":
            found.append(value)
    return found
