"""Why a build is to end before its work is done."""

from __future__ import annotations

import threading
import time


class InterruptedBuildError(Exception):
    """The build ends now; `status` is STOPPED or TIMED_OUT."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class Interruption:
    """The stop and the time limit of one build. Safe for threads."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._deadline = float("inf")

    def stop(self) -> None:
        """Ask the build to end as STOPPED."""
        self._stopped.set()

    def limit(self, seconds: float) -> None:
        """Set the time that is left from now on."""
        self._deadline = time.monotonic() + seconds

    def check(self) -> None:
        """Raise InterruptedBuildError if the build is to end."""
        if self._stopped.is_set():
            raise InterruptedBuildError("STOPPED")
        if time.monotonic() >= self._deadline:
            raise InterruptedBuildError("TIMED_OUT")

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than the build is to go on."""
        until = time.monotonic() + seconds
        self.check()
        while (left := min(until, self._deadline) - time.monotonic()) > 0:
            self._stopped.wait(left)
            self.check()
        self.check()
