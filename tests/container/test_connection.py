"""The wire, byte for byte: a real server on a socket in front of a small app, which tests hold back."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from semif_server import connection, server
from semif_server.server import DrainingServer, bind

GET = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"


class Engine:
    """What a server asks of the engine."""

    def __init__(self) -> None:
        self.is_closing = False
        self.has_stopped = False
        self.is_idle = True
        self.is_ready = False

    def open(self) -> None:
        """Ready from now on."""
        self.is_ready = True

    def close(self) -> None:
        """Drain from now on."""
        self.is_closing = True

    def abort(self) -> None:
        """Nothing runs here."""


class Bench:
    """A server with an app that answers 200, or 503 while it drains, once it is let."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.let = asyncio.Event()
        self.let.set()
        self.listener = bind("127.0.0.1", 0)
        self.address = self.listener.getsockname()
        self.writers: list[asyncio.StreamWriter] = []
        engine: Any = self.engine
        self.server = DrainingServer(self.answer, engine, lambda: None, lambda: None, max_body_bytes=1024)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The app."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await self.let.wait()
        status = 503 if self.engine.is_closing else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}", "more_body": False})

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client's connection."""
        reader, writer = await asyncio.open_connection(*self.address)
        self.writers.append(writer)
        return reader, writer

    def drain(self) -> None:
        """As on SIGTERM."""
        self.server.handle_exit(15, None)


@asynccontextmanager
async def running() -> AsyncIterator[Bench]:
    bench = Bench()
    serving = asyncio.create_task(bench.server.serve([bench.listener]))
    while not bench.engine.is_ready:
        await asyncio.sleep(0.01)
    try:
        yield bench
    finally:
        bench.let.set()
        bench.engine.is_idle = True
        bench.drain()
        await serving
        for writer in bench.writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """The next response: status, headers, body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def test_an_open_connection_is_answered_through_the_drain_and_told_to_go() -> None:
    async def test() -> None:
        async with running() as bench:
            bench.engine.is_idle = False  # somebody's request still runs
            reader, writer = await bench.connect()
            writer.write(GET)
            status, headers, _ = await answer_of(reader)
            assert (status, headers.get("connection")) == (200, None)
            bench.drain()
            await asyncio.sleep(0.3)
            writer.write(GET)
            status, headers, _ = await answer_of(reader)
            assert (status, headers["connection"]) == (503, "close")
            assert await reader.read() == b"", "closed by FIN"

    asyncio.run(test())


def test_pipelined_requests_are_all_answered_and_the_last_answer_closes() -> None:
    async def test() -> None:
        async with running() as bench:
            bench.let.clear()
            reader, writer = await bench.connect()
            writer.write(GET * 3)
            await asyncio.sleep(0.1)
            bench.drain()
            await asyncio.sleep(0.3)
            bench.let.set()
            answers = [await answer_of(reader) for _ in range(3)]
            assert [status for status, _, _ in answers] == [503] * 3
            assert [headers.get("connection") for _, headers, _ in answers] == [None, None, "close"]
            assert await reader.read() == b""

    asyncio.run(test())


def test_what_was_connected_and_not_accepted_is_answered_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with running() as bench:
            address = bench.address
            monkeypatch.setattr(server, "_LAST_CONNECTIONS_S", 0.2)
            late: list[socket.socket] = []
            shutdown = bench.server.shutdown

            async def connect_first(sockets: Any = None) -> None:
                # In this turn of the loop: established by the kernel, and nobody has accepted them.
                for _ in range(20):
                    late.append(socket.create_connection(address, timeout=5))
                    late[-1].sendall(GET)
                await shutdown(sockets)

            monkeypatch.setattr(bench.server, "shutdown", connect_first)
            bench.drain()
            while len(late) < 20:
                await asyncio.sleep(0.01)
            for one in late:
                answer = await asyncio.to_thread(one.makefile("rb").read)
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"connection: close" in answer
                one.close()

    asyncio.run(test())


def test_a_connection_that_got_its_answer_just_now_may_ask_once_more() -> None:
    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            writer.write(GET)
            await answer_of(reader)
            bench.drain()
            await asyncio.sleep(0.3)  # the listener is closed, and this connection is not
            writer.write(GET)
            status, headers, _ = await answer_of(reader)
            assert (status, headers["connection"]) == (503, "close")

    asyncio.run(test())


def test_half_a_head_is_answered_at_the_end() -> None:
    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            writer.write(GET[:20])
            await asyncio.sleep(0.1)
            bench.drain()
            status, headers, body = await answer_of(reader)
            assert (status, headers["connection"]) == (503, "close")
            assert json.loads(body)["error"]["code"] == "shutting_down"
            assert headers["retry-after"] == "1"

    asyncio.run(test())


@pytest.mark.parametrize("sent", [GET[:20], GET + GET[:20]])
def test_a_head_must_end_in_time(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "SENDER_S", 0.2)

    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            writer.write(sent)
            if sent.startswith(GET):
                assert (await answer_of(reader))[0] == 200
            status, headers, body = await answer_of(reader)
            assert (status, headers["connection"]) == (408, "close")
            assert json.loads(body)["error"]["code"] == "request_timeout"
            assert await reader.read() == b""

    asyncio.run(test())


def test_a_body_that_nobody_reads_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SENDER_S", 0.3)

    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            assert (await answer_of(reader))[0] == 200
            ended = asyncio.create_task(reader.read())
            while not ended.done():
                writer.write(b" ")
                await asyncio.sleep(0.02)
            assert isinstance(ended.exception(), ConnectionResetError | None)

    asyncio.run(test())


def test_a_pause_between_requests_is_no_slow_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SENDER_S", 0.1)

    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            await asyncio.sleep(0.3)
            for _ in range(2):
                writer.write(GET)
                assert (await answer_of(reader))[0] == 200
                await asyncio.sleep(0.3)

    asyncio.run(test())


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02", b"SECRET SECRET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_http_is_answered_like_every_error(sent: bytes) -> None:
    async def test() -> None:
        async with running() as bench:
            reader, writer = await bench.connect()
            writer.write(sent + b"\r\n\r\n")
            status, headers, body = await answer_of(reader)
            assert (status, headers["content-type"]) == (400, "application/json")
            assert json.loads(body)["error"]["code"] == "invalid_http"
            assert b"SECRET" not in body

    asyncio.run(test())


def test_a_client_that_resets_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with running() as bench:
            for sent in (b"", GET[:20], GET, GET * 2):
                bench.let.clear()
                _, writer = await bench.connect()
                writer.write(sent)
                await asyncio.sleep(0.05)
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                bench.let.set()
            while bench.server.server_state.connections:
                await asyncio.sleep(0.01)

    asyncio.run(test())


def test_what_the_warm_up_raises_ends_the_server() -> None:
    def fail() -> None:
        raise ValueError("the warm-up failed")

    bench = Bench()
    engine: Any = bench.engine
    server = DrainingServer(bench.answer, engine, fail, lambda: pytest.fail("not ready"), max_body_bytes=1024)
    with pytest.raises(ValueError, match="the warm-up failed"):
        server.run([bench.listener])
    assert not bench.engine.is_ready
