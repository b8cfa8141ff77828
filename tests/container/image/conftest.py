"""Images that the tests here share: each is built once."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.standins.fixtures import stand_in_images
from tests.standins.images import StandIns
from tests.standins.running import Saved, save, unpack
from tests.standins.storage import build_image, buildah, buildah_root
from tools.setup import ROOT

CONTAINER = ROOT / "container"
FITTING = "requirements-bindings-cuda.txt"

__all__ = ["stand_in_images"]


@dataclass(frozen=True)
class Built:
    """A built image: what the build printed, its blobs, its base's, and its files."""

    log: str
    saved: Saved
    base: Saved
    root: Path


def tag_of(name: str) -> str:
    """A tag that no other run has."""
    return f"semif.invalid/{name}:test-{os.getpid()}"


def build(name: str, dockerfile: str, base: str, python: str, **build_args: str) -> str:
    """Build under a name; what the build printed."""
    return build_image(
        CONTAINER,
        dockerfile=CONTAINER / dockerfile,
        tag=tag_of(name),
        build_args={"BASE_IMAGE": base, "PYTHON_IMAGE": python, **build_args},
    )


def built(name: str, dockerfile: str, base: str, python: str, **build_args: str) -> Iterator[Built]:
    """Build, unpack, and remove all of it at the end."""
    folder = Path(mkdtemp(dir=buildah_root()))
    try:
        log = build(name, dockerfile, base, python, **build_args)
        saved = save(tag_of(name), folder / "image", compress=False)
        unpack(saved, folder / "root")
        yield Built(log, saved, save(base, folder / "base", compress=False), folder / "root")
        buildah("rmi", tag_of(name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def gpu_image(stand_in_images: StandIns) -> Iterator[Built]:
    """Dockerfile.gpu with its own pins, on the base with a fitting Python."""
    yield from built("gpu", "Dockerfile.gpu", stand_in_images.base, stand_in_images.python)


@pytest.fixture(scope="session")
def image_with_interpreter(stand_in_images: StandIns) -> Iterator[Built]:
    """Dockerfile with the bindings that fit the stand-in, on the base without any Python."""
    images = stand_in_images
    yield from built("cpu", "Dockerfile", images.base_without_python, images.python, BINDINGS=FITTING)
