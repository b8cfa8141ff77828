"""A container's minder, run as a script of its own: ``python -I -S shim.py GRACE_S FOLDER PROGRAM ARG…``.

It starts the program in a new session and waits. When its standard input ends, because the local AWS
closed it or died, it sends SIGTERM to the program's process group and SIGKILL after the grace time. So no
server outlives the local AWS, however that ended. At last it removes the container's folder and exits with
the program's status: 128 + the signal's number if a signal ended it, 127 if it could not be started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

CANNOT_START = 127


def remove_folder(folder: Path) -> None:
    """Remove a folder with the read-only folders in it."""
    for parent, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(parent).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def run(command: Sequence[str], grace_s: float) -> int:
    """Run the program until it ends or standard input does; return its exit status as a shell shows it."""
    wake = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: wake.set())
    try:
        # Descriptors that the shim was given are the program's.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, close_fds=False)
    except OSError as error:
        print(f"cannot start {command[0]!r}: {error.strerror}", file=sys.stderr, flush=True)
        return CANNOT_START

    def watch_input() -> None:
        while os.read(0, 1024):
            pass
        wake.set()

    def watch_child() -> None:
        child.wait()
        wake.set()

    for watch in (watch_input, watch_child):
        threading.Thread(target=watch, daemon=True).start()
    wake.wait()
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    _signal_group(child.pid, signal.SIGKILL)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    try:
        code = run(sys.argv[3:], float(sys.argv[1]))
    finally:
        remove_folder(Path(sys.argv[2]))
    sys.exit(code)
