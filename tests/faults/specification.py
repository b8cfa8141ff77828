"""What each cell must be: from the row's expectations to status, serving fleet, leftovers and message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tests.faults.matrix import OK, Cell, Lab, Row

_GOOD = {
    "create": "CREATE_COMPLETE",
    "update": "UPDATE_COMPLETE",
    "rollback": "UPDATE_ROLLBACK_COMPLETE",
    "delete": "DELETE_COMPLETE",
}
_BAD = {
    "create": "ROLLBACK_COMPLETE",
    "update": "UPDATE_ROLLBACK_COMPLETE",
    "rollback": "UPDATE_ROLLBACK_FAILED",
    "delete": "DELETE_FAILED",
}


def record(record_property: Any, name: str, order: int, cells: Mapping[str, Cell]) -> None:
    """Keep a row for the table at the end."""
    record_property("matrix", name)
    record_property("order", order)
    record_property("cells", {operation: asdict(cell) for operation, cell in cells.items()})


def check(lab: Lab, row: Row, order: int, record_property: Any) -> None:
    """Run a row, record it for the table, and compare every cell with the specification."""
    cells = lab.run(row, order)
    record(record_property, row.name, order, cells)
    assert set(cells) == {name for name in _GOOD if row.expected(name) is not None}
    served = 1
    for operation, cell in cells.items():
        text = row.expected(operation) or OK
        told = f"{row.name}, {operation}: {cell}"
        good = text == OK
        bad = "UPDATE_ROLLBACK_FAILED" if row.stuck and operation == "update" else _BAD[operation]
        assert cell.status == (_GOOD[operation] if good else bad), told
        assert cell.left == 0, told
        if operation == "update" and good:
            served += 1
        shown = {
            "create": "1" if good else "-",
            "update": str(served),
            "rollback": str(served if good else served + 1),
            "delete": "-",
        }[operation]
        if row.stuck and operation in {"update", "rollback"}:
            shown = "UpdateRollbackFailed"
        assert cell.serving.split(" ")[0] == shown, told
        if good and row.serves and operation in {"create", "update"}:
            assert f" on {row.serves}" in cell.serving, told
        if row.by_hand == "scaling" and operation in {"update", "rollback"}:
            assert cell.serving.endswith(", scaled"), told
        if operation == "rollback":
            assert cell.message.startswith("Message returned: the blocker fails"), told
        elif good:
            assert cell.message == "", told
        assert text in cell.message, told
    assert lab.endpoint(f"matrix-{order}") is None
    assert lab.configurations(f"matrix-{order}") == {}
