"""The queue of builds: how many run at once, who waits, and the thread that takes each to its end."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localaws.clients import Clients
from localaws.codebuild.build import Build
from localaws.codebuild.execution import Execution
from localaws.codebuild.faults import Fault, FaultMode
from localaws.codebuild.interruption import InterruptedBuildError, Interruption
from localaws.codebuild.machine import DockerFolder, Machines
from localaws.codebuild.messages import QUEUE_TIMED_OUT, invalid, queue_full
from localaws.protocol import Scope

log = logging.getLogger("localaws.codebuild")

_WAITING_PER_SLOT = 5
_POLL_S = 0.1
_CLOSE_S = 20.0
"""After that the shells end by themselves: the shim sees this process end."""


@dataclass(frozen=True)
class QueueSettings:
    """How many builds of an account and region run at once, and how long a minute of their time limits is."""

    concurrent_builds: int = 2
    minute_s: float = 60.0

    def view(self) -> dict[str, Any]:
        """Return the settings as `parse_settings` reads them."""
        return {"concurrent_builds": self.concurrent_builds, "minute_s": self.minute_s}


def parse_settings(document: Mapping[str, Any]) -> QueueSettings:
    """Read `{"concurrent_builds": 2, "minute_s": 60}`; what is left out has its default."""
    unknown = sorted(set(document) - {"concurrent_builds", "minute_s"})
    if unknown:
        raise invalid(f"{unknown[0]}: unknown key; allowed: concurrent_builds, minute_s")
    concurrent = document.get("concurrent_builds", QueueSettings.concurrent_builds)
    minute_s = document.get("minute_s", QueueSettings.minute_s)
    if isinstance(concurrent, bool) or not isinstance(concurrent, int) or not 0 <= concurrent <= 100:
        raise invalid(f"concurrent_builds: {concurrent!r} is not a number from 0 to 100")
    if isinstance(minute_s, bool) or not isinstance(minute_s, int | float) or not 0 < minute_s <= 60:
        raise invalid(f"minute_s: {minute_s!r} is not a number from above 0 to 60")
    return QueueSettings(concurrent, float(minute_s))


class BuildQueue:
    """Runs builds, each on a thread of its own. Safe for threads."""

    def __init__(self, clients: Clients, docker_folder: DockerFolder | None) -> None:
        self._clients = clients
        self._machines = Machines(docker_folder)
        self._changed = threading.Condition()
        self._settings = QueueSettings()
        self._faults: Mapping[str, Fault] = {}
        self._waiting: list[Build] = []
        self._running: set[Build] = set()
        self._active: dict[str, tuple[Interruption, threading.Thread]] = {}
        self._closed = False

    @property
    def settings(self) -> QueueSettings:
        """Return the settings in force."""
        return self._settings

    def configure(self, settings: QueueSettings) -> None:
        """Change the settings; time limits of builds that run stay as they are."""
        with self._changed:
            self._settings = settings
            self._changed.notify_all()

    @property
    def faults(self) -> Mapping[str, Fault]:
        """Return the faults by project."""
        return self._faults

    def put_faults(self, faults: Mapping[str, Fault]) -> None:
        """Replace the faults; a phase that began keeps its own."""
        self._faults = faults

    def check_room(self, scope: Scope) -> None:
        """Refuse another build of this account and region when its queue is full."""
        limit = _WAITING_PER_SLOT * max(1, self._settings.concurrent_builds)
        with self._changed:
            if sum(build.scope == scope for build in self._waiting) >= limit:
                raise queue_full(limit)

    def add(self, build: Build) -> None:
        """Take a build; it runs when those before it have left room."""
        interruption = Interruption()
        thread = threading.Thread(
            target=self._carry_out, args=(build, interruption), name=f"build {build.id}", daemon=True
        )
        with self._changed:
            if self._closed:
                build.finish("STOPPED")
                return
            self._waiting.append(build)
            self._active[build.id] = interruption, thread
            thread.start()

    def stop(self, build: Build) -> None:
        """Ask a build to end; one that has ended stays as it is."""
        with self._changed:
            active = self._active.get(build.id)
            if active is not None:
                active[0].stop()
                self._changed.notify_all()

    def close(self) -> None:
        """Stop every build; returns when their processes are gone."""
        with self._changed:
            self._closed = True
            active = list(self._active.values())
            for interruption, _ in active:
                interruption.stop()
            self._changed.notify_all()
        deadline = time.monotonic() + _CLOSE_S
        for _, thread in active:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._machines.close()

    def _carry_out(self, build: Build, interruption: Interruption) -> None:
        status = "FAULT"
        try:
            if self._admitted(build, interruption):
                interruption.limit(build.order.timeout_minutes * self._settings.minute_s)
                build.open_log()
                status = Execution(
                    build,
                    self._clients,
                    self._machines,
                    interruption,
                    lambda phase: self._fault(build, phase),
                ).run()
            else:
                status = build.phase_status
        except Exception as error:
            log.exception("the build %s failed by a bug of the local AWS", build.id)
            build.end("FAULT", ("INTERNAL_SERVICE_ERROR", f"A bug of the local AWS: {error!r}"))
        finally:
            build.finish(status)
            with self._changed:
                self._running.discard(build)
                with contextlib.suppress(ValueError):
                    self._waiting.remove(build)
                self._active.pop(build.id, None)
                self._changed.notify_all()

    def _admitted(self, build: Build, interruption: Interruption) -> bool:
        """Wait for room in the queue; False if the build ended there."""
        fault = self._fault(build, "QUEUED")
        interruption.limit(build.order.queued_timeout_minutes * self._settings.minute_s)
        ready = time.monotonic()
        try:
            match fault:
                case Fault(mode=FaultMode.TIMEOUT):
                    interruption.limit(fault.seconds)
                    ready = float("inf")
                case Fault(mode=FaultMode.DELAY):
                    ready += fault.seconds
                case Fault():
                    interruption.wait(fault.seconds)
                    build.end("FAULT" if fault.mode is FaultMode.FAULT else "FAILED", fault.context)
                    return False
            with self._changed:
                while time.monotonic() < ready or not self._has_room(build):
                    interruption.check()
                    self._changed.wait(_POLL_S)
                interruption.check()
                self._waiting.remove(build)
                self._running.add(build)
        except InterruptedBuildError as error:
            build.end(error.status, *([QUEUE_TIMED_OUT] if error.status == "TIMED_OUT" else []))
            return False
        return True

    def _has_room(self, build: Build) -> bool:
        """Tell whether it is this build's turn among those of its account and region."""
        taken = sum(other.scope == build.scope for other in self._running)
        free = self._settings.concurrent_builds - taken
        ahead = [other for other in self._waiting if other.scope == build.scope]
        return build in ahead[: max(0, free)]

    def _fault(self, build: Build, phase: str) -> Fault | None:
        found = (self._faults.get(build.order.project), self._faults.get("*"))
        return next((fault for fault in found if fault is not None and fault.phase == phase), None)
