"""Images as folders: layers unpacked over one another, and what a configuration names."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

_HIDDEN = ".wh."
_OPAQUE = ".wh..wh..opq"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LayerError(Exception):
    """A layer cannot be unpacked."""


def unpack(layers: Iterable[Path], root: Path) -> None:
    """Unpack tar files, compressed or not, from the lowest to the highest into an empty folder.

    Raises:
        LayerError: a layer is no tar file, or has a path that leads out of the image.
    """
    for layer in layers:
        try:
            with tarfile.open(layer) as archive:
                _unpack_layer(archive, root)
        except (tarfile.TarError, OSError) as error:
            raise LayerError(f"{layer.name}: {error}") from error


def _unpack_layer(archive: tarfile.TarFile, root: Path) -> None:
    modes: list[tuple[Path, int]] = []
    for member in archive:
        name = PurePosixPath(member.name.lstrip("/"))
        place = _place(root, name)
        if name.name == _OPAQUE:
            for lower in place.parent.iterdir() if place.parent.is_dir() else ():
                _remove(lower)
        elif name.name.startswith(_HIDDEN):
            _remove(place.with_name(name.name.removeprefix(_HIDDEN)))
        elif not (member.ischr() or member.isblk() or member.isfifo()):
            if (place.is_symlink() or place.exists()) and not (member.isdir() and place.is_dir()):
                _remove(place)
            if member.isdir():
                modes.append((place, member.mode))
                member.mode |= 0o700
            if member.islnk():
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(
                    _place(root, PurePosixPath(member.linkname.lstrip("/"))), place, follow_symlinks=False
                )
                continue
            member.name = str(place.relative_to(root))
            # Owners are root's rights; whoever is not root owns all of it.
            archive.extract(member, root, numeric_owner=True, filter="fully_trusted")
    for place, mode in reversed(modes):
        place.chmod(mode)


def _place(root: Path, name: PurePosixPath) -> Path:
    """Return where a member lies, with links in its folder followed inside the image only."""
    folder = root
    for part in name.parent.parts:
        if part == "..":
            raise LayerError(f"{name}: leads out of the image")
        folder = folder / part
        for _ in range(40):
            if not folder.is_symlink():
                break
            target = folder.readlink()
            base = root if target.is_absolute() else folder.parent
            folder = Path(os.path.normpath(base / str(target).lstrip("/")))
    if not folder.is_relative_to(root) or name.name == "..":
        raise LayerError(f"{name}: leads out of the image")
    return folder / name.name


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def entry_point(config: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Return what `docker run IMAGE ARGUMENTS` starts: they take the place of CMD."""
    container = config.get("config") or {}
    return [*(container.get("Entrypoint") or []), *(arguments or container.get("Cmd") or [])]


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's variables before any of its user's: a search path, and those of the image."""
    pairs = [entry.partition("=") for entry in (config.get("config") or {}).get("Env") or []]
    return {"PATH": DEFAULT_PATH, "HOME": "/root", **{name: value for name, _, value in pairs}}
