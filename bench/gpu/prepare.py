"""Gather what bench/gpu/run.sh needs on a machine without a network, under 60 MB in all.

    python -m bench.gpu.prepare [--source llama_cpp_python-VERSION.tar.gz]

Needs pip with an index, once. From the pinned source of llama-cpp-python it keeps llama.cpp's libraries with
the CPU and CUDA backends and the bindings' three Python files; from the pins of the image, manylinux wheels
for each CPython that may be met.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.gpu.carried import (
    BINDINGS,
    CARRIED,
    LIMIT_BYTES,
    PACKAGES_ARCHIVE,
    PYTHON_MINORS,
    ROOT,
    SOURCE,
    SOURCE_ARCHIVE,
    carried_bytes,
    folder_for,
)
from tools.setup import pinned

_BINDINGS_PIN: Final = "llama-cpp-python"
_BINDINGS_FILES: Final = ("__init__.py", "_ctypes_extensions.py", "llama_cpp.py")
_WRITER_PACKAGES: Final = ("gguf", "pyyaml")  # writes GGUF files; what importing it needs
_PLATFORMS: Final = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)

# Of llama.cpp, what its libraries are built from.
_KEPT: Final = ("CMakeLists.txt", "LICENSE", "cmake/", "include/", "src/", "ggml/", "vendor/hash/")
_BACKEND: Final = re.compile(r"ggml/src/ggml-(?P<name>[a-z0-9]+)/")
_KEPT_BACKENDS: Final = frozenset({"cpu", "cuda"})
# CMake reads these; what they describe is not built.
_VENDOR_LISTS: Final = re.compile(r"vendor/([a-z0-9]+/)?CMakeLists\.txt")

_UNUSED_FOLDERS: Final = frozenset({"tests", "__pycache__", "bin", "include"})
_UNUSED_SUFFIXES: Final = frozenset({".pyi", ".a", ".pyc"})


class PrepareError(Exception):
    """The archives can't be made; the message names what is wrong and what to do."""


def is_kept(name: str) -> bool:
    """Whether a file of llama.cpp's source, by its path there, is needed for libllama on CPU and CUDA."""
    backend = _BACKEND.match(name)
    if backend and backend["name"] not in _KEPT_BACKENDS:
        return False
    return name.startswith(_KEPT) or _VENDOR_LISTS.fullmatch(name) is not None


def is_used(path: Path) -> bool:
    """Whether a file of an installed package, by its path among the packages, is read by a program."""
    return not _UNUSED_FOLDERS & set(path.parts) and path.suffix not in _UNUSED_SUFFIXES


def write_source(sdist: Path, archive: Path) -> None:
    """Write llama.cpp's needed source and the bindings' Python files into one archive."""
    wanted_bindings = {f"llama_cpp/{name}": f"{BINDINGS}/llama_cpp/{name}" for name in _BINDINGS_FILES}
    vendored = "vendor/llama.cpp/"
    with tarfile.open(sdist) as source, _writing(archive) as target:
        found = set()
        for member in source:
            name = member.name.partition("/")[2]
            if name in wanted_bindings:
                found.add(name)
                member.name = wanted_bindings[name]
            elif name.startswith(vendored) and is_kept(name.removeprefix(vendored)):
                member.name = f"{SOURCE}/{name.removeprefix(vendored)}"
            else:
                continue
            if member.isfile():
                target.addfile(_plain(member), source.extractfile(member))
    if found != set(wanted_bindings):
        raise PrepareError(f"BINDINGS_INCOMPLETE: {sdist.name} lacks {sorted(set(wanted_bindings) - found)}")


def write_packages(folders: Iterable[Path], archive: Path) -> None:
    """Write installed packages, a folder for each CPython, into one archive.

    The versions' files of one name lie side by side: most of them are equal and cost nothing then.
    """
    files = [
        (path.relative_to(folder), folder, path)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and is_used(path.relative_to(folder))
    ]
    # A library's name ends in a tag of its Python; the larger part before it sorts equal ones together.
    files.sort(key=lambda file: (file[0].suffix, file[0].name, str(file[0]), file[1].name))
    with _writing(archive) as target:
        for inner, folder, path in files:
            member = target.gettarinfo(path, f"{folder.name}/{inner}")
            with path.open("rb") as content:
                target.addfile(_plain(member), content)


def download_source(folder: Path) -> Path:
    """The pinned source of llama-cpp-python, checked by its hash."""
    requirements = folder / "source.txt"
    requirements.write_text(pinned(ROOT / "requirements-server.txt", _BINDINGS_PIN))
    _pip(
        *("download", "--no-deps", "--no-build-isolation", "--no-binary=:all:", "--require-hashes"),
        *("-r", requirements, "-d", folder),
    )
    (sdist,) = folder.glob("llama_cpp_python-*.tar.gz")
    return sdist


def check_source(sdist: Path) -> None:
    """Refuse a source that is not the pinned one."""
    with sdist.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if f"sha256:{found}" not in pinned(ROOT / "requirements-server.txt", _BINDINGS_PIN):
        raise PrepareError(f"SOURCE_NOT_PINNED: {sdist} has SHA-256 {found}: leave --source out")


def install_packages(folder: Path) -> list[Path]:
    """Install the image's pinned packages and the GGUF writer for each CPython; gives their folders."""
    extra = folder / "writer.txt"
    extra.write_text("".join(pinned(ROOT / "requirements.txt", name) for name in _WRITER_PACKAGES))
    targets = []
    for minor in PYTHON_MINORS:
        target = folder / folder_for(minor)
        _pip(
            *("install", "--no-compile", "--no-deps", "--require-hashes", "--only-binary=:all:"),
            *("--implementation=cp", f"--python-version=3.{minor}"),
            *(f"--platform={platform}" for platform in _PLATFORMS),
            *("--target", target, "-r", ROOT / "container" / "requirements-server.txt", "-r", extra),
        )
        targets.append(target)
    return targets


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    if subprocess.run(command, check=False).returncode != 0:
        raise PrepareError(f"PIP_FAILED: `pip {arguments[0]}` failed; what it says stands above")


@contextmanager
def _writing(archive: Path) -> Iterator[tarfile.TarFile]:
    archive.parent.mkdir(parents=True, exist_ok=True)
    # The dictionary holds the largest library, so that its copies for other versions are found.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 64 << 20}]
    with (
        lzma.open(archive, "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w") as target,
    ):
        yield target


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file without its owner and time: the same inputs give the same archive."""
    plain = tarfile.TarInfo(member.name)
    plain.size, plain.mode = member.size, 0o755 if member.mode & 0o100 else 0o644
    return plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit code."""
    parser = argparse.ArgumentParser(description="Gather what bench/gpu/run.sh carries along.")
    parser.add_argument("--source", type=Path, help="llama-cpp-python's source, already downloaded")
    chosen = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sdist = chosen.source or download_source(folder)
            check_source(sdist)
            write_source(sdist, SOURCE_ARCHIVE)
            write_packages(install_packages(folder), PACKAGES_ARCHIVE)
    except PrepareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in (SOURCE_ARCHIVE, PACKAGES_ARCHIVE):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    if carried_bytes() > LIMIT_BYTES:
        print(f"error: CARRIED_TOO_LARGE: {CARRIED} holds {carried_bytes():,} bytes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
