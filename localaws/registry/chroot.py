"""A program in a root file system, run as a script of its own: ``python -I -S chroot.py SPEC``.

SPEC is a JSON object: `root`, `argv`, `environment`, `working_dir`, `user` ("", "UID[:GID]" or a name of the
root's /etc/passwd), `read_only`, and `binds`, a list of [folder outside, folder inside], each read-only.
Mounts lie in a namespace of this process's own and end with it. The program takes this process's place: its
process group, its output, the machine's network. 127: it could not be started.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CANNOT_START = 127
_NEW_MOUNTS = 0x00020000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_FILES = ("/etc/resolv.conf", "/etc/hosts")

_libc = ctypes.CDLL(None, use_errno=True)


def enter(spec: Mapping[str, Any]) -> None:
    """Make the root file system this process's. Raises OSError."""
    root = Path(spec["root"]).resolve()
    _check(_libc.unshare(_NEW_MOUNTS), "a mount namespace")
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)
    _mount(root, root, _BIND)
    for folder in ("proc", "sys", "dev", "tmp"):
        _inside(root, folder).mkdir(parents=True, exist_ok=True)
    targets = [(Path(outside), _inside(root, inside)) for outside, inside in spec["binds"]]
    for outside, target in targets:
        _make_target(outside, target)
    files = [(Path(name), _inside(root, name)) for name in _FILES if Path(name).exists()]
    for outside, target in files:
        _make_target(outside, target)
    if spec["read_only"]:
        _mount(None, root, _BIND | _REMOUNT | _READ_ONLY)
    for folder in ("proc", "sys"):
        _mount(Path("/", folder), _inside(root, folder), _BIND | _RECURSIVE)
    _make_devices(_inside(root, "dev"))
    for outside, target in [*targets, *files]:
        _mount(outside, target, _BIND)
        _mount(None, target, _BIND | _REMOUNT | _READ_ONLY)
    os.chroot(root)
    os.chdir(spec["working_dir"] or "/")


def _make_devices(dev: Path) -> None:
    _mount("tmpfs", dev, 0, "tmpfs")
    for name in _DEVICES:
        (dev / name).touch()
        _mount(Path("/dev", name), dev / name, _BIND)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    (dev / "shm").mkdir(mode=0o1777)
    _mount("tmpfs", dev / "shm", 0, "tmpfs")


def _make_target(outside: Path, target: Path) -> None:
    if outside.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _inside(root: Path, name: str) -> Path:
    """The place of a path in the root file system, whose own links must not lead out of it."""
    place = (root / name.lstrip("/")).resolve()
    if not place.is_relative_to(root):
        raise OSError(f"{name} leads out of the image by a link")
    return place


def _mount(source: Path | str | None, target: Path, flags: int, kind: str | None = None) -> None:
    named = None if source is None else str(source).encode()
    status = _libc.mount(named, str(target).encode(), kind and kind.encode(), ctypes.c_ulong(flags), None)
    _check(status, f"mounting {target}")


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become(user: str) -> None:
    """Take a user's ids, which the root file system's /etc/passwd gives for a name."""
    name, _, group = user.partition(":")
    if not name:
        return
    if not name.isdecimal():
        entries = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines()]
        found = next((entry for entry in entries if entry[0] == name), None)
        if found is None:
            raise OSError(f"the image has no user {name}")
        name, group = found[2], group or found[3]
    os.setgroups([])
    os.setgid(int(group or 0))
    os.setuid(int(name))


def main(spec: Mapping[str, Any]) -> None:
    """Run the program in this process's place."""
    argv = spec["argv"]
    try:
        enter(spec)
        become(spec["user"])
        os.execvpe(argv[0], argv, spec["environment"])  # noqa: S606 - the image's own program
    except (OSError, ValueError) as error:
        print(f"cannot start {argv[0]!r}: {error}", file=sys.stderr, flush=True)
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
