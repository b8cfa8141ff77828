"""buildah with image storage of the project's own, so that nothing of the user's is touched.

The storage lies in ``$SEMIF_BUILDAH_ROOT``, by default in the user's cache. The vfs driver needs no kernel
module and no user namespace, and copies every layer, so images here are kept small.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from localaws.registry.buildah import NOT_PROVEN, buildah_root, host_mounts


class ImageError(Exception):
    """An image can't be built or run. The message is the end of what buildah said."""


def has_buildah() -> bool:
    """Whether images can be built on this machine."""
    return shutil.which("buildah") is not None


def buildah_command(*arguments: str | Path) -> list[str]:
    """A buildah command line on the project's storage."""
    root = buildah_root()
    return [
        *(
            "buildah",
            "--storage-driver",
            "vfs",
            "--root",
            str(root / "storage"),
            "--runroot",
            str(root / "run"),
        ),
        *(str(argument) for argument in arguments),
    ]


def buildah_environment() -> dict[str, str]:
    """The environment of a buildah process; its temporary files lie in the project's storage too."""
    temporary = buildah_root() / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "TMPDIR": str(temporary), "BUILDAH_ISOLATION": "chroot"}


def buildah(*arguments: str | Path) -> str:
    """Run buildah and give what it printed. Raises ImageError with the end of its output."""
    done = subprocess.run(
        buildah_command(*arguments),
        env=buildah_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-6000:]
        raise ImageError(f"`buildah {arguments[0]}` ended with {done.returncode}:\n{said}")
    return done.stdout


def build_image(
    context: Path,
    *,
    dockerfile: Path,
    tag: str,
    build_args: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> str:
    """Build an image as CodeBuild would and give all that the build printed. Raises ImageError."""
    arguments = [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
    options = [f"--tag={tag}", f"--file={dockerfile}", *arguments, *host_mounts(), *flags]
    how = ("--format=docker", "--pull-never", "--isolation=chroot")
    done = subprocess.run(
        buildah_command("build", *how, *options, context),
        env=buildah_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(done.stdout)
    return done.stdout


def digest_of(reference: str) -> str:
    """The digest of an image's manifest, `sha256:…`. Raises ImageError if there is no such image."""
    return buildah("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", reference).strip()


__all__ = [
    "NOT_PROVEN",
    "ImageError",
    "build_image",
    "buildah",
    "buildah_command",
    "buildah_environment",
    "buildah_root",
    "digest_of",
    "has_buildah",
]
