"""uvicorn, with the way down that SageMaker needs: told to stop, finish, exit 0 before the kill.

A container gets SIGTERM, and SIGKILL 30 s later. In between, /ping and new requests answer 503, requests
that were taken may finish for DRAIN_S, the rest are answered 503, and the process exits within 25 s.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from semif_server.engine.engine import Engine
from semif_server.errors import SettingsError

DRAIN_S: Final = 20.0
_LAST_ANSWERS_S: Final = 2
_READERS: Final = 2  # threads that parse and tokenize
_READER_STACK_BYTES: Final = 8 * 1024 * 1024
_STACK_PER_BODY_BYTE: Final = 1024
_KEEP_ALIVE_S: Final = 75  # longer than what sits in front, so that it never meets a connection just closed


def bind(host: str, port: int) -> socket.socket:
    """Take the address, without listening yet. Raises SettingsError if it can't be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            on_failure.pop_all()
    except OSError as error:
        raise SettingsError(
            f"SEMIF_HOST={host!r}, SEMIF_PORT={port}: can't listen there: {error.strerror or error}."
        ) from None
    return bound


class DrainingServer(uvicorn.Server):
    """Serves until a signal or until the engine's thread has ended.

    on_listening is called once, when the first connection would be accepted. Requests are read by threads
    with a stack that grows with max_body_bytes: where a tokenizer's pattern is left to std::regex, llama.cpp
    recurses once per character (some 320 bytes each), and past the stack's end the process is gone.
    """

    def __init__(
        self, app: ASGIApp, engine: Engine, on_listening: Callable[[], None], *, max_body_bytes: int
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
        )
        self._engine = engine
        self._on_listening = on_listening
        self._reader_stack_bytes = _READER_STACK_BYTES + max_body_bytes * _STACK_PER_BODY_BYTE
        self._drain_until_s: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        threading.stack_size(self._reader_stack_bytes)  # reserved, not used up, by each thread from here on
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_READERS, "reader"))
        await super().startup(sockets)
        self._on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM, SIGINT: begin to drain. uvicorn would stop listening and then raise the signal again."""
        if self._drain_until_s is None:
            self._engine.close()
            self._drain_until_s = time.monotonic() + DRAIN_S

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: is it time to go?"""
        if self._engine.has_stopped:
            self.should_exit = True
        elif self._drain_until_s is not None and (
            self._engine.is_idle or time.monotonic() >= self._drain_until_s
        ):
            self._engine.abort()
            self.should_exit = True
        return await super().on_tick(counter)
