"""Finds what a CUDA build needs, which machines keep in different places. Standard library only.

A toolkit from NVIDIA's installer has everything under one root. Where Python packages brought CUDA, cuBLAS
lies among them, its library without the unversioned name that linkers look for; and a container has the
driver's library but no stub of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_USUAL_ROOT: Final = Path("/usr/local/cuda")
_DRIVER_FOLDERS: Final = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
_ANSWER_S: Final = 30


class ToolkitError(Exception):
    """There is no CUDA compiler or no cuBLAS here; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA toolkit. flags: what CMake must be told besides the compiler to find cuBLAS and the driver."""

    nvcc: Path
    version: str
    flags: tuple[str, ...] = field(default=())


def find_toolkit(work: Path) -> Toolkit:
    """The toolkit of this machine; work: a folder for links. Raises ToolkitError."""
    nvcc = _find_nvcc()
    flags = [*_cublas_flags(nvcc.parent.parent, work), *_driver_flags(nvcc.parent.parent)]
    return Toolkit(nvcc, _release(nvcc), tuple(flags))


def card_architecture() -> str:
    """The architecture of the first card for CMAKE_CUDA_ARCHITECTURES, such as 90-real; else native."""
    answer = answer_of("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").splitlines()
    if not answer or not re.fullmatch(r"\d+\.\d", answer[0].strip()):
        return "native"
    number = answer[0].strip().replace(".", "")
    # From 12.0 on, llama.cpp uses instructions of that very architecture (its CMake file says so).
    return f"{number}{'a' if number.startswith('12') else ''}-real"


def answer_of(*command: str | Path) -> str:
    """What a program prints, empty if it is missing or fails."""
    try:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _find_nvcc() -> Path:
    named = os.environ.get("CUDACXX")
    candidates = [Path(named)] if named else [_USUAL_ROOT / "bin" / "nvcc"]
    on_path = shutil.which("nvcc")
    candidates += [Path(on_path)] if on_path else []
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ToolkitError(f"CUDA_COMPILER_MISSING: no nvcc at {candidates[0]} or on PATH: set CUDACXX to it")


def _release(nvcc: Path) -> str:
    found = re.search(r"release (\S+), V(\S+)", answer_of(nvcc, "--version"))
    return found[2] if found else "unknown"


def _cublas_flags(root: Path, work: Path) -> Iterator[str]:
    if any(root.glob("**/include/cublas_v2.h")) and any(root.glob("**/libcublas.so")):
        return
    for folder in _package_folders():
        for header in sorted(folder.glob("nvidia/*/include/cublas_v2.h")):
            libraries = header.parents[1] / "lib"
            if not list(libraries.glob("libcublas.so.*")):
                continue
            # The headers alone: the folder may hold another version's runtime headers beside them.
            headers = work / "cublas"
            headers.mkdir(parents=True, exist_ok=True)
            for name in header.parent.glob("cublas*.h"):
                link = headers / name.name
                link.unlink(missing_ok=True)
                link.symlink_to(name)
            yield f"-DCMAKE_CUDA_FLAGS=-I{headers}"
            yield f"-DCMAKE_CXX_FLAGS=-I{headers}"
            for library in ("cublas", "cublasLt"):
                yield f"-DCUDA_{library}_LIBRARY={_newest(libraries, library)}"
            return
    raise ToolkitError(
        f"CUBLAS_MISSING: no cublas_v2.h with its library under {root} or among Python's packages"
        " (nvidia/*/include): install NVIDIA's cuBLAS development files"
    )


def _package_folders() -> Iterator[Path]:
    interpreters = dict.fromkeys((sys.executable, shutil.which("python3") or sys.executable))
    for interpreter in interpreters:
        for line in answer_of(interpreter, "-c", "import sys; print('\\n'.join(sys.path))").splitlines():
            if Path(line).is_dir():
                yield Path(line)


def _newest(folder: Path, library: str) -> Path:
    return max(folder.glob(f"lib{library}.so.*"), key=lambda path: path.name)


def _driver_flags(root: Path) -> Iterator[str]:
    if any(root.glob("**/stubs/libcuda.so")):
        return
    known = [
        Path(line.rpartition("=> ")[2])
        for line in answer_of("/sbin/ldconfig", "-p").splitlines()
        if line.strip().startswith("libcuda.so") and "x86-64" in line
    ]
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), *_DRIVER_FOLDERS]
    known += [Path(folder) / "libcuda.so.1" for folder in folders if folder]
    for path in known:
        if path.is_file():
            yield f"-DCUDA_cuda_driver_LIBRARY={path}"
            return
    # Without the driver's library to link with, llama.cpp can take memory the older way.
    yield "-DGGML_CUDA_NO_VMM=ON"
