"""What this process may use of the machine: cores and memory, as its control groups (v1 or v2) limit them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Bytes that this process may use at most, and who says so."""

    limit_bytes: int
    limit_from: Literal["cgroup", "machine"]


def usable_cores() -> int:
    """Whole CPU cores this process may use: its affinity, capped by the quota of its control groups.

    A part of a core is not counted: the thread that gets it would keep all others waiting.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, *_cpu_quotas(cores)))


def memory_limit() -> MemoryLimit:
    """The tightest memory limit of this process's control groups, or else the machine's memory."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit_bytes = min(_memory_limits(), default=machine_bytes)
    # Version 1 writes "no limit" as a number near 2^63.
    if limit_bytes < machine_bytes:
        return MemoryLimit(limit_bytes, "cgroup")
    return MemoryLimit(machine_bytes, "machine")


def _cpu_quotas(cores: int) -> Iterator[int]:
    yield cores
    for folder in _folders("cpu"):
        limit = _words(folder / "cpu.max") or [
            "".join(_words(folder / name)) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
        # "max" and -1 mean no limit.
        if len(limit) == len(("quota", "period")) and all(word.isdecimal() for word in limit):
            quota_us, period_us = map(int, limit)
            yield quota_us // max(1, period_us)


def _memory_limits() -> Iterator[int]:
    for folder in _folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = "".join(_words(folder / name))
            if limit.isdecimal() and int(limit) > 0:
                yield int(limit)


def _folders(controller: str) -> Iterator[Path]:
    """Where limits of this process may be: its own group and all above it.

    Inside a container the path that /proc names is often the host's, and the container's own group is the
    root of what it sees. Folders that don't exist do no harm.
    """
    try:
        lines = _OWN_CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in [*lines, f"0:{controller}:/", "0::/"]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            bases = [_CGROUPS, _CGROUPS / "unified"]
        elif controller in controllers.split(","):
            bases = [_CGROUPS / controller, _CGROUPS / controllers]
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for base in bases:
            yield from (base / part for part in (group, *group.parents))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []
