"""What the benchmark carries to a machine without a network, and how it is unpacked there.

Two archives in bench/gpu/carried/, written by bench.gpu.prepare: llama.cpp's source with the bindings' Python
files, and Python packages for several versions of CPython. Standard library only: this runs before there is
anything else.
"""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
CARRIED: Final = HERE / "carried"
SOURCE_ARCHIVE: Final = CARRIED / "llama.tar.xz"
PACKAGES_ARCHIVE: Final = CARRIED / "packages.tar.xz"
LIMIT_BYTES: Final = 60_000_000

PYTHON_MINORS: Final = (11, 12, 13, 14)
SOURCE: Final = "llama.cpp"
BINDINGS: Final = "bindings"


class CarriedError(Exception):
    """Something that should have been carried along is missing; the message says what to do."""


def folder_for(minor: int) -> str:
    """Where the packages for CPython 3.minor lie in the archive."""
    return f"cp3{minor}"


def unpack_source(work: Path) -> Path:
    """Unpack llama.cpp's source and the bindings into work; gives the source's folder."""
    _unpack(SOURCE_ARCHIVE, work, (SOURCE, BINDINGS))
    return work / SOURCE


def unpack_packages(work: Path) -> list[Path]:
    """Unpack the packages for this interpreter, and the bindings; gives the folders that hold them."""
    minor = _minor()
    if minor not in PYTHON_MINORS:
        versions = ", ".join(f"3.{known}" for known in PYTHON_MINORS)
        raise CarriedError(
            f"PYTHON_NOT_CARRIED: this is Python 3.{minor}; packages are carried for {versions}."
            " Set PYTHON to one of these, or pass --own-packages if this Python has them all."
        )
    _unpack(PACKAGES_ARCHIVE, work, (folder_for(minor),))
    _unpack(SOURCE_ARCHIVE, work, (BINDINGS,))
    return [work / BINDINGS, work / folder_for(minor)]


def search_path(*folders: Path) -> str:
    """A value of PYTHONPATH: our server, this repository, and then the given folders."""
    return os.pathsep.join(map(str, (ROOT / "container", ROOT, *folders)))


def carried_bytes() -> int:
    """Bytes of all carried files, 0 if there are none."""
    return sum(path.stat().st_size for path in CARRIED.rglob("*") if path.is_file())


def _minor() -> int:
    return sys.version_info.minor


def _unpack(archive: Path, work: Path, wanted: tuple[str, ...]) -> None:
    if not archive.is_file():
        raise CarriedError(
            f"NOT_PREPARED: {archive} is missing: run bench/gpu/prepare.sh where there is a network, and copy"
            f" {CARRIED} here."
        )
    with tarfile.open(archive) as files:
        members = [member for member in files if member.name.partition("/")[0] in wanted]
        if hasattr(tarfile, "data_filter"):
            files.extractall(work, members, filter="data")
        else:
            files.extractall(work, members)  # noqa: S202  # Python before 3.11.4; the archive is our own
