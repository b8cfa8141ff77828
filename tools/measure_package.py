"""Measure what packaging a large file takes: memory, extra disk, and what a second run sends.

    python -m tools.measure_package [--bytes 1000000000] [--format prefix|tar.gz] [--shard-bytes N]

It writes a GGUF of random weights, serves it by a hub on this machine, packages it into the local AWS in a
process of its own, and packages it again.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGUFWriter

from localaws.hub import COMMIT, Hub
from localaws.session import LocalAws

REPOSITORY: Final = "measured/random-GGUF"
FILE: Final = "random.gguf"
BUCKET: Final = "measured"
_PAGE_KB: Final = 1024
_TENSOR_BYTES: Final = 8 << 20
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Measured:
    """One run: its exit code, its last lines, the most memory and the most extra disk that it took."""

    returncode: int
    output: str
    peak_memory_bytes: int
    peak_disk_bytes: int
    seconds: float


def write_random_gguf(path: Path, size_bytes: int) -> Path:
    """Write a GGUF of about this size, whose bytes don't compress. llama.cpp can't load it."""
    writer = GGUFWriter(path, "llama", use_temp_file=False)
    writer.add_context_length(4096)
    writer.add_block_count(1)
    writer.add_token_list([chr(ord("A") + index) for index in range(26)])
    writer.add_chat_template("{{ messages }}")
    count = max(2, size_bytes // _TENSOR_BYTES)
    each = size_bytes // count // 4
    for index in range(count):
        writer.add_tensor_info(f"blk.{index}.weight", [each], np.dtype(np.float32), each * 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(0)
    for _ in range(count):
        writer.write_tensor_data(random.integers(0, 1 << 32, each, dtype=np.uint32).view(np.float32))
    writer.close()
    return path


def measure(command: list[str], environment: dict[str, str], work: Path) -> Measured:
    """Run a command to its end; `work` is the folder whose growth counts as disk."""
    begun = time.monotonic()
    memory = disk = 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            memory = max(memory, _peak_memory_bytes(process.pid))
            disk = max(disk, _disk_bytes(work))
            time.sleep(_POLL_S)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Measured(process.returncode, text, memory, disk, time.monotonic() - begun)


def _peak_memory_bytes(pid: int) -> int:
    """The kernel's own high-water mark of resident memory; 0 once the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return found[0] * _PAGE_KB if found else 0


def _disk_bytes(folder: Path) -> int:
    """Bytes allocated for all files of a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


def package_twice(
    folder: Path, *, size_bytes: int, layout: str = "prefix", shard_bytes: int | None = None
) -> tuple[Measured, Measured, list[int]]:
    """Package a file of this size twice. Returns both runs, and how many files the hub sent in each."""
    work = folder / "work"
    (folder / "hub" / REPOSITORY).mkdir(parents=True)
    work.mkdir()
    path = write_random_gguf(folder / "hub" / REPOSITORY / FILE, size_bytes)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    recipe = {
        "source": {"repository": REPOSITORY, "revision": COMMIT},
        "file": FILE,
        "sha256": sha256,
        "shard_bytes": shard_bytes,
    }
    with Hub(folder / "hub") as hub, LocalAws() as aws:
        aws.client("s3").create_bucket(Bucket=BUCKET)
        command = [sys.executable, "-m", "semif", "package-model", "--recipe", json.dumps(recipe)]
        command += ["--bucket", BUCKET, "--format", layout, "--work", str(work)]
        environment = {**aws.environment, "HF_ENDPOINT": hub.url}
        runs, sent = [], []
        for _ in range(2):
            hub.requests.clear()
            runs.append(measure(command, environment, work))
            sent.append(len([request for request in hub.requests if request.path.endswith(FILE)]))
    return runs[0], runs[1], sent


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure what packaging a large file takes.")
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--format", choices=("prefix", "tar.gz"), default="prefix")
    parser.add_argument("--shard-bytes", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        first, second, sent = package_twice(
            Path(name), size_bytes=given.bytes, layout=given.format, shard_bytes=given.shard_bytes
        )
    for run, files in zip((first, second), sent, strict=True):
        print(
            f"exit code {run.returncode}, {run.seconds:.1f} s, {files} file(s) fetched,"
            f" peak memory {run.peak_memory_bytes / 1e6:.0f} MB,"
            f" peak extra disk {run.peak_disk_bytes / 1e6:.0f} MB\n{run.output}"
        )
    return first.returncode or second.returncode


if __name__ == "__main__":
    sys.exit(main())
