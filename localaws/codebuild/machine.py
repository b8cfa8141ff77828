"""What stands for a build's container: its folders, its search path, its Python and its `docker`.

A build gets a Python of its own: this one's interpreter in an empty virtual environment, with pip and boto3
as CodeBuild's images have them. So a build installs what it likes and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import signal
import sys
import tempfile
import threading
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localaws.codebuild.messages import NO_DOCKER
from localaws.sagemaker import shim

DockerFolder = Callable[[Mapping[str, str]], Path]
"""Makes a folder with a program `docker` for builds with this environment."""

_PROVIDED = ("pip", "boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
_PASSED = ("LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_USER_PIP = (".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf")
_PIP_SCRIPT = '#!/bin/sh\nexec "$(dirname "$0")/python3" -m pip "$@"\n'


@dataclass(frozen=True)
class Machine:
    """The folders of one build."""

    root: Path

    @property
    def source(self) -> Path:
        """Return CODEBUILD_SRC_DIR."""
        return self.root / "output" / "src"

    @property
    def work(self) -> Path:
        """Return where the executor keeps what the build is not to see."""
        return self.root / "executor"

    @property
    def python(self) -> Path:
        """Return the build's virtual environment."""
        return self.root / "python"


class Machines:
    """Makes and removes the machines of all builds; nothing is on disk before the first one."""

    def __init__(self, docker_folder: DockerFolder | None) -> None:
        self._docker_folder = docker_folder
        self._lock = threading.Lock()
        self._root: Path | None = None
        self._common: Path | None = None

    def make(self, build_uuid: str) -> Machine:
        """Make the folders and the Python of a build."""
        machine = Machine(self._made_root() / build_uuid)
        for folder in (machine.source, machine.work, machine.root / "home", machine.root / "tmp"):
            folder.mkdir(parents=True)
        venv.EnvBuilder(symlinks=True, with_pip=False).create(machine.python)
        (packages,) = machine.python.glob("lib/python*/site-packages")
        (packages / "codebuild.pth").write_text(f"{self._common_folder() / 'packages'}\n")
        for name in ("pip", "pip3"):
            _write_program(machine.python / "bin" / name, _PIP_SCRIPT)
        return machine

    def environment(self, machine: Machine) -> dict[str, str]:
        """Return the variables that the machine itself has: nothing of ours but what reaches the network."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name in {*_PASSED, *_PROXIES} or name.startswith("PIP_")
        }
        for name in ("no_proxy", "NO_PROXY"):
            if any(proxy in inherited for proxy in _PROXIES):
                inherited[name] = ",".join(filter(None, [inherited.get(name), "127.0.0.1,localhost"]))
        home = Path.home()
        cache = Path(os.environ.get("XDG_CACHE_HOME", home / ".cache")) / "pip"
        configured = next((home / name for name in _USER_PIP if (home / name).is_file()), None)
        if configured is not None:
            inherited.setdefault("PIP_CONFIG_FILE", str(configured))
        return {
            "LANG": "C.UTF-8",
            "PIP_CACHE_DIR": str(cache),
            # Most of what a build installs it never imports.
            "PIP_COMPILE": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            **inherited,
            "HOME": str(machine.root / "home"),
            "TMPDIR": str(machine.root / "tmp"),
            "PATH": os.pathsep.join([str(machine.python / "bin"), *_system_path()]),
        }

    def docker(self, environment: Mapping[str, str], *, privileged: bool) -> Path:
        """Return the folder with the program `docker`: a real one only in a privileged build."""
        if privileged and self._docker_folder is not None:
            return self._docker_folder(environment)
        return self._common_folder() / "bin"

    def remove(self, machine: Machine, build_id: str) -> None:
        """End every process that the build left behind, and remove its folders."""
        _end_processes_of(build_id)
        shim.remove_folder(machine.root)

    def close(self) -> None:
        """Remove everything."""
        if self._root is not None:
            shim.remove_folder(self._root)

    def _made_root(self) -> Path:
        with self._lock:
            if self._root is None:
                # Commands print paths: with links resolved they are the same everywhere.
                self._root = Path(tempfile.mkdtemp(prefix="localaws-builds-")).resolve()
            return self._root

    def _common_folder(self) -> Path:
        """Return what all builds share: packages to import, and a `docker` without a daemon."""
        root = self._made_root()
        with self._lock:
            if self._common is None:
                common = root / "common"
                (common / "packages").mkdir(parents=True)
                (common / "bin").mkdir()
                for name in _PROVIDED:
                    _link_package(name, common / "packages")
                _write_program(common / "bin" / "docker", f"#!/bin/sh\necho '{NO_DOCKER}' >&2\nexit 1\n")
                self._common = common
            return self._common


def _system_path() -> list[str]:
    """Return the search path without this program's own virtual environment."""
    ours = Path(sys.executable).parent
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [folder for folder in folders if folder and Path(folder) != ours]


def _link_package(name: str, folder: Path) -> None:
    """Link the files of an installed package, with what tells pip that it is there."""
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    tops = {file.parts[0] for file in package.files or () if file.parts[0] not in {"..", "__pycache__"}}
    for top in tops:
        (folder / top).symlink_to(Path(str(package.locate_file(top))))


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _end_processes_of(build_id: str) -> None:
    """Kill what left the process group; Linux tells it by the build's id among its variables."""
    mark = f"CODEBUILD_BUILD_ID={build_id}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
