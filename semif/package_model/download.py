"""A file fetched with resumption: what has arrived stays on disk, and a changed file is never mixed in.

Beside `X` lie `.X.part` (the bytes so far) and `.X.part.json` (what they are of: address, validator, size).
A broken connection is resumed from there, in this run or the next; both files are kept after every failure,
a full disk included, and go when the file is whole.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from errno import ENOSPC
from pathlib import Path
from typing import Protocol

from semif.errors import RetryableError, SemifError, ServiceError

ATTEMPTS = 5
PROGRESS_BYTES = 1 << 20
SPARE_BYTES = 16 << 20
LONGEST_PAUSE_S = 30.0


class BrokenError(Exception):
    """The connection failed or the server asks to come back; the same request may succeed."""


class ChangedError(Exception):
    """What arrived so far can't be continued: the file is another one now, or the server can't resume."""


@dataclass(frozen=True)
class Validator:
    """What tells two versions of a file apart. `value` goes into If-Range; "" where the server gives none."""

    address: str
    value: str
    size_bytes: int | None


@dataclass(frozen=True)
class Answer:
    """The beginning of a transfer. start: the first byte that comes. size_bytes: of the whole file."""

    start: int
    validator: Validator
    chunks: Iterator[bytes]


class Source(Protocol):
    """Where a file comes from."""

    @property
    def address(self) -> str:
        """What to call it in messages, without secrets."""

    def open(self, start: int, validator: Validator | None) -> AbstractContextManager[Answer]:
        """Ask for the bytes from `start` on, of the version that the validator names, or for all of them.

        Raises BrokenError, ChangedError, or a SemifError that no repetition helps.
        """


def fetch(
    source: Source,
    target: Path,
    *,
    say: Callable[[str], None] = lambda _line: None,
    pause: Callable[[float], None] = time.sleep,
) -> Path:
    """Bring the file to `target` and return it; what is there already is trusted to be it.

    Raises `truncated_download` or `unreachable` after ATTEMPTS attempts in a row that brought nothing new,
    `disk_full`, or the source's own error.
    """
    if target.is_file():
        return target
    transfer = _Transfer(source, target)
    furthest = transfer.have
    failures = 0
    if transfer.have:
        say(f"{target.name}: resuming at {transfer.have / 1e6:.1f} MB")
    while True:
        try:
            transfer.run()
            return transfer.finish()
        except ChangedError as error:
            transfer.restart()
            cause: Exception = error
        except BrokenError as error:
            cause = error
        except OSError as error:
            raise _disk_error(error, target) from error
        failures = 1 if transfer.have >= furthest + PROGRESS_BYTES else failures + 1
        furthest = max(furthest, transfer.have)
        if failures >= ATTEMPTS:
            raise transfer.gave_up(cause)
        say(f"{target.name}: {cause}; going on at {transfer.have / 1e6:.1f} MB")
        pause(min(2.0 ** (failures - 1), LONGEST_PAUSE_S))


class _Transfer:
    def __init__(self, source: Source, target: Path) -> None:
        self._source = source
        self._target = target
        self._part = target.with_name(f".{target.name}.part")
        self._state = target.with_name(f".{target.name}.part.json")
        self._validator = self._saved()
        self.have = 0
        if self._validator is not None and self._part.is_file():
            self.have = self._part.stat().st_size

    def run(self) -> None:
        """One request. Returns when the file is whole; raises BrokenError if it ended early."""
        known = self._validator
        if known is not None and known.size_bytes is not None and self.have == known.size_bytes > 0:
            return
        if known is None or not known.value:
            self.restart()  # nothing tells whether the rest would be of the same file
        with self._source.open(self.have, self._validator) as answer:
            if answer.start != self.have:
                if answer.start != 0:
                    raise ChangedError(f"the server sent bytes from {answer.start:,} on")
                self.restart()
            size = answer.validator.size_bytes
            _check_space(self._target, size, self.have)
            self._save(answer.validator)
            with self._part.open("r+b" if self._part.exists() else "wb") as file:
                file.seek(self.have)
                for chunk in answer.chunks:
                    file.write(chunk)
                    self.have += len(chunk)
        if size is not None and self.have < size:
            raise BrokenError(f"the server sent {self.have:,} of {size:,} bytes")
        if size is not None and self.have > size:
            raise ChangedError(f"the server sent {self.have:,} bytes instead of {size:,}")

    def restart(self) -> None:
        """Forget what has arrived."""
        self._state.unlink(missing_ok=True)
        self._part.unlink(missing_ok=True)
        self._validator, self.have = None, 0

    def finish(self) -> Path:
        """The part becomes the file."""
        self._part.replace(self._target)
        self._state.unlink(missing_ok=True)
        return self._target

    def gave_up(self, cause: Exception) -> SemifError:
        """The error after the last attempt."""
        size = self._validator.size_bytes if self._validator else None
        address = self._source.address
        if size is not None and 0 < self.have < size:
            return RetryableError(
                "truncated_download",
                f"{address} broke off {ATTEMPTS} times in a row,"
                f" last at {self.have:,} of {size:,} bytes: {cause}",
                next_step="run the command again; it goes on from there",
            )
        return RetryableError(
            "source_unreachable",
            f"{address}: {cause}",
            next_step="check the address and the network; run it again",
        )

    def _saved(self) -> Validator | None:
        try:
            saved = Validator(**json.loads(self._state.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return saved if saved.address == self._source.address else None

    def _save(self, validator: Validator) -> None:
        self._validator = validator
        self._state.write_text(json.dumps(asdict(validator)))


def _check_space(target: Path, size: int | None, have: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if size is not None and size - have + SPARE_BYTES > free:
        raise ServiceError(
            "disk_full",
            f"{target.parent} has {free:,} bytes free, and {target.name} needs {size - have + SPARE_BYTES:,}",
            next_step="free some space or name another folder with --work, and run it again",
        )


def _disk_error(error: OSError, target: Path) -> SemifError:
    if error.errno == ENOSPC:
        return ServiceError(
            "disk_full",
            f"the disk of {target.parent} is full; what has arrived of {target.name} stays there",
            next_step="free some space and run the command again; it goes on from there",
        )
    return ServiceError(
        "not_writable",
        f"{error.filename or target}: {error.strerror}",
        next_step="name another folder with --work",
    )
