"""One HTTP/1.1 connection: uvicorn's, with bounds for slow senders and a way to leave without a reset.

A connection is closed by FIN, behind the answers to all that was asked on it. A close while unread bytes lie
in the socket would be a reset, and may take an answer away that is still on its way.
"""

import asyncio
import fcntl
import functools
import json
import struct
import termios
from collections.abc import Callable
from typing import Any, Final

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from semif_server.errors import BodyError, Code, RequestError, request_timeout, shutting_down

SENDER_S: Final = 30.0  # for a request's headers, and for a body that nobody reads any more
# Who got an answer or connected just now may have sent the next request already.
_QUIET_S: Final = 0.5
_UNREAD_S: Final = 0.01
_CLOSE: Final = (b"connection", b"close")


class DrainingConnection(H11Protocol):
    """is_draining: whether answers should tell clients to go elsewhere. The rest is uvicorn's."""

    def __init__(self, *arguments: Any, is_draining: Callable[[], bool], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = functools.partial(self._serve, self.app)
        self._is_draining = is_draining
        self._is_leaving = False
        self._quiet_since_s = self.loop.time()
        self._sender_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and do not wait for ever for a first byte."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        """Take bytes in; what is neither a request being answered nor nothing must end in time."""
        super().data_received(data)
        self._watch_sender()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_sender_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer was written; requests that were sent behind it come next."""
        self._quiet_since_s = self.loop.time()
        super().on_response_complete()
        self._watch_sender()
        if self._is_leaving:
            self.leave()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the shape of every other error."""
        self._refuse(BodyError(Code.INVALID_HTTP, "This is not HTTP/1.1. Use an HTTP client library."))

    def leave(self) -> None:
        """Close as soon as everything that was asked is answered."""
        self._is_leaving = True
        if self.transport.is_closing() or self._is_answering():
            return  # on_response_complete comes back here
        quiet_s = self.loop.time() - self._quiet_since_s
        if quiet_s < _QUIET_S:
            self.loop.call_later(_QUIET_S - quiet_s, self.leave)
        elif self._unread_bytes():
            self.flow.resume_reading()
            self.loop.call_later(_UNREAD_S, self.leave)
        elif self._has_partial_head():
            self._refuse(shutting_down())
        else:
            self.transport.close()

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start" and self._is_draining() and not self._more_follows():
                message["headers"] = [*message["headers"], _CLOSE]
            await send(message)

        await app(scope, receive, send_last)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _has_partial_head(self) -> bool:
        return not self._is_answering() and bool(self.conn.trailing_data[0])

    def _is_discarding(self) -> bool:
        """Whether a body comes that was answered already."""
        return not self._is_answering() and self.conn.their_state is h11.SEND_BODY

    def _more_follows(self) -> bool:
        """Whether more than the request in hand was sent: its rest, or the next one."""
        return (
            self.conn.their_state is h11.SEND_BODY
            or bool(self.conn.trailing_data[0])
            or bool(self._unread_bytes())
        )

    def _unread_bytes(self) -> int:
        file = self.transport.get_extra_info("socket").fileno()
        if file < 0:
            return 0
        size: int = struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, bytes(4)))[0]
        return size

    def _watch_sender(self) -> None:
        if not self._has_partial_head() and not self._is_discarding():
            self._stop_sender_timer()
        elif self._sender_timer is None:
            self._sender_timer = self.loop.call_later(SENDER_S, self._end_slow_sender)

    def _end_slow_sender(self) -> None:
        self._sender_timer = None
        if not self.transport.is_closing():
            self._refuse(request_timeout(SENDER_S))

    def _stop_sender_timer(self) -> None:
        if self._sender_timer is not None:
            self._sender_timer.cancel()
            self._sender_timer = None

    def _refuse(self, error: RequestError) -> None:
        """Answer before there is a request that the app could answer, and close."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = json.dumps(error.body(), separators=(",", ":")).encode()
            headers = {
                "content-type": "application/json",
                "content-length": str(len(body)),
                "connection": "close",
                **error.headers,
            }
            start = h11.Response(status_code=error.status, headers=list(headers.items()))
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
