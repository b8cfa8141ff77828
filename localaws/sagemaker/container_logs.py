"""A container's output, line by line, to CloudWatch Logs without ever holding the container up."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import InputLogEventTypeDef

log = logging.getLogger("localaws.sagemaker")

_LINE_BYTES = 64 * 1024
"""A longer line becomes several events (CloudWatch takes 256 KiB)."""
_BATCH_EVENTS = 1000
_WAITING_EVENTS = 100_000
_INTERVAL_S = 0.25


class LogShipper:
    """Reads a pipe in one thread and ships in another; with the log service down, old lines are dropped."""

    def __init__(
        self, pipe: IO[bytes], client: Callable[[], CloudWatchLogsClient], group: str, stream: str
    ) -> None:
        self._pipe = pipe
        self._client = client
        self._group = group
        self._stream = stream
        self._waiting: deque[InputLogEventTypeDef] = deque(maxlen=_WAITING_EVENTS)
        self._dropped = 0
        self._ended = threading.Event()
        self._created = False
        self._reader = threading.Thread(target=self._read, name=f"read {stream}", daemon=True)
        self._shipper = threading.Thread(target=self._ship, name=f"ship {stream}", daemon=True)
        self._reader.start()
        self._shipper.start()

    def close(self, timeout_s: float) -> None:
        """Wait until the pipe has ended and what it gave is shipped, but no longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._reader.join(timeout_s)
        self._ended.set()
        self._shipper.join(max(0.0, deadline - time.monotonic()))

    def _read(self) -> None:
        with self._pipe:
            while raw := self._pipe.readline(_LINE_BYTES):
                text = raw.decode("utf-8", "replace").rstrip("\r\n")
                if text:
                    self._dropped += len(self._waiting) == self._waiting.maxlen
                    self._waiting.append(_event(text))
        self._ended.set()

    def _ship(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self._flush_all()
        self._flush_all()

    def _flush_all(self) -> None:
        while self._waiting and self._flush():
            pass

    def _flush(self) -> bool:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH_EVENTS))]
        if not batch:
            return True
        if self._dropped:
            batch.insert(0, _event(f"{self._dropped} lines dropped: the log service was too slow"))
            self._dropped = 0
        try:
            client = self._client()
            self._create(client)
            client.put_log_events(logGroupName=self._group, logStreamName=self._stream, logEvents=batch)
        except (BotoCoreError, ClientError) as error:
            log.warning("%s/%s: %d log lines wait: %s", self._group, self._stream, len(batch), error)
            self._waiting.extendleft(reversed(batch[: _WAITING_EVENTS - len(self._waiting)]))
            return False
        return True

    def _create(self, client: CloudWatchLogsClient) -> None:
        if self._created:
            return
        with _if_missing():
            client.create_log_group(logGroupName=self._group)
        with _if_missing():
            client.create_log_stream(logGroupName=self._group, logStreamName=self._stream)
        self._created = True


def _event(text: str) -> InputLogEventTypeDef:
    return {"timestamp": time.time_ns() // 1_000_000, "message": text}


@contextlib.contextmanager
def _if_missing() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise
