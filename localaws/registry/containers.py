"""Command lines that run a program in an image's root file system. Only the standard library."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localaws.registry import chroot


def command(
    root: Path,
    config: Mapping[str, Any],
    argv: Sequence[str],
    environment: Mapping[str, str],
    binds: Sequence[tuple[Path, str]] = (),
    *,
    read_only: bool = True,
) -> list[str]:
    """Return the command line that runs `argv` with exactly `environment` in an unpacked image.

    `config` is the image's configuration, for its folder and user; `binds` are read-only.
    """
    container = config.get("config") or {}
    spec = {
        "root": str(root),
        "argv": list(argv),
        "environment": dict(environment),
        "working_dir": container.get("WorkingDir") or "",
        "user": container.get("User") or "",
        "read_only": read_only,
        "binds": [[str(outside), inside] for outside, inside in binds],
    }
    # Mounts are root's; anyone else is root in a namespace of the user's own.
    prefix = [] if os.geteuid() == 0 else ["buildah", "unshare"]
    return [*prefix, sys.executable, "-I", "-S", chroot.__file__, json.dumps(spec)]
