"""One local AWS per worker for the matrix, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localaws.session import LocalAws
from tests.faults.matrix import OPERATIONS, Cell, Lab

_SHOWN = 150


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("matrix")
    with LocalAws(ready_s=0.02, poll_s=0.1, log=folder / "log") as aws:
        aws.put_endpoint_times(longest_wait_s=0.1)
        yield Lab(aws, folder)
    assert "Traceback" not in (folder / "log").read_text()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            found = dict(report.user_properties)
            if "matrix" in found and report.when == "call":
                rows.append((found["order"], outcome, found["matrix"], found["cells"]))
    if not rows:
        return
    terminalreporter.section("fault matrix")
    for _, outcome, name, cells in sorted(rows, key=lambda row: row[0]):
        terminalreporter.write_line(f"{name}{'' if outcome == 'passed' else '   <- NOT AS SPECIFIED'}")
        for operation in OPERATIONS:
            if operation in cells:
                cell = Cell(**cells[operation])
                terminalreporter.write_line(f"  {operation:8} {line(cell)}")


def line(cell: Cell) -> str:
    """Return a cell as one line of the table."""
    shown = cell.message if len(cell.message) <= _SHOWN else f"{cell.message[:_SHOWN]}…"
    kept = f"left {cell.left}" + (f", record {cell.record}" if cell.record else "")
    return f"{cell.status:26} serves {cell.serving:22} {kept:16} {shown}".rstrip()
