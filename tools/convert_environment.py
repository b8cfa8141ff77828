"""The environment in which tests run llama.cpp's converter: torch and transformers, in the user's cache.

    python -m tools.convert_environment

It makes the same as semif/codebuild/install-tools.sh, but with a CPU build of torch where pip's own settings
lead to one (0.3 GB to fetch, 1.3 GB on disk), and without bindings: quantizing runs on those of `.venv`.
Nothing else of the project needs it, so `make setup` leaves it out.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tools.setup import CACHE, PYTHON, ROOT, SetupError, heartbeat, run

PINS: Final = ROOT / "semif" / "codebuild" / "requirements-convert.txt"
SOURCE_PIN: Final = ROOT / "semif" / "codebuild" / "requirements-quantize.txt"
# A CPU build of torch needs none of these.
_ACCELERATOR: Final = re.compile(r"(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==")
_OF_CONVERTER: Final = ("convert_hf_to_gguf.py", "conversion/", "gguf-py/gguf/")


def folder() -> Path:
    """Where the environment is or will be: named by its pins, so that new pins make a new one."""
    key = hashlib.sha256(PINS.read_bytes() + SOURCE_PIN.read_bytes() + sys.version.encode()).hexdigest()
    return CACHE / "convert" / key[:16]


def is_there() -> bool:
    """Whether it was made before; it is whole then."""
    return (folder() / "whole").exists()


def cpu_torch() -> str | None:
    """The pin of torch's CPU build, if pip's own configuration finds one here without fetching it."""
    version = re.search(r"^torch==(\S+)", PINS.read_text(), re.MULTILINE)
    if version is None:
        return None
    pin = f"torch=={version[1]}+cpu"
    looked = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--no-deps",
        "--quiet",
        "--ignore-installed",
        pin,
    ]
    return pin if subprocess.run(looked, capture_output=True, check=False).returncode == 0 else None


def make() -> Path:
    """Make the environment if it is not there, saying what that costs; returns its folder."""
    target = folder()
    if is_there():
        return target
    torch = cpu_torch()
    cost = "0.3 GB to fetch, 1.3 GB on disk" if torch else "3 GB to fetch, 7 GB on disk"
    print(f"making the converter's environment in {target}: {cost}, once per machine", flush=True)
    target.mkdir(parents=True, exist_ok=True)
    python = target / "bin" / "python"
    run(sys.executable, "-m", "venv", "--clear", target)
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    with heartbeat("still installing torch and transformers"):
        if torch is None:
            run(*pip, "install", "--require-hashes", "-r", PINS)
        else:
            run(*pip, "install", "--no-deps", torch)
            rest = target / "rest.txt"
            rest.write_text(_without_accelerators(PINS.read_text()))
            run(*pip, "install", "--no-deps", "--require-hashes", "-r", rest)
        _unpack_converter(pip, target)
    (target / "whole").touch()
    return target


def _without_accelerators(pins: str) -> str:
    blocks = re.split(r"^(?=[a-z0-9])", pins, flags=re.MULTILINE)
    return "".join(block for block in blocks if not _ACCELERATOR.match(block))


def _unpack_converter(pip: tuple[str | Path, ...], target: Path) -> None:
    """Put the converter out of the pinned source of llama-cpp-python into TARGET/llama.cpp."""
    with tempfile.TemporaryDirectory(dir=target) as name:
        run(
            *(*pip, "download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"),
            *("--require-hashes", "-r", SOURCE_PIN, "-d", name),
        )
        (source,) = Path(name).glob("*.tar.gz")
        with tarfile.open(source) as archive:
            for member in archive:
                _, found, inner = member.name.partition("/vendor/llama.cpp/")
                if found and inner.startswith(_OF_CONVERTER):
                    member.name = inner
                    archive.extract(member, target / "llama.cpp", filter="data")


if __name__ == "__main__":
    try:
        print(make())
    except SetupError as error:
        sys.exit(f"convert_environment: {error}")
