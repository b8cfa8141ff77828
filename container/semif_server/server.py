"""uvicorn, with the way up and down that SageMaker needs.

Up: it listens, and is ready once a warm-up decision has run. Down: a container gets SIGTERM, and SIGKILL
30 s later. In between, /ping and new requests answer 503, requests that were taken may finish for DRAIN_S,
the rest are answered 503, no connection is reset, and the process exits within 25 s.
"""

import asyncio
import contextlib
import ctypes
import functools
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from semif_server.connection import DrainingConnection
from semif_server.engine.engine import Engine
from semif_server.errors import SettingsError

DRAIN_S: Final = 20.0
_LAST_CONNECTIONS_S: Final = 0.05
_LAST_ANSWERS_S: Final = 1.5
_CANCELLED_S: Final = 0.5
_POLL_S: Final = 0.01
_SO_ATTACH_FILTER: Final = 26  # Linux; Python's socket module has no name for it
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)  # a classic BPF program: return 0
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

    warm_up runs in a thread once /ping can be asked, then the engine is opened and on_ready is called; what
    warm_up raises ends the server and is raised by run. Requests are read by threads with a stack that grows
    with max_body_bytes: where a tokenizer's pattern is left to std::regex, llama.cpp recurses once per
    character (some 320 bytes each), and past the stack's end the process is gone.
    """

    def __init__(
        self,
        app: ASGIApp,
        engine: Engine,
        warm_up: Callable[[], None],
        on_ready: Callable[[], None],
        *,
        max_body_bytes: int,
    ) -> None:
        http: Any = functools.partial(DrainingConnection, is_draining=lambda: engine.is_closing)
        super().__init__(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                interface="asgi3",
                proxy_headers=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
            )
        )
        self._engine = engine
        self._warm_up = warm_up
        self._on_ready = on_ready
        self._warming: asyncio.Task[None] | None = None
        self._start_error: BaseException | None = None
        self._reader_stack_bytes = _READER_STACK_BYTES + max_body_bytes * _STACK_PER_BODY_BYTE
        self._drain_until_s: float | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve to the end. Raises what the warm-up raised."""
        super().run(sockets)
        if self._start_error is not None:
            raise self._start_error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and to warm up."""
        threading.stack_size(self._reader_stack_bytes)  # reserved, not used up, by each thread from here on
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_READERS, "reader"))
        await super().startup(sockets)
        self._warming = asyncio.create_task(self._become_ready())

    async def _become_ready(self) -> None:
        try:
            await asyncio.to_thread(self._warm_up)
        except Exception as error:
            if not self._engine.is_closing and not self._engine.has_stopped:
                self._start_error = error
            self.should_exit = True
            return
        self._engine.open()
        if self._engine.is_ready:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM, SIGINT: begin to drain. uvicorn would stop listening and then raise the signal again."""
        if self._drain_until_s is None:
            self._drain_until_s = time.monotonic() + DRAIN_S
            self._engine.close()

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what has come, let the connections go, and end.

        In place of uvicorn's, which resets connections that are not accepted yet or whose next request is
        on its way.
        """
        self._engine.close()
        for listener in sockets or []:
            _refuse_connections(listener)
        await asyncio.sleep(_LAST_CONNECTIONS_S)  # asyncio accepts and reads what came before
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, DrainingConnection):
                connection.leave()
        tasks, give_up_s = self.server_state.tasks, time.monotonic() + _LAST_ANSWERS_S
        while (self.server_state.connections or tasks) and time.monotonic() < give_up_s:
            await asyncio.sleep(_POLL_S)
        slow = list(tasks)  # senders of bodies that do not end
        for task in slow:
            task.cancel()
        if slow:
            await asyncio.wait(slow, timeout=_CANCELLED_S)
        await self.lifespan.shutdown()


def _refuse_connections(listener: socket.socket) -> None:
    """Make the kernel ignore new connections, so that none is established when the listener closes.

    Closing resets what is established and not accepted. Where the kernel has no such filter, that remains
    possible for the moment between the last accept and the close.
    """
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
    with contextlib.suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program))
        )
