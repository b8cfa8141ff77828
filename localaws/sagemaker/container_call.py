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
        try:
            self._connection.connect()
            self._timer.start()
            self._connection.request("POST", path, body, {**headers})
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if self._expired.is_set() or isinstance(error, TimeoutError):
                raise TimedOutError from error
            raise NoConnectionError from error
        self.status = self._response.status
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in self._response.getheaders()}

    def _expire(self) -> None:
        self._expired.set()
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def pieces(self) -> Iterator[bytes]:
        """Give the body as it comes, never an empty piece.

        Raises:
            TimedOutError: the limit was over before the body's end.
            BrokenError: the container went away before the body's end.
        """
        received = 0
        length = self._response.length
        try:
            while piece := self._response.read1(_PIECE_BYTES):
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
        self._connection.close()
