"""What is measured beside the server: fastjev and callo in an environment of their own, and llama-server.

Both lie in the user's cache under a key of what they are made of, as tools/setup.py's wheel does.
llama-server is built from the source of the binding's own release with the wheel's flags, so all sides run
the same kernels.
"""

import hashlib
import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tools.setup import (
    CACHE,
    ROOT,
    VENV,
    environment_path,
    heartbeat,
    pinned,
    pip,
    requirement,
    run,
    say,
    wheel_flags,
    wheel_key,
)

_PINS: Final = ROOT / "requirements-bench.txt"
_SERVER_FLAGS: Final = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_SERVER=ON",
    "-DLLAMA_BUILD_TOOLS=ON",
)


def _pin() -> str:
    return pinned(ROOT / "requirements-server.txt", "llama-cpp-python")


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def environment_key() -> str:
    """Cache key of the peers' environment: their pins, the server's wheel, the Python."""
    return _key(_PINS.read_text(), wheel_key(_pin()), sys.version)


def llama_server_key() -> str:
    """Cache key of llama-server: the binding's pin, all flags, operating system, CPU architecture."""
    return _key(
        _pin(), *wheel_flags(), *_SERVER_FLAGS, platform.system(), platform.machine(), *platform.libc_ver()
    )


def peers_python() -> Path:
    """The Python of the peers' environment, made if it is not there. Raises SetupError."""
    home = CACHE / "bench" / environment_key()
    python = home / "bin" / "python"
    if (home / "whole").exists():
        return python
    say(f"installing fastjev and callo into {home}, once per machine")
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", home)
    install = (VENV / "bin" / "uv", "pip", "install", "--python", python)
    with heartbeat("still installing the peers"):
        run(*install, "--require-hashes", "-r", _PINS)
        (wheel,) = (CACHE / "wheels" / wheel_key(_pin())).glob("*.whl")
        run(*install, "--no-deps", wheel)
    (home / "whole").touch()
    return python


def llama_server() -> Path:
    """The llama-server binary, built if it is not there: about 8 minutes on two cores. Raises SetupError.

    Its libraries lie beside it; it was built elsewhere, so LD_LIBRARY_PATH has to name that folder.
    """
    home = CACHE / "llama-server" / llama_server_key()
    if not home.exists():
        _build_llama_server(home)
    return home / "llama-server"


def _build_llama_server(home: Path) -> None:
    say(f"building llama-server from the binding's source: about 8 minutes on two cores, kept in {home}")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as name, heartbeat("still building llama-server"):
        folder = Path(name)
        source = _unpack_source(folder)
        build = folder / "build"
        path = environment_path()
        run("cmake", "-G", "Ninja", "-S", source, "-B", build, *_SERVER_FLAGS, *wheel_flags(), env=path)
        run("cmake", "--build", build, "--target", "llama-server", env=path)
        shutil.copytree(build / "bin", folder / "whole", symlinks=True)
        try:
            (folder / "whole").rename(home)
        except OSError:  # another run finished first; its build is the same
            if not home.exists():
                raise


def _unpack_source(folder: Path) -> Path:
    """llama.cpp out of the pinned source of llama-cpp-python."""
    with requirement(_pin()) as pins:
        pip(
            *("download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"),
            *("--require-hashes", "-r", pins, "-d", folder),
        )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "source", filter="data")
    (inner,) = (folder / "source").iterdir()
    return inner / "vendor" / "llama.cpp"
