"""What a run was made on: command, versions, and what of the machine moves the numbers."""

import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.setup import MODEL_FILE, ROOT

_SHOWN_FLAGS: Final = ("avx2", "fma", "avx512f", "avx512_vnni", "amx_int8", "asimd", "sve", "i8mm")


def gather(arguments: Sequence[str]) -> dict[str, str]:
    """Name → value, in the order in which they are told."""
    command = f"make bench ARGS={shlex.quote(' '.join(arguments))}" if arguments else "make bench"
    return {
        "command": f"`{command}`",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "model": MODEL_FILE,
        "llama-cpp-python": _pin("requirements-server.txt", "llama-cpp-python"),
        "fastjev": _pin("requirements-bench.txt", "fastjev"),
        "callo": _pin("requirements-bench.txt", "callo"),
        "Python": platform.python_version(),
        "CPU": f"{os.cpu_count()} cores, {platform.machine()}, {_cpu_flags()}; kernels built for AVX2",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _pin(requirements: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)}==(\S+)", (ROOT / requirements).read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def _cpu_flags() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "features unknown"
    words = set(re.findall(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)[:1] or [""])
    flags = set(" ".join(words).split())
    return " ".join(name for name in _SHOWN_FLAGS if name in flags) or "no features told"
