"""The container's minder, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localaws.sagemaker import shim

OWNER = """
import subprocess, sys, time
minder = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print("up", flush=True)
time.sleep(60)
"""
SERVER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1]).write_text(f"{child.pid}")
time.sleep(60)
"""


def minder(folder: Path, *command: str, grace_s: float = 1.0) -> list[str]:
    return [sys.executable, "-I", "-S", shim.__file__, str(grace_s), str(folder), *command]


def gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "container"
    (made / "model").mkdir(parents=True)
    (made / "model" / "file").write_text("x")
    (made / "model" / "file").chmod(0o444)
    (made / "model").chmod(0o555)
    return made


@pytest.mark.parametrize(
    ("program", "status"),
    [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9)],
)
def test_the_program_s_status_is_the_minder_s_and_the_folder_goes(
    folder: Path, program: str, status: int
) -> None:
    command = minder(folder, sys.executable, "-c", program)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(10) == status
    assert not folder.exists()


def test_the_program_is_asked_to_stop_when_standard_input_ends(folder: Path) -> None:
    program = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); " + (
        "print('up', flush=True); time.sleep(60)"
    )
    command = minder(folder, sys.executable, "-c", program, grace_s=10)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"up\n"
        process.stdin.close()
        assert process.wait(5) == 5


def test_a_program_that_is_not_there_is_status_127(folder: Path) -> None:
    with subprocess.Popen(
        minder(folder, "/no/such/program"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.wait(10) == shim.CANNOT_START
        assert process.stderr is not None
        assert process.stderr.read() == "cannot start '/no/such/program': No such file or directory\n"
    assert not folder.exists()


def test_the_program_and_its_children_end_when_the_owner_is_killed(folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    command = minder(folder, sys.executable, "-c", SERVER, str(written))
    with subprocess.Popen([sys.executable, "-c", OWNER, *command], stdout=subprocess.PIPE) as owner:
        grandchild = int(wait_for_text(written))
        parent = int(Path(f"/proc/{grandchild}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(owner.pid, signal.SIGKILL)
        wait_until_gone(grandchild)
        wait_until_gone(parent)
    deadline = time.monotonic() + 10
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
