"""Containers that ended while they served are started again, as SageMaker does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from localaws.protocol import Scope
from localaws.sagemaker.hosting import ClosingError, HostedVariant, Hosting, HostingError

log = logging.getLogger("localaws.sagemaker")

_LOOK_S = 0.3
_RETRY_S = 1.0


class Supervisor:
    """Watches the containers of one account and region from the first deployment on.

    Args:
        scope: whose they are.
        hosting: starts them.
        serving: gives endpoint name and container of all that serve.
        exchange: puts a new container in a dead one's place; False if that is not wanted any more.
        closing: ends the watch.
    """

    def __init__(
        self,
        scope: Scope,
        hosting: Hosting,
        serving: Callable[[], Sequence[tuple[str, HostedVariant]]],
        exchange: Callable[[str, HostedVariant, HostedVariant], bool],
        closing: threading.Event,
    ) -> None:
        self._scope = scope
        self._hosting = hosting
        self._serving = serving
        self._exchange = exchange
        self._closing = closing
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None
        self._restarts: dict[HostedVariant, threading.Thread] = {}

    def begin(self) -> None:
        """Watch from now on."""
        with self._lock:
            if self._watch is None and not self._closing.is_set():
                self._watch = threading.Thread(target=self._run, name="supervisor", daemon=True)
                self._watch.start()

    def join(self) -> None:
        """Wait until nothing is being started; `closing` must be set."""
        if self._watch is not None:
            self._watch.join()
        for thread in self._restarts.values():
            thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_S):
            self._restarts = {one: thread for one, thread in self._restarts.items() if thread.is_alive()}
            for name, one in self._serving():
                if one.container.exit_code is not None and one not in self._restarts:
                    thread = threading.Thread(target=self._restart, args=(name, one), daemon=True)
                    self._restarts[one] = thread
                    thread.start()

    def _restart(self, name: str, dead: HostedVariant) -> None:
        log.warning("a container of %s ended with %s; it is started again", name, dead.container.exit_code)
        placement = replace(dead.placement, fault=None)
        while (name, dead) in self._serving():
            try:
                new = self._hosting.start(self._scope, name, placement, dead.model)
            except HostingError as error:
                log.warning("%s: %s", name, error)
                if self._closing.wait(_RETRY_S):
                    return
                continue
            except ClosingError:
                return
            (dead if self._exchange(name, dead, new) else new).stop()
