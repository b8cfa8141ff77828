"""A checkpoint → GGUF → quantized GGUF, by llama.cpp's own tools in an environment of their own.

The converter needs torch and transformers, which are in no requirements file but
semif/codebuild/requirements-convert.txt. Quantizing needs llama-cpp-python alone.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from semif.errors import ServiceError, UsageError
from semif.package_model.acquire import Acquired
from semif.package_model.gguf_file import MAGIC
from semif.package_model.recipe import Recipe

QUANTIZE = Path(__file__).with_name("quantize_process.py")
CONVERTER = "convert_hf_to_gguf.py"
_LAST_LINES = 12


@dataclass(frozen=True)
class Tools:
    """Where llama.cpp's tools are. python: has the packages. llama_cpp: the sources, None if absent."""

    python: str = field(default=sys.executable)
    llama_cpp: Path | None = None


def make_gguf(
    acquired: Acquired, recipe: Recipe, work: Path, tools: Tools, say: Callable[[str], None]
) -> Path:
    """The GGUF that the recipe asks for, in the work folder. What was fetched is deleted once it is used up.

    Raises `no_converter`, `conversion_failed` or `quantization_failed` with the tool's last lines.
    """
    source = acquired.paths[0]
    is_gguf = len(acquired.paths) == 1 and source.suffix == ".gguf"
    result = work / f"made-{recipe.file}"
    intermediate = work / "converted.gguf"
    if not is_gguf:
        outtype = "f16" if recipe.quantize == "F16" else "auto"
        target = result if recipe.quantize == "F16" else intermediate
        _convert(source.parent, target, outtype, tools, say)
        acquired.discard()
        if recipe.quantize == "F16":
            return result
        source = intermediate
    say(f"{recipe.file}: quantizing to {recipe.quantize}")
    command = [tools.python, str(QUANTIZE), str(source), str(result), str(recipe.quantize)]
    _run(command, result, "quantization_failed")
    if is_gguf:
        acquired.discard()
    intermediate.unlink(missing_ok=True)
    return result


def _convert(folder: Path, target: Path, outtype: str, tools: Tools, say: Callable[[str], None]) -> None:
    script = tools.llama_cpp / CONVERTER if tools.llama_cpp else None
    if script is None or not script.is_file():
        raise UsageError(
            "no_converter",
            f"llama.cpp's {CONVERTER} is not at hand",
            field="--llama-cpp",
            next_step="unpack the pinned llama-cpp-python source and name its vendor/llama.cpp"
            " (docs/model-archive.md)",
        )
    say(f"{folder.name}: converting to GGUF ({outtype})")
    command = [tools.python, str(script), str(folder), "--outfile", str(target), "--outtype", outtype]
    _run(command, target, "conversion_failed")


def _run(command: list[str], result: Path, code: str) -> None:
    """Run a tool until it ends; its result must be a GGUF then."""
    result.unlink(missing_ok=True)
    if shutil.which(command[0]) is None:
        raise UsageError(
            "no_tools_python", f"{command[0]} is no program", field="--tools-python",
            next_step="name the Python that has semif/codebuild/requirements-convert.txt installed",
        )  # fmt: skip
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    is_made = result.is_file() and result.stat().st_size > len(MAGIC)
    if done.returncode == 0 and is_made:
        return
    result.unlink(missing_ok=True)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
    missing = [line for line in lines if "ModuleNotFoundError" in line]
    if missing:
        raise UsageError(
            "no_converter", f"{command[0]}: {missing[0]}", field="--tools-python",
            next_step="make the tools' environment by semif/codebuild/install-tools.sh and name its Python",
        )  # fmt: skip
    said = " | ".join(lines) or "it said nothing"
    raise ServiceError(
        code, f"{Path(command[1]).name} ended with exit code {done.returncode}: {said}",
        next_step="see the tool's last lines; an architecture that it does not know needs a newer llama.cpp",
    )  # fmt: skip
