"""Root file systems of the stand-ins: a few Debian packages, unpacked, and llama.cpp's libraries."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from tests.standins.storage import ImageError
from tools.setup import CACHE, ROOT, pinned, say, wheel_key

LIBRARY_FOLDER = Path("opt/llama.cpp/bin")
LIBRARIES = ("libllama", "libggml", "libggml-base", "libggml-cpu")

_BASE = ("libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g", "libexpat1", "libffi8", "libssl3", "dash")
_TOOLS = ("coreutils", "libacl1", "libattr1", "libgmp10", "libselinux1", "libpcre2-8-0", "libcrypt1")
_STDLIB = ("libbz2-1.0", "liblzma5", "libuuid1")
_PYTHON = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
PACKAGES = (*_BASE, *_TOOLS, *_STDLIB, *_PYTHON)

_WITHOUT_PYTHON = (*_BASE, *_TOOLS, *_STDLIB)
_MERGED = ("bin", "sbin", "lib", "lib64")
_FOLDERS = ("dev", "etc", "mnt", "opt", "proc", "root", "run", "sys", "tmp", "usr/bin", "var/tmp")
# glibc's locale conversions and documentation: nothing here reads them.
_UNUSED = ("usr/share", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/systemd")
_COMPILED = shutil.ignore_patterns("__pycache__")


def write_base(root: Path, packages: Path, *, python: bool) -> None:
    """A stand-in for AWS's llama.cpp container: Debian's files and libllama of the pinned wheel."""
    names = (*_WITHOUT_PYTHON, *_PYTHON) if python else _WITHOUT_PYTHON
    _unpack(root, packages, names)
    _add_libraries(root / LIBRARY_FOLDER)


def write_interpreter(root: Path, packages: Path) -> None:
    """A stand-in for the Python image: an interpreter that lies whole in /var/lang, with pip."""
    _unpack(root, packages, _WITHOUT_PYTHON)
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        python = Path(folder)
        _unpack(python, packages, _PYTHON)
        prefix = root / "var/lang"
        (prefix / "bin").mkdir(parents=True)
        shutil.move(python / "usr/bin/python3.11", prefix / "bin/python3.11")
        shutil.move(python / "usr/lib/python3.11", prefix / "lib/python3.11")
        # The packages link to configuration outside of their prefix.
        for link in (prefix / "lib/python3.11").rglob("*"):
            if link.is_symlink() and link.readlink().is_absolute():
                link.unlink()
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to("python3.11")
    # The pip of this environment: Debian's is older, and knows no cache for what --require-hashes asks.
    source = Path(sysconfig.get_paths()["purelib"])
    for part in (source / "pip", *source.glob("pip-*.dist-info")):
        shutil.copytree(part, prefix / "lib/python3/dist-packages" / part.name, ignore=_COMPILED)


def download_packages() -> Path:
    """A folder with the Debian packages, from the user's cache or the machine's Debian mirror."""
    folder = CACHE / "standins" / "packages"
    if _missing(folder):
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise ImageError("the stand-ins are made of Debian packages: apt-get and dpkg-deb are needed")
        say("fetching 26 Debian packages (17 MB) for the stand-in images, once per machine")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            done = subprocess.run(
                ["apt-get", "download", *PACKAGES], cwd=fresh, capture_output=True, text=True, check=False
            )
            if done.returncode != 0 or _missing(Path(fresh)):
                raise ImageError(
                    f"apt-get can't fetch Debian 12's packages: try `apt-get update`\n{done.stderr[-2000:]}"
                )
            folder.mkdir(exist_ok=True)
            for package in Path(fresh).iterdir():
                package.replace(folder / package.name)
    return folder


def _missing(folder: Path) -> list[str]:
    return [name for name in PACKAGES if not list(folder.glob(f"{name}_*.deb"))]


def _unpack(root: Path, packages: Path, names: tuple[str, ...]) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for name in names:
        package = max(packages.glob(f"{name}_*.deb"), key=lambda path: path.stat().st_mtime)
        stream = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root], input=stream.stdout, check=True)
    for path in _UNUSED:
        shutil.rmtree(root / path, ignore_errors=True)
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")


def _add_libraries(folder: Path) -> None:
    """llama.cpp's libraries, named as AWS's container names them: one file, and links for each version."""
    store = CACHE / "wheels" / wheel_key(pinned(ROOT / "requirements-server.txt", "llama-cpp-python"))
    wheels = list(store.glob("*.whl"))
    if not wheels:
        raise ImageError("llama.cpp's wheel is not in the user's cache: run `make setup`")
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheels[0]) as archive:
        for library in LIBRARIES:
            names = {Path(name).name for name in archive.namelist() if name.startswith("llama_cpp/lib/")}
            versions = sorted(name for name in names if name.startswith(f"{library}.so"))
            whole = versions[-1]
            (folder / whole).write_bytes(archive.read(f"llama_cpp/lib/{whole}"))
            for link in versions[:-1]:
                (folder / link).symlink_to(whole)
