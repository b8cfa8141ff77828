"""`model.tar.gz` as a stream: the archive's files at its root, the same bytes for the same files.

The gzip is stored, not deflated: quantized weights don't shrink, and deflating them costs minutes on both
sides. No times, owners or names of this machine go in.
"""

import tarfile
import zlib
from collections.abc import Iterator, Sequence

from semif.archive import ModelFile

BLOCK_BYTES = 512
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # no name, no time, no operating system
_GZIP_STORED, _RAW_DEFLATE = 0, -15


def tar_gz(files: Sequence[ModelFile]) -> Iterator[bytes]:
    """The archive's bytes, in the files' order."""
    packer = zlib.compressobj(_GZIP_STORED, zlib.DEFLATED, _RAW_DEFLATE)
    checksum = size_bytes = 0
    yield _GZIP_HEADER
    for chunk in _tar(files):
        checksum, size_bytes = zlib.crc32(chunk, checksum), size_bytes + len(chunk)
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()
    yield checksum.to_bytes(4, "little") + (size_bytes & 0xFFFFFFFF).to_bytes(4, "little")


def _tar(files: Sequence[ModelFile]) -> Iterator[bytes]:
    for file in files:
        entry = tarfile.TarInfo(file.name)
        entry.size, entry.mode = file.size_bytes, 0o644
        yield entry.tobuf(tarfile.GNU_FORMAT)
        yield from file.chunks()
        yield bytes(-file.size_bytes % BLOCK_BYTES)
    yield bytes(2 * BLOCK_BYTES)
