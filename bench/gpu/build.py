"""Builds libllama from the carried source: no server, no tests, for this machine's card only."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.gpu.toolkit import find_toolkit
from tools.setup import X86_FLAGS

LIBRARY: Final = "libllama.so"
_COMMON_FLAGS: Final = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    # The project's own flags: every instruction set of this CPU is not always one that this machine lets run.
    "-DGGML_NATIVE=OFF",
    *X86_FLAGS,
    "-DGGML_CCACHE=OFF",
    *(
        f"-DLLAMA_BUILD_{part}=OFF"
        for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER", "APP", "UI", "MTMD")
    ),
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
_SHOWN_CHARS: Final = 3000


class BuildError(Exception):
    """libllama could not be built; the message ends with what the failing step said."""


@dataclass(frozen=True, slots=True)
class Build:
    """A built libllama. library_folder: for LLAMA_CPP_LIB_PATH. seconds: of configuring and of compiling."""

    library_folder: Path
    flags: tuple[str, ...]
    configure_s: float
    compile_s: float


def build_library(
    source: Path, folder: Path, *, architecture: str | None, jobs: int, limit_s: float
) -> Build:
    """Configure and compile libllama in folder.

    architecture: for CMAKE_CUDA_ARCHITECTURES; None builds the CPU backend alone. limit_s: for both steps
    together. Raises BuildError, or ToolkitError where CUDA is incomplete.
    """
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildError("CMAKE_MISSING: cmake is not on PATH")
    flags = list(_COMMON_FLAGS)
    if architecture is not None:
        toolkit = find_toolkit(folder)
        flags += ["-DGGML_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}"]
        flags += [f"-DCMAKE_CUDA_COMPILER={toolkit.nvcc}", "-DGGML_CUDA_NCCL=OFF", *toolkit.flags]
    if shutil.which("ninja"):
        flags.append("-GNinja")
    log = folder / "build.log"
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    ends_s = time.monotonic() + limit_s
    configure_s = _step((cmake, "-S", source, "-B", folder, *flags), log, ends_s)
    compile_s = _step((cmake, "--build", folder, "--target", "llama", "-j", str(jobs)), log, ends_s)
    library_folder = folder / "bin"
    if not (library_folder / LIBRARY).is_file():
        raise BuildError(f"LIBRARY_NOT_BUILT: the build ended well but {library_folder} has no {LIBRARY}")
    return Build(library_folder, tuple(flags), round(configure_s, 1), round(compile_s, 1))


def _step(command: Sequence[str | Path], log: Path, ends_s: float) -> float:
    """Run one step, its output going to the log; gives its seconds."""
    begun_s = time.monotonic()
    words = list(map(str, command))
    with log.open("ab") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code = process.wait(max(1.0, ends_s - begun_s))
        except subprocess.TimeoutExpired:
            # The compilers are children of children: end the whole session.
            os.killpg(process.pid, 9)
            process.wait()
            raise BuildError(f"BUILD_TOO_SLOW: `{' '.join(words[:2])}` ran out of time{_tail(log)}") from None
    if code != 0:
        raise BuildError(f"BUILD_FAILED: `{' '.join(words[:2])}` ended with {code}{_tail(log)}")
    return time.monotonic() - begun_s


def _tail(log: Path) -> str:
    return "; " + str(log) + " ends: " + log.read_text(errors="replace")[-_SHOWN_CHARS:].strip()
