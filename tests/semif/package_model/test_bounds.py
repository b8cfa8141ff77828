"""The command in a process of its own: what it takes of memory and disk. Larger: tools/measure_package.py."""

from pathlib import Path

from tools.measure_package import package_twice

SIZE = 64_000_000
MOST_MEMORY_BYTES = 200_000_000
HEADER_BYTES = 1_000_000


def test_a_file_lies_on_disk_once_and_never_in_memory(tmp_path: Path) -> None:
    first, second, sent = package_twice(tmp_path, size_bytes=SIZE, shard_bytes=32_000_000)
    assert (first.returncode, second.returncode) == (0, 0), first.output + second.output
    assert sent == [1, 0]
    assert "-00001-of-" in first.output
    assert "sending" not in second.output
    assert first.peak_memory_bytes < MOST_MEMORY_BYTES
    assert SIZE // 2 < first.peak_disk_bytes < SIZE + HEADER_BYTES
