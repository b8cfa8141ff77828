"""Limits of control groups, from files as the kernel writes them."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from semif_server import machine
from semif_server.machine import MemoryLimit, memory_limit, usable_cores
from semif_server.settings import load_settings

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MACHINE_BYTES = 8 * 2**30
V1_NO_LIMIT = "9223372036854771712"
V1_ROOT = "5:cpu,cpuacct:/\n4:memory:/\n0::/\n"


@pytest.fixture(autouse=True)
def four_cores_and_8_gib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    numbers = {"SC_PAGE_SIZE": PAGE_BYTES, "SC_PHYS_PAGES": MACHINE_BYTES // PAGE_BYTES}
    monkeypatch.setattr("os.sysconf", numbers.__getitem__)


def write(tmp_path: Path, own: str, files: Mapping[str, str]) -> None:
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def v1_cpu(folder: str, quota: str, period: str = "100000") -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/", {}, 4),
        ("0::/", {"cpu.max": "max 100000"}, 4),
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "150000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "800000 100000"}, 4),
        ("0::/", {"cpu.max": "nonsense"}, 4),
        ("0::/pod/main\n", {"pod/cpu.max": "300000 100000", "pod/main/cpu.max": "max 100000"}, 3),
        ("0::/pod/main\n", {"pod/cpu.max": "300000 100000", "pod/main/cpu.max": "20000 10000"}, 2),
        ("0::/the/hosts/path\n", {"cpu.max": "200000 100000"}, 2),
        (V1_ROOT, v1_cpu("cpu", "-1"), 4),
        (V1_ROOT, v1_cpu("cpu", "200000"), 2),
        (V1_ROOT, v1_cpu("cpu", "150000"), 1),
        (V1_ROOT, v1_cpu("cpu,cpuacct", "75000", "25000"), 3),
        ("5:cpu,cpuacct:/docker/ab\n", v1_cpu("cpu/docker/ab", "200000") | v1_cpu("cpu", "-1"), 2),
        ("5:cpu,cpuacct:/docker/ab\n", v1_cpu("cpu", "200000"), 2),
        ("5:cpuset:/small\n0::/\n", v1_cpu("cpuset/small", "100000"), 4),
    ],
)
def test_threads_follow_the_containers_cpu_limit(
    tmp_path: Path, own: str, files: Mapping[str, str], cores: int
) -> None:
    write(tmp_path, own, files)
    assert usable_cores() == cores
    assert load_settings().threads == cores


def test_fewer_cores_than_the_quota_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "0::/", {"cpu.max": "300000 100000"})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1})
    assert usable_cores() == 1


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {}, MemoryLimit(MACHINE_BYTES, "machine")),
        ("0::/", {"memory.max": "max"}, MemoryLimit(MACHINE_BYTES, "machine")),
        ("0::/", {"memory.max": str(2**31)}, MemoryLimit(2**31, "cgroup")),
        ("0::/", {"memory.max": str(2**40)}, MemoryLimit(MACHINE_BYTES, "machine")),
        (
            "0::/pod/main\n",
            {"pod/memory.max": str(2**30), "pod/main/memory.max": str(2**31)},
            MemoryLimit(2**30, "cgroup"),
        ),
        (V1_ROOT, {"memory/memory.limit_in_bytes": V1_NO_LIMIT}, MemoryLimit(MACHINE_BYTES, "machine")),
        (V1_ROOT, {"memory/memory.limit_in_bytes": str(2**32)}, MemoryLimit(2**32, "cgroup")),
        (
            "4:memory:/docker/ab\n",
            {
                "memory/memory.limit_in_bytes": V1_NO_LIMIT,
                "memory/docker/ab/memory.limit_in_bytes": str(2**31),
            },
            MemoryLimit(2**31, "cgroup"),
        ),
    ],
)
def test_memory_is_the_tightest_limit(
    tmp_path: Path, own: str, files: Mapping[str, str], expected: MemoryLimit
) -> None:
    write(tmp_path, own, files)
    assert memory_limit() == expected


def test_without_control_groups_the_machine_counts() -> None:
    assert usable_cores() == 4
    assert memory_limit() == MemoryLimit(MACHINE_BYTES, "machine")
