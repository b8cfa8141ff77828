"""The shell of a build: all commands of all phases run in one instance, as buildspec 0.2 has it.

A command that ends the shell (`exit`, a syntax error) ends only itself: the next one gets a new instance
with the folder and the exported variables that the last one left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from localaws.codebuild.interruption import Interruption
from localaws.sagemaker import shim

_CHUNK_BYTES = 1 << 16
_POLL_S = 0.1
_LINE_BYTES = 64 * 1024
"""A longer line becomes several (CloudWatch takes 256 KiB an event)."""
_DRAINING_READS = 16
"""More than a pipe holds: all that a command wrote before its status; no background process is awaited."""
_FREE_DESCRIPTOR = 64
"""From here on descriptors cannot be those that the shell uses."""
#: Commands come as files named on descriptor 8, statuses go to descriptor 9; commands get neither.
_DRIVER = """\
_localaws_snapshot() { /usr/bin/env -0 >"$_localaws_state/environment"; pwd >"$_localaws_state/folder"; }
trap _localaws_snapshot EXIT
while IFS= read -r _localaws_script <&8; do
  . "$_localaws_script" 8<&- 9>&-
  _localaws_status=$?
  _localaws_snapshot
  printf '%s\\n' "$_localaws_status" >&9
done
trap - EXIT
"""


class Shell:
    """Runs commands one after another; `write` gets each line of their output."""

    def __init__(
        self,
        program: str,
        environment: Mapping[str, str],
        *,
        folder: Path,
        work: Path,
        interruption: Interruption,
        write: Callable[[str], None],
        grace_s: float,
    ) -> None:
        self._program, self._write, self._grace_s = program, write, grace_s
        self._interruption = interruption
        self._work = work
        self.environment = dict(environment)
        self._folder = folder
        self._instance: _Instance | None = None
        (work / "driver.sh").write_text(f"_localaws_state={shlex.quote(str(work))}\n{_DRIVER}")

    def run(self, command: str) -> int:
        """Run one command and return its exit status; InterruptedBuildError leaves it running."""
        if self._instance is None:
            self._instance = _Instance(
                self._program, self.environment, self._folder, self._work, self._grace_s
            )
        instance = self._instance
        status = instance.run(command, self._write, self._interruption)
        self._read_snapshot()
        if instance.ended:
            self.close()
        return status

    def export(self, name: str, value: str) -> None:
        """Set a variable for the commands that come; `value` must need no quoting."""
        self.run(f"export {name}={value}")

    def close(self) -> None:
        """End the shell and all that runs in its process group: SIGTERM, and SIGKILL after the grace time."""
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _read_snapshot(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            raw = (self._work / "environment").read_bytes().decode("utf-8", "surrogateescape")
            pairs = (entry.partition("=") for entry in raw.split("\0") if "=" in entry)
            left = {name: value for name, _, value in pairs}
            if left:
                self.environment = left
            folder = Path((self._work / "folder").read_text().rstrip("\n"))
            if folder.is_dir():
                self._folder = folder


class _Instance:
    """One shell process under the shim, which ends it when this process ends."""

    def __init__(
        self, program: str, environment: Mapping[str, str], folder: Path, work: Path, grace_s: float
    ) -> None:
        self._scripts = work / f"shell-{uuid.uuid4().hex}"
        self._scripts.mkdir()
        self._grace_s = grace_s
        self._count = 0
        self.ended = False
        commands, self._commands = _moved(0, os.pipe())
        statuses, self._statuses = _moved(1, os.pipe())
        self._output, output = os.pipe()
        self._unfinished = b""
        starter = f'exec {program} "$0" 8<&{commands} 9>&{statuses} {commands}<&- {statuses}>&-'
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", shim.__file__, str(grace_s), str(self._scripts)),
                *("/bin/bash", "-c", starter, str(work / "driver.sh")),
            ],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(commands, statuses),
            start_new_session=True,
        )
        for theirs in (commands, statuses, output):
            os.close(theirs)
        os.set_blocking(self._output, False)

    def run(self, command: str, write: Callable[[str], None], interruption: Interruption) -> int:
        """Run one command; `ended` tells whether the shell ended with it."""
        self._count += 1
        script = self._scripts / f"{self._count}.sh"
        script.write_text(f"{command}\n", encoding="utf-8", errors="surrogateescape")
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, f"{script}\n".encode())
        answer = b""
        while not answer.endswith(b"\n"):
            interruption.check()
            ready = select.select([self._statuses, self._output], [], [], _POLL_S)[0]
            if self._output in ready:
                self._drain(write, reads=1)
            if self._statuses in ready:
                part = os.read(self._statuses, _CHUNK_BYTES)
                answer += part
                if not part:
                    self.ended = True
                    break
            elif not ready and self._process.poll() is not None:
                self.ended = True
                break
        self._drain(write, reads=_DRAINING_READS)
        if self._unfinished:
            write(self._unfinished.decode("utf-8", "replace"))
            self._unfinished = b""
        return self._process.wait() if self.ended else int(answer)

    def close(self) -> None:
        """End the shell's process group."""
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
        self._process.stdin.close()
        for ours in (self._commands, self._statuses):
            os.close(ours)
        try:
            self._process.wait(self._grace_s + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._output)

    def _drain(self, write: Callable[[str], None], *, reads: int) -> None:
        for _ in range(reads):
            try:
                part = os.read(self._output, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not part:
                return
            *lines, self._unfinished = (self._unfinished + part).split(b"\n")
            for line in lines:
                write(line.decode("utf-8", "replace").removesuffix("\r"))
            while len(self._unfinished) > _LINE_BYTES:
                write(self._unfinished[:_LINE_BYTES].decode("utf-8", "replace"))
                self._unfinished = self._unfinished[_LINE_BYTES:]


def _moved(theirs: int, ends: tuple[int, int]) -> tuple[int, int]:
    """Return a pipe's end for the shell, moved out of the way of 8 and 9, and the other end."""
    moved = fcntl.fcntl(ends[theirs], fcntl.F_DUPFD_CLOEXEC, _FREE_DESCRIPTOR)
    os.close(ends[theirs])
    return moved, ends[1 - theirs]
