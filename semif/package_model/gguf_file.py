"""The header of a GGUF file: its key-value pairs and tensor table, never the weights.

Read in one pass with little memory: a vocabulary of 250,000 tokens would fill hundreds of megabytes as the
arrays of the gguf package. What is not needed is skipped; offsets into the file are kept, so that a shard's
header can repeat the pairs byte for byte.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from semif.errors import UsageError

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
TOKENS: Final = "tokenizer.ggml.tokens"
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_KEPT_ITEMS: Final = 4096

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class Tensor:
    """One row of the tensor table. offset: bytes from the start of the data. shape: ggml's order."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    def row(self, offset: int) -> bytes:
        """The table's row with another offset."""
        name = self.name.encode()
        sizes = struct.pack(f"<{len(self.shape)}Q", *self.shape)
        return (
            struct.pack("<Q", len(name)) + name + struct.pack("<I", len(self.shape)) + sizes
            + struct.pack("<IQ", self.kind, offset)
        )  # fmt: skip

    @property
    def weights(self) -> int:
        """How many weights it holds."""
        product = 1
        for size in self.shape:
            product *= size
        return product


@dataclass(frozen=True)
class GgufFile:
    """A GGUF on disk.

    values: the pairs, without long arrays. tokens: the vocabulary. n_pairs, pairs_start, pairs_stop: where
    the pairs lie, as bytes of the file. tensors: in the order of their data. data_start: first byte of it.
    """

    path: Path
    size_bytes: int
    version: int
    values: dict[str, Value]
    tokens: frozenset[str]
    n_tokens: int
    n_pairs: int
    pairs_start: int
    pairs_stop: int
    tensors: tuple[Tensor, ...]
    data_start: int

    @property
    def alignment(self) -> int:
        """Tensors begin at multiples of so many bytes."""
        return self.number("general.alignment") or DEFAULT_ALIGNMENT

    @property
    def architecture(self) -> str:
        """By llama.cpp's name, such as qwen35."""
        return self.text("general.architecture") or ""

    def text(self, key: str) -> str | None:
        """The string under a key."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """The whole number under a key."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def parameter(self, name: str) -> int | None:
        """The whole number of the architecture's own key, such as `context_length`."""
        return self.number(f"{self.architecture}.{name}")

    def pairs(self) -> bytes:
        """The pairs as they lie in the file."""
        with self.path.open("rb") as file:
            file.seek(self.pairs_start)
            return file.read(self.pairs_stop - self.pairs_start)


def read_gguf(path: Path) -> GgufFile:
    """Read the header. Raises `UsageError` if the file is no whole GGUF."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise UsageError(
            "not_readable", f"{path}: {error.strerror}", next_step="make the file readable"
        ) from error
    except (struct.error, ValueError, OverflowError) as error:
        raise UsageError(
            "bad_gguf",
            f"{path.name} is no whole GGUF: {error}",
            next_step="name another file or its checksum",
        ) from None


def _read(path: Path, file: BinaryIO) -> GgufFile:
    reader = _Reader(file, path.stat().st_size)
    if reader.take(4) != MAGIC:
        raise ValueError("it does not begin with GGUF")
    version = reader.number("I")
    if version not in {2, 3}:
        raise ValueError(f"its version is {version}, not 2 or 3")
    n_tensors, n_pairs = reader.number("Q"), reader.number("Q")
    pairs_start = file.tell()
    values: dict[str, Value] = {}
    tokens: frozenset[str] = frozenset()
    n_tokens = 0
    for _ in range(n_pairs):
        key, kind = reader.string(), reader.number("I")
        if kind == _ARRAY:
            item, count = reader.number("I"), reader.number("Q")
            if key == TOKENS and item == _STRING:
                tokens, n_tokens = frozenset(reader.string() for _ in range(count)), count
            else:
                kept = reader.array(item, count)
                if kept is not None:
                    values[key] = kept
        else:
            values[key] = reader.scalar(kind)
    pairs_stop = file.tell()
    tensors = sorted((reader.tensor() for _ in range(n_tensors)), key=lambda tensor: tensor.offset)
    alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ValueError(f"its alignment is {alignment!r}")
    data_start = -(-file.tell() // alignment) * alignment
    if tensors and data_start + tensors[-1].offset >= reader.size_bytes:
        raise ValueError(f"it ends at byte {reader.size_bytes:,}, before its last tensor")
    return GgufFile(
        path, reader.size_bytes, version, values, tokens, n_tokens, n_pairs, pairs_start, pairs_stop,
        tuple(tensors), data_start,
    )  # fmt: skip


class _Reader:
    """Little-endian values from a file; a length beyond the file's end is an error, never an allocation."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self.size_bytes = size_bytes

    def take(self, count: int) -> bytes:
        if count > self.size_bytes:
            raise ValueError(f"a length of {count:,} bytes is beyond its end")
        data = self._file.read(count)
        if len(data) < count:
            raise ValueError(f"it ends at byte {self.size_bytes:,}, within its header")
        return data

    def number(self, code: str) -> int:
        return int(struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0])

    def string(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "surrogateescape")

    def scalar(self, kind: int) -> Scalar:
        if kind == _STRING:
            return self.string()
        if kind not in _SCALARS:
            raise ValueError(f"a value of unknown kind {kind}")
        code = f"<{_SCALARS[kind]}"
        value: Scalar = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return value

    def array(self, kind: int, count: int) -> tuple[Scalar, ...] | None:
        """The items, or None if there are too many to keep."""
        if count <= _KEPT_ITEMS:
            return tuple(self.scalar(kind) for _ in range(count))
        if kind == _STRING:
            for _ in range(count):
                self._skip(self.number("Q"))
        elif kind in _SCALARS:
            self._skip(count * struct.calcsize(f"<{_SCALARS[kind]}"))
        else:
            raise ValueError(f"a long array of unknown kind {kind}")
        return None

    def tensor(self) -> Tensor:
        name, dimensions = self.string(), self.number("I")
        if dimensions > 8:
            raise ValueError(f"tensor {name} has {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        return Tensor(name, shape, self.number("I"), self.number("Q"))

    def _skip(self, count: int) -> None:
        if self._file.tell() + count > self.size_bytes:
            raise ValueError(f"it ends at byte {self.size_bytes:,}, within its header")
        self._file.seek(count, 1)
