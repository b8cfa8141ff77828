"""Blobs of pushed images, by digest, and the images that are unpacked to run."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from localaws.registry import root_file_system
from localaws.registry.manifests import digest_of


class Blobs:
    """Blobs in a folder that the local AWS removes at its end. Safe for threads."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self._roots = folder / "roots"
        self._roots_lock = threading.Lock()
        for made in (self._blobs, self._roots):
            made.mkdir()

    def path(self, digest: str) -> Path:
        """Return where a blob lies or would lie."""
        return self._blobs / digest.removeprefix("sha256:")

    def take(self, manifest: Mapping[str, Any], folder: Path) -> None:
        """Take a manifest's blobs out of a folder of skopeo's layout `dir:`.

        Raises:
            FileNotFoundError: a blob is missing.
        """
        for digest in _digests(manifest):
            found = folder / digest.removeprefix("sha256:")
            if not self.path(digest).exists():
                found.chmod(0o444)
                _link(found, self.path(digest))

    def lay_out(self, text: str, folder: Path) -> None:
        """Write an image in skopeo's layout `dir:` into a folder; its blobs stay the registry's."""
        for digest in _digests(json.loads(text)):
            _link(self.path(digest), folder / digest.removeprefix("sha256:"))
        (folder / "version").write_text("Directory Transport Version: 1.1\n")
        (folder / "manifest.json").write_text(text)

    def config(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return an image's configuration, None unless all its blobs were pushed here."""
        if not all(self.path(digest).exists() for digest in _digests(manifest)):
            return None
        found: dict[str, Any] = json.loads(self.path(manifest["config"]["digest"]).read_bytes())
        return found

    def root(self, text: str) -> Path:
        """Return the root file system of a manifest, unpacked once.

        Raises:
            LayerError: a layer cannot be unpacked.
        """
        root = self._roots / digest_of(text.encode()).removeprefix("sha256:")
        with self._roots_lock:
            if not root.exists():
                fresh = Path(tempfile.mkdtemp(dir=self._roots))
                fresh.chmod(0o755)
                layers = [self.path(layer["digest"]) for layer in json.loads(text)["layers"]]
                root_file_system.unpack(layers, fresh)
                fresh.rename(root)
        return root


def _digests(manifest: Mapping[str, Any]) -> Iterable[str]:
    return [manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it across file systems."""
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        shutil.copyfile(source, target)
