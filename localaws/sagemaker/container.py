"""One container: a process on 127.0.0.1 under a shim, with a private folder and an environment of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from localaws.registry import containers, root_file_system
from localaws.registry.docker.fallback_engine import CONTEXT
from localaws.sagemaker import shim
from localaws.sagemaker.images import Image, RootImage

MODEL_DIR = "/opt/ml/model"
HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the range from which systems take ports for outgoing connections."""
_CLOSE_S = 5.0

_reserved: set[int] = set()
_reserved_lock = threading.Lock()


def environment(image: Image, model: Mapping[str, str], port: int, folder: Path) -> dict[str, str]:
    """Return the process's whole environment: nothing of ours but the search path and the language.

    The model's variables win over the image's, and the image's `bind` over both. A value that points into
    /opt/ml/model is moved into `folder`.
    """
    model_dir = str(folder / "model")
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(folder / "home"),
        **image.environment,
        **model,
    }
    moved = {
        name: model_dir + value.removeprefix(MODEL_DIR)
        if value == MODEL_DIR or value.startswith(f"{MODEL_DIR}/")
        else value
        for name, value in variables.items()
    }
    bound = {image.host_variable: HOST, image.port_variable: str(port), image.model_dir_variable: model_dir}
    return moved | {name: value for name, value in bound.items() if name}


def command(
    image: Image | RootImage, model: Mapping[str, str], port: int, folder: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the command line to start, and its whole environment."""
    if isinstance(image, Image):
        return [*image.command, "serve"], environment(image, model, port, folder)
    bound = {"SEMIF_HOST": HOST, "SEMIF_PORT": str(port)}
    if image.unproven:
        standing = Image(
            image.resolved,
            (sys.executable, "-m", "semif_server"),
            {"PYTHONPATH": str(image.root / CONTEXT)},
            *("SEMIF_HOST", "SEMIF_PORT", "SEMIF_MODEL_DIR"),
        )
        return [*standing.command, "serve"], environment(standing, model, port, folder)
    variables = {**root_file_system.variables(image.config), **model, **bound}
    argv = root_file_system.entry_point(image.config, ["serve"])
    binds = [(folder / "model", MODEL_DIR)]
    # The program's variables are in the command line; these are the machine's, for what starts it.
    outside = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_RUNTIME_DIR") if name in os.environ}
    return containers.command(image.root, image.config, argv, variables, binds), outside


class Container:
    """A started container. `folder` holds ``model`` and ``home`` and is removed when the container ends."""

    def __init__(
        self, image: Image | RootImage, model_environment: Mapping[str, str], folder: Path, grace_s: float
    ) -> None:
        self.port = _reserve_port()
        self.folder = folder
        self._grace_s = grace_s
        home = folder / "home"
        home.mkdir()
        started, variables = command(image, model_environment, self.port, folder)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", shim.__file__, str(grace_s), str(folder), *started],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=variables,
            start_new_session=True,
        )

    @property
    def output(self) -> IO[bytes]:
        """Standard output and error of the process, to be drained by the owner."""
        if self._process.stdout is None:
            raise RuntimeError("the container was started without a pipe")
        return self._process.stdout

    @property
    def exit_code(self) -> int | None:
        """None while it runs; `shim.CANNOT_START` if the program could not be started."""
        return self._process.poll()

    def ping(self, timeout_s: float) -> bool:
        """Say whether /ping answers 200 within `timeout_s`."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """SIGTERM, SIGKILL after the grace time, and the folder removed. Returns when the process is gone."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(self._grace_s + _CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shim.remove_folder(self.folder)
        with _reserved_lock:
            _reserved.discard(self.port)


def _reserve_port() -> int:
    with _reserved_lock:
        while True:
            port = secrets.choice(_PORTS)
            if port in _reserved:
                continue
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
                _reserved.add(port)
                return port
