"""What the benchmark ran on. Standard library only."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any, Final

from bench.gpu.carried import ROOT, carried_bytes
from bench.gpu.toolkit import answer_of

_GPU_FIELDS: Final = (
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "compute_cap",
    "power.limit",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "temperature.gpu",
)


def machine_facts() -> dict[str, Any]:
    """Versions and sizes; empty where a program is missing."""
    return {
        "gpus": gpu_facts(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cmake": answer_of("cmake", "--version").partition("\n")[0],
        "ninja": answer_of("ninja", "--version"),
        "compiler": answer_of("c++", "--version").partition("\n")[0],
        "commit": _commit(),
        "carried_bytes": carried_bytes(),
    }


def gpu_facts() -> list[dict[str, str]]:
    """What nvidia-smi says of each card at this moment."""
    answer = answer_of("nvidia-smi", f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader")
    return [
        dict(zip(_GPU_FIELDS, (value.strip() for value in line.split(",")), strict=False))
        for line in answer.splitlines()
    ]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip()
