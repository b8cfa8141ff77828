"""One HTTP/1.1 connection, with what a well-behaved client library does not do: leave halfway."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

# A longer silence is a hang: nothing that the soak asks for takes seconds.
TIMEOUT_S: Final = 90.0
_MAX_HEADER_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """One response as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, parsed. Raises ValueError."""
        return json.loads(self.body)


def request_bytes(body: bytes, content_type: str = "application/json", path: str = "/invocations") -> bytes:
    """A whole POST on the wire."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


class Client:
    """Requests one after the other; the connection is opened when it is needed and kept while it may be."""

    def __init__(self, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self._port = port
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> Answer:
        """POST /invocations. Raises TimeoutError after a silence, ConnectionError when there is no answer."""
        return await self.send(request_bytes(body))

    async def send(self, request: bytes) -> Answer:
        """Send a request as it is and read its response."""
        async with asyncio.timeout(self._timeout_s):
            reader, writer = await self._connected()
            try:
                writer.write(request)
                await writer.drain()
                answer = await read_answer(reader)
            except BaseException:
                await self.close()
                raise
            if answer.headers.get("connection", "").lower() == "close":
                await self.close()
            return answer

    async def send_and_leave(self, request: bytes, *, send_bytes: int, stay_s: float, reset: bool) -> None:
        """Send the first bytes of a request, stay for a moment and go. reset: without a goodbye (RST)."""
        async with asyncio.timeout(self._timeout_s):
            _, writer = await self._connected()
            writer.write(request[:send_bytes])
            await asyncio.sleep(stay_s)
            if reset:
                writer.transport.abort()
            await self.close()

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            try:
                await writer.wait_closed()
            except OSError:
                return

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=_MAX_HEADER_BYTES)
        return self._streams


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read one response with a Content-Length. Raises ConnectionError when it does not come whole."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError as error:
        raise ConnectionError(
            f"the server closed the connection after {len(error.partial)} bytes of an answer"
        ) from None
    return Answer(int(status_line.split()[1]), headers, body)
