"""The three stand-in images, kept in the project's image storage by the content of their recipe.

python -m tests.standins.images     makes what is missing and prints NAME@sha256:… of each
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tests.standins import root_file_systems
from tests.standins.storage import ImageError, build_image, buildah_root, digest_of
from tools.setup import ROOT, pinned, say, wheel_key

# `.invalid` exists nowhere: a build that tries to pull one of these fails at once.
REGISTRY = "standin.invalid"
_RUN = 'ENV PATH="/var/lang/bin:/usr/local/bin:/usr/bin:/bin"'
_SERVER = 'ENTRYPOINT ["/usr/local/bin/llama-server-of-aws"]\nCMD ["--port", "8080"]'


@dataclass(frozen=True, slots=True)
class StandIns:
    """References by digest, as `FROM` takes them."""

    base: str
    """AWS's container with a fitting Python."""
    base_without_python: str
    """The same without any Python."""
    python: str
    """The image that the interpreter comes from."""


def stand_ins() -> StandIns:
    """The stand-ins, made first where they are missing. Raises ImageError."""
    with _alone():
        record = buildah_root() / f"standins-{_recipe()[:16]}.json"
        if record.exists():
            known = StandIns(**json.loads(record.read_text()))
            if _are_there(known):
                return known
        made = _make()
        record.write_text(json.dumps(asdict(made), indent=2) + "\n")
        return made


def _make() -> StandIns:
    packages = root_file_systems.download_packages()
    say("making the stand-in images (about 20 s), once per machine")
    with tempfile.TemporaryDirectory(dir=buildah_root()) as folder:
        roots = {name: Path(folder) / name for name in ("base", "bare", "python")}
        root_file_systems.write_base(roots["base"], packages, python=True)
        root_file_systems.write_base(roots["bare"], packages, python=False)
        root_file_systems.write_interpreter(roots["python"], packages)
        return StandIns(
            base=_commit("llama-cpp", roots["base"], _SERVER),
            base_without_python=_commit("llama-cpp-bare", roots["bare"], _SERVER),
            python=_commit("python", roots["python"], 'CMD ["/bin/sh"]'),
        )


def _commit(name: str, root: Path, command: str) -> str:
    dockerfile = root.parent / f"{name}.Dockerfile"
    dockerfile.write_text(f"FROM scratch\nCOPY . /\n{_RUN}\n{command}\n")
    tag = f"{REGISTRY}/{name}:{_recipe()[:16]}"
    # A fixed time makes the same files the same digest.
    build_image(root, dockerfile=dockerfile, tag=tag, flags=("--timestamp", "0"))
    return f"{REGISTRY}/{name}@{digest_of(tag)}"


def _are_there(images: StandIns) -> bool:
    try:
        for reference in asdict(images).values():
            digest_of(reference)
    except ImageError:
        return False
    return True


def _recipe() -> str:
    """SHA-256 of all that the stand-ins are made from."""
    sources = [Path(__file__), Path(root_file_systems.__file__)]
    pin = pinned(ROOT / "requirements-server.txt", "llama-cpp-python")
    parts = [*(path.read_bytes() for path in sources), wheel_key(pin).encode(), version("pip").encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time makes the stand-ins."""
    buildah_root().mkdir(parents=True, exist_ok=True)
    with (buildah_root() / "standins.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        for name, reference in asdict(stand_ins()).items():
            print(f"{name} {reference}")
    except ImageError as error:
        sys.exit(f"error: STANDINS_NOT_MADE: {error}")
