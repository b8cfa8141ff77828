"""A GGUF cut into shards that llama.cpp loads as one model: new headers, and ranges of the file's bytes.

The first shard repeats all pairs, the others hold the three `split.*` pairs alone, as llama-gguf-split
writes them. No byte of a weight is copied before it is sent.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise

from semif.archive import FileRange, Piece
from semif.errors import UsageError
from semif.package_model.gguf_file import DEFAULT_ALIGNMENT, MAGIC, GgufFile, Tensor

MOST_SHARDS = 65_535  # llama.cpp counts them in 16 bits
_UINT16, _INT32, _UINT32 = 2, 5, 4
_FIXED_BYTES = 24 + 4 * 40  # magic, version and counts; the split pairs and an alignment at their longest


def shard_name(file: str, index: int, count: int) -> str:
    """`X.gguf` → `X-00001-of-00003.gguf`; index counts from 0."""
    return f"{file.removesuffix('.gguf')}-{index + 1:05d}-of-{count:05d}.gguf"


def plan_groups(
    sizes: Sequence[int], overheads: Sequence[int], *, first_bytes: int, later_bytes: int, limit: int
) -> list[int]:
    """Where the shards begin, as indices of tensors: greedy, and one tensor at least in each.

    sizes: bytes of each tensor's data; overheads: of its table row; first_bytes and later_bytes: of all else
    in the first and in another shard.
    """
    starts, used = [0], first_bytes
    for index, (size, overhead) in enumerate(zip(sizes, overheads, strict=True)):
        if index > starts[-1] and used + size + overhead > limit:
            starts.append(index)
            used = later_bytes
        used += size + overhead
    return starts


def shards(gguf: GgufFile, shard_bytes: int) -> list[tuple[Piece, ...]]:
    """The pieces of each shard. One list entry holding the whole file if it need not be cut.

    Raises `UsageError` for a file that is a shard itself, and for too many shards.
    """
    whole = FileRange(gguf.path, 0, gguf.size_bytes)
    if gguf.number("split.count"):
        raise UsageError(
            "already_sharded", f"{gguf.path.name} is one of several shards", next_step="leave shard_bytes out"
        )
    if gguf.size_bytes <= shard_bytes or len(gguf.tensors) < 2:
        return [(whole,)]
    ends = [gguf.data_start + tensor.offset for tensor in gguf.tensors] + [gguf.size_bytes]
    sizes = [stop - start for start, stop in pairwise(ends)]
    rows = [len(tensor.row(0)) for tensor in gguf.tensors]
    pairs = gguf.pairs()
    later = _FIXED_BYTES + gguf.alignment
    starts = plan_groups(sizes, rows, first_bytes=len(pairs) + later, later_bytes=later, limit=shard_bytes)
    if len(starts) > MOST_SHARDS:
        raise UsageError(
            "too_many_shards",
            f"{len(starts):,} shards of {shard_bytes:,} bytes; llama.cpp loads {MOST_SHARDS:,}",
            next_step="give a greater shard_bytes",
        )
    if len(starts) == 1:
        return [(whole,)]
    found: list[tuple[Piece, ...]] = []
    for index, (start, stop) in enumerate(pairwise([*starts, len(gguf.tensors)])):
        header = _header(gguf, index, len(starts), gguf.tensors[start:stop], pairs if index == 0 else b"")
        found.append((header, FileRange(gguf.path, ends[start], ends[stop])))
    return found


def _header(gguf: GgufFile, index: int, count: int, tensors: Sequence[Tensor], pairs: bytes) -> bytes:
    n_pairs = 3 + (gguf.n_pairs if pairs else 0)
    split = (
        _pair("split.no", _UINT16, struct.pack("<H", index))
        + _pair("split.count", _UINT16, struct.pack("<H", count))
        + _pair("split.tensors.count", _INT32, struct.pack("<i", len(gguf.tensors)))
    )
    if not pairs and gguf.alignment != DEFAULT_ALIGNMENT:
        split += _pair("general.alignment", _UINT32, struct.pack("<I", gguf.alignment))
        n_pairs += 1
    table = b"".join(tensor.row(tensor.offset - tensors[0].offset) for tensor in tensors)
    header = MAGIC + struct.pack("<IQQ", gguf.version, len(tensors), n_pairs) + pairs + split + table
    return header + bytes(-len(header) % gguf.alignment)


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value
