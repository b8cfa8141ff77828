"""Fill /opt/semif: pinned wheels, the bindings' Python, a launcher, an interpreter if the base has none.

Runs in the Python image, never in the final one. Nothing is compiled: wheels are manylinux wheels for the
interpreter that will run them, and of llama-cpp-python's source only the bindings' Python files are taken.

    install.py PROBE_FOLDER BINDINGS_REQUIREMENTS
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path("/opt/semif")
TOOLS = Path("/build/tools")
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)
OLDEST = (3, 11)

# All that `import llama_cpp.llama_cpp` reads; the high-level API and its imports stay out.
BINDINGS_FILES = ("__init__.py", "_ctypes_extensions.py", "llama_cpp.py")
# Parts of a standard library that a server never imports.
UNUSED_STDLIB = (
    *(
        "__pycache__",
        "config-*",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "dist-packages",
    ),
    *("test", "tests", "tkinter", "turtledemo"),
)


def pip(*arguments: str | Path, **variables: str) -> None:
    """Run this image's pip with the index that the build was given, if any."""
    environment = {name: value for name, value in os.environ.items() if name != "PIP_INDEX_URL" or value}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    subprocess.run(command, check=True, env={**environment, "PIP_ROOT_USER_ACTION": "ignore", **variables})


def install_wheels(site: Path, version: str) -> None:
    """The server's pinned wheels for the interpreter `version`, such as 3.12."""
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    pip(
        *("install", "--no-compile", "--no-deps", "--require-hashes", "--only-binary=:all:"),
        *("--implementation=cp", f"--python-version={version}", *platforms),
        *("--target", site, "-r", HERE / "requirements-server.txt"),
    )
    shutil.rmtree(site / "bin", ignore_errors=True)
    for folder in list(site.rglob("tests")):
        shutil.rmtree(folder, ignore_errors=True)


def install_bindings(site: Path, requirements: Path) -> None:
    """The bindings' Python files out of the pinned source; the source's C++ is left where it is."""
    with tempfile.TemporaryDirectory() as folder:
        # SKBUILD_WHEEL_CMAKE: scikit-build-core packs the Python files and starts no CMake, no compiler.
        # An older pip would not hand --config-settings to a requirements file's lines.
        pip(
            *("wheel", "--no-deps", "--no-build-isolation", "--require-hashes", "--wheel-dir", folder),
            *("-r", requirements),
            PYTHONPATH=str(TOOLS),
            SKBUILD_WHEEL_CMAKE="false",
        )
        (wheel,) = Path(folder).glob("*.whl")
        wanted = {f"llama_cpp/{name}" for name in BINDINGS_FILES}
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            if not wanted <= names:
                sys.exit(
                    f"error: BINDINGS_INCOMPLETE: {wheel.name} lacks {sorted(wanted - names)}; pin another"
                )
            metadata = {name for name in names if name.endswith(".dist-info/METADATA")}
            licences = {name for name in names if ".dist-info/licenses/" in name}
            archive.extractall(site, sorted(wanted | metadata | licences))


def copy_interpreter(target: Path) -> None:
    """This image's own interpreter: program, shared library, and what is used of the standard library."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    prefix = Path(sys.base_prefix)
    if prefix == Path("/usr"):
        sys.exit(
            "error: PYTHON_IMAGE_NOT_SELF_CONTAINED: the Python of PYTHON_IMAGE lies in /usr, among the"
            " system's files; use an image whose Python has a prefix of its own, such as AWS Lambda's"
        )
    (target / "bin").mkdir(parents=True)
    shutil.copy2(prefix / "bin" / f"python{version}", target / "bin" / f"python{version}")
    library = Path("lib") / f"python{version}"
    shutil.copytree(
        prefix / library,
        target / library,
        ignore_dangling_symlinks=True,
        ignore=shutil.ignore_patterns(*UNUSED_STDLIB),
    )
    for shared in (prefix / "lib").glob(f"libpython{version}*.so*"):
        shutil.copy2(shared, target / "lib" / shared.name)


def write_launcher(python: str) -> None:
    """/opt/semif/bin/python: the interpreter by its path, with its shared library if it brought one."""
    lines = ["#!/bin/sh"]
    if list((TARGET / "python" / "lib").glob("libpython*.so*")):
        lines.append(f'export LD_LIBRARY_PATH="{TARGET}/python/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"')
    lines.append(f'exec {python} "$@"')
    launcher = TARGET / "bin" / "python"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text("\n".join(lines) + "\n")
    launcher.chmod(0o755)


def main() -> None:
    """Command line."""
    probe, requirements = Path(sys.argv[1]), HERE / sys.argv[2]
    if sys.version_info < OLDEST:
        sys.exit(
            f"error: PYTHON_TOO_OLD: PYTHON_IMAGE has Python {sys.version.split()[0]}; 3.11 is the oldest"
        )
    if not requirements.is_file():
        known = ", ".join(sorted(path.name for path in HERE.glob("requirements-bindings-*.txt")))
        sys.exit(f"error: BINDINGS_UNKNOWN: there is no {requirements.name}; BINDINGS is one of {known}")
    python = (probe / "python").read_text().strip()
    version = (probe / "version").read_text().strip()
    if not python:
        copy_interpreter(TARGET / "python")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        python = f"{TARGET}/python/bin/python{version}"
    write_launcher(python)
    pip("install", "--require-hashes", "--no-deps", "--target", TOOLS, "-r", HERE / "requirements-tools.txt")
    install_wheels(TARGET / "site", version)
    install_bindings(TARGET / "site", requirements)


if __name__ == "__main__":
    main()
