"""An image's layers on disk, their sizes, and its program started as SageMaker starts it."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from localaws.registry import containers, root_file_system
from tests.standins.storage import ImageError, buildah, buildah_environment

DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Saved:
    """An image as a registry would hold it: `folder` has its manifest and its blobs by SHA-256."""

    folder: Path
    manifest: dict[str, Any]
    config: dict[str, Any]

    def layers(self) -> list[Path]:
        """The layers' files, the lowest first."""
        return [self.folder / layer["digest"].partition(":")[2] for layer in self.manifest["layers"]]

    def added_bytes(self, base: Saved) -> tuple[int, int]:
        """What the layers above those of `base` weigh: as they are, and unpacked."""
        known = set(base.config["rootfs"]["diff_ids"])
        pairs = zip(self.layers(), self.config["rootfs"]["diff_ids"], strict=True)
        added = [path for path, diff_id in pairs if diff_id not in known]
        return sum(path.stat().st_size for path in added), sum(map(_unpacked_bytes, added))


def save(reference: str, folder: Path, *, compress: bool) -> Saved:
    """Write an image's manifest and blobs into an empty folder, in the form that SageMaker takes."""
    flags = [] if compress else ["--disable-compression"]
    buildah("push", "--quiet", "--format", "v2s2", *flags, reference, f"dir:{folder}")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    config = json.loads((folder / manifest["config"]["digest"].partition(":")[2]).read_bytes())
    return Saved(folder, manifest, config)


def _unpacked_bytes(layer: Path) -> int:
    with layer.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return layer.stat().st_size
    total = 0
    with gzip.open(layer) as stream:
        while block := stream.read(1 << 20):
            total += len(block)
    return total


@dataclass(frozen=True, slots=True)
class Running:
    """A started image. `output`: the file that it writes to."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    def request(self, path: str, body: object | None = None) -> tuple[int, Any]:
        """GET, or POST with a JSON body: status and JSON answer. Raises OSError if nothing answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def wait_for_ping(self) -> None:
        """Until /ping answers 200. Raises ImageError if the program ends or time runs out before."""
        deadline_s = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < deadline_s:
            try:
                if self.request("/ping")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise ImageError(f"no 200 from /ping (exit code {self.process.poll()}): {self.output.read_text()}")


def unpack(saved: Saved, root: Path) -> None:
    """Unpack an image's layers into a root file system."""
    root.mkdir()
    root_file_system.unpack(saved.layers(), root)


def serve_command(saved: Saved, root: Path, *, model: Path, environment: Mapping[str, str]) -> list[str]:
    """`docker run --read-only -v model:/opt/ml/model:ro IMAGE serve`, with no other variables than these."""
    return containers.command(
        root,
        saved.config,
        root_file_system.entry_point(saved.config, ["serve"]),
        {**root_file_system.variables(saved.config), **environment},
        [(model, "/opt/ml/model")],
    )


@contextmanager
def running(saved: Saved, root: Path, *, model: Path, environment: Mapping[str, str]) -> Iterator[Running]:
    """The image's server on a free port of 127.0.0.1; stopped at the end. The caller waits for /ping."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The machine's network is the container's: its own address and port replace 0.0.0.0:8080.
    where = {"SEMIF_HOST": "127.0.0.1", "SEMIF_PORT": str(port)}
    command = serve_command(saved, root, model=model, environment={**environment, **where})
    with tempfile.NamedTemporaryFile(suffix=".log") as output:
        process = subprocess.Popen(
            command, env=buildah_environment(), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield Running(process, port, Path(output.name))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def remove(folder: Path) -> None:
    """Remove an unpacked image."""
    shutil.rmtree(folder, ignore_errors=True)
