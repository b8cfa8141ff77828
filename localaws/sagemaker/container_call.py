"""One request to a container, whose answer is read piece by piece within a time limit in all."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping

from localaws.sagemaker.container import HOST

_PIECE_BYTES = 64 * 1024


class NoConnectionError(Exception):
    """The container does not answer at all."""


class TimedOutError(Exception):
    """The container did not finish within the limit."""


class BrokenError(Exception):
    """The container's answer ended before its end."""


class ContainerCall:
    """A POST to a container: `status` and `headers` are there once it is made, `pieces` gives the body.

    Raises:
        NoConnectionError: nothing was answered.
        TimedOutError: the limit was over before the answer began.
    """

    def __init__(
        self, port: int, path: str, headers: Mapping[str, str], body: bytes, *, limit_s: float
    ) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=limit_s)
        self._expired = threading.Event()
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        try:
            self._connection.connect()
            # http.client forgets its socket when an answer lasts until the connection's end.
            self._socket = self._connection.sock
            self._timer.start()
            self._connection.request("POST", path, body, {**headers})
            response = self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if self._expired.is_set() or isinstance(error, TimeoutError):
                raise TimedOutError from error
            raise NoConnectionError from error
        self.status = response.status
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in response.getheaders()}

    def _expire(self) -> None:
        self._expired.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def pieces(self) -> Iterator[bytes]:
        """Give the body as it comes, never an empty piece.

        Raises:
            TimedOutError: the limit was over before the body's end.
            BrokenError: the container went away before the body's end.
        """
        response = self._response
        if response is None:
            raise AssertionError("bug: a call without an answer is never given out")
        received = 0
        length = response.length
        try:
            while piece := response.read1(_PIECE_BYTES):
                received += len(piece)
                yield piece
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._expired.is_set() or isinstance(error, TimeoutError):
                raise TimedOutError from error
            raise BrokenError from error
        if self._expired.is_set():
            raise TimedOutError
        if length is not None and received < length:
            raise BrokenError

    def close(self) -> None:
        """End the call; the container sees that its caller is gone."""
        self._timer.cancel()
        if self._response is not None:
            self._response.close()
        self._connection.close()
