"""buildah on image storage of this local AWS's own; images that others made in the shared one are read.

Only the standard library: the `docker` of a build imports this.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

NOT_PROVEN = "image build not proven here: install buildah (Debian and Ubuntu: apt-get install buildah)"
_CACHE = "buildah-cache"
"""What buildah calls the folder for `RUN --mount=type=cache`."""
_HOST_SETTINGS = ("/etc/ssl/certs", "/etc/pip.conf", "/etc/xdg/pip")


def buildah_root() -> Path:
    """Return the folder of all image storage: ``$SEMIF_BUILDAH_ROOT``, by default in the user's cache."""
    named = os.environ.get("SEMIF_BUILDAH_ROOT")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "semif-sagemaker" / "buildah"


class Storage:
    """Where one local AWS keeps images: `folder` for what it makes, `shared` for what it only reads."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder = folder
        self.shared = shared

    def command(self, *arguments: str) -> list[str]:
        """Return a buildah command line on this storage."""
        # An additional store must be there, and may be empty.
        self.shared.mkdir(parents=True, exist_ok=True)
        self._make_temporary()
        storage, run = self.folder / "storage", self.folder / "run"
        where = ["--storage-driver", "vfs", "--root", str(storage), "--runroot", str(run)]
        return ["buildah", *where, "--storage-opt", f"vfs.imagestore={self.shared}", *arguments]

    def environment(self) -> dict[str, str]:
        """Return buildah's environment; its temporary files lie in this storage too."""
        return {**os.environ, "TMPDIR": str(self.folder / "tmp"), "BUILDAH_ISOLATION": "chroot"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run buildah with its output kept; the caller judges how it ended."""
        command = self.command(*arguments)
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)

    def _make_temporary(self) -> None:
        """Make this storage's folder of temporary files; caches of RUN steps in it are everyone's."""
        cache = self.shared.parent / "tmp" / _CACHE
        cache.mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (self.folder / "tmp" / _CACHE).symlink_to(cache)

    def remove(self) -> None:
        """Remove all images and containers of this storage; those of the shared one stay."""
        if os.geteuid() != 0 and shutil.which("buildah"):
            # Files in it belong to other users of this user's namespace.
            self.run("unshare", "rm", "-rf", str(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


def host_mounts() -> list[str]:
    """Return the flags that let RUN steps reach the network as this machine does."""
    return [f"--volume={path}:{path}:ro" for path in _HOST_SETTINGS if Path(path).exists()]


class OwnStorage:
    """The storage of one local AWS for as long as it lives; what others left that died is removed."""

    def __init__(self) -> None:
        root = buildah_root()
        instances = root / "localaws"
        instances.mkdir(parents=True, exist_ok=True)
        with (root / "localaws.lock").open("w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            for left in instances.iterdir():
                _remove_if_left(left, root / "storage")
            folder = Path(tempfile.mkdtemp(dir=instances))
            self._lock = (folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.storage = Storage(folder, root / "storage")

    def close(self) -> None:
        """Remove the storage."""
        self.storage.remove()
        self._lock.close()


def _remove_if_left(folder: Path, shared: Path) -> None:
    with _opened(folder / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        Storage(folder, shared).remove()


def _opened(path: Path) -> IO[str]:
    path.touch()
    return path.open("w")


@functools.cache
def can_build() -> bool:
    """Whether buildah is there and runs a program in a container; tried once."""
    if shutil.which("buildah") is None:
        return False
    with tempfile.TemporaryDirectory(prefix="localaws-probe-") as folder:
        storage = Storage(Path(folder) / "own", Path(folder) / "shared")
        made = storage.run("from", "--pull-never", "scratch")
        links = [f"--volume={path}:{path}:ro" for path in ("/usr", "/lib", "/lib64") if Path(path).exists()]
        program = shutil.which("true") or "/usr/bin/true"
        ran = storage.run("run", "--isolation", "chroot", *links, made.stdout.strip(), "--", program)
        storage.remove()
        return made.returncode == 0 and ran.returncode == 0
