"""The storage of a local AWS: its own, gone with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from localaws.registry.buildah import OwnStorage, buildah_root

DIES = """
import os
from localaws.registry.buildah import OwnStorage
print(OwnStorage().storage.folder, flush=True)
os._exit(1)
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMIF_BUILDAH_ROOT", str(tmp_path / "buildah"))


def test_only_ones_own_storage_goes(tmp_path: Path) -> None:
    shared = buildah_root() / "storage" / "image"
    shared.mkdir(parents=True)
    one, other = OwnStorage(), OwnStorage()
    one.close()
    assert not one.storage.folder.exists()
    assert other.storage.folder.exists()
    other.close()
    assert shared.exists()


def test_what_a_killed_local_aws_left_goes_with_the_next() -> None:
    living = OwnStorage()
    left = subprocess.run([sys.executable, "-c", DIES], capture_output=True, text=True, check=False)
    folder = Path(left.stdout.strip())
    assert folder.exists()
    next_one = OwnStorage()
    assert not folder.exists()
    assert living.storage.folder.exists()
    living.close()
    next_one.close()
