"""A build's log: lines of CodeBuild and of the commands, in order, to CloudWatch Logs while it runs."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

log = logging.getLogger("localaws.codebuild")

_BATCH_EVENTS = 1000
_INTERVAL_S = 0.25
_MASK = "***"


class BuildLog:
    """Lines wait in memory and a thread ships them; secret values are masked before. Safe for threads."""

    def __init__(self, client: Callable[[], Any], group: str | None, stream: str) -> None:
        self._client, self._group, self._stream = client, group, stream
        self._secrets: tuple[str, ...] = ()
        self._waiting: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._created = False
        self._shipper = threading.Thread(target=self._ship, name=f"ship {stream}", daemon=True)
        if group is not None:
            self._shipper.start()

    def mask(self, values: Iterable[str]) -> None:
        """Show these values as *** from now on; of a value with several lines, each line."""
        lines = {line for value in values for line in value.splitlines() if line.strip()}
        # The longest first: a secret may be part of another.
        self._secrets = tuple(sorted(lines, key=len, reverse=True))

    def masked(self, text: str) -> str:
        """Return a text without the secret values."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def write(self, line: str) -> None:
        """Write one line as a command printed it."""
        with self._lock:
            self._waiting.append(
                {"timestamp": time.time_ns() // 1_000_000, "message": self.masked(line) or " "}
            )

    def say(self, text: str) -> None:
        """Write a line of CodeBuild's own."""
        stamp = dt.datetime.now(dt.UTC).strftime("%Y/%m/%d %H:%M:%S.%f")
        self.write(f"[Container] {stamp} {text}")

    def close(self) -> None:
        """Ship what is left; returns when it is there."""
        self._ended.set()
        if self._group is not None:
            self._shipper.join()

    def _ship(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        while self._waiting:
            with self._lock:
                batch = self._waiting[:_BATCH_EVENTS]
            try:
                client = self._client()
                self._create(client)
                client.put_log_events(logGroupName=self._group, logStreamName=self._stream, logEvents=batch)
            except (BotoCoreError, ClientError) as error:
                log.warning("%s/%s: %d log lines wait: %s", self._group, self._stream, len(batch), error)
                return
            with self._lock:
                del self._waiting[: len(batch)]

    def _create(self, client: Any) -> None:
        if self._created:
            return
        for create, names in (
            (client.create_log_group, {"logGroupName": self._group}),
            (client.create_log_stream, {"logGroupName": self._group, "logStreamName": self._stream}),
        ):
            try:
                create(**names)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                    raise
        self._created = True
