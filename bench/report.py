"""Results → bench/results.json and the table of docs/benchmark.md. A part of a run replaces its own rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.rows import MODES, ROWS, Measured, Mode, Row
from bench.spread import Spread

BEGIN: Final = "<!-- make bench: begin -->"
END: Final = "<!-- make bench: end -->"
_FORMAT: Final = 1
_EMPTY: Final = "not measured"


def as_entry(measured: Measured, facts: Mapping[str, Any]) -> dict[str, Any]:
    """One row in one mode, with what it was measured on."""
    row = measured.row
    return {
        "measure": row.measure,
        "mode": measured.mode,
        "target": f"{row.sense} {measured.target:.4g}",
        "unit": row.unit,
        **asdict(measured.value),
        "verdict": measured.verdict,
        "note": measured.note,
        "run": dict(facts),
    }


def merge(known: Mapping[str, Any], measured: Sequence[Measured], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The results with these rows replaced, in the table's order; rows that no longer exist go."""
    rows: dict[str, Any] = dict(known.get("rows", {}))
    rows.update({_name(one.row_id, one.mode): as_entry(one, facts) for one in measured})
    ordered = [_name(row.id, mode) for row in ROWS for mode in MODES]
    return {"format": _FORMAT, "rows": {name: rows[name] for name in ordered if name in rows}}


def read_results(path: Path) -> dict[str, Any]:
    """The results so far, empty if there are none."""
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known


def table(results: Mapping[str, Any]) -> str:
    """The table and below it what it was measured on, as Markdown."""
    rows = results["rows"]
    lines = ["| measure | " + " | ".join(MODES) + " |", "|---|---|---|"]
    lines += [
        f"| {row.measure} | " + " | ".join(_cell(row, rows.get(_name(row.id, mode))) for mode in MODES) + " |"
        for row in ROWS
    ]
    runs: dict[str, list[str]] = {}
    for name, entry in rows.items():
        runs.setdefault(_describe(entry["run"]), []).append(name.split(":")[0])
    for run, names in runs.items():
        of = "" if len(runs) == 1 else f"{', '.join(dict.fromkeys(names))}: "
        lines += ["", f"{of}{run}"]
    notes = [f"- {name}: {entry['note']}" for name, entry in rows.items() if entry["note"]]
    return "\n".join([*lines, "", "Both sides, median (lowest–highest):", "", *notes])


def replace_table(document: str, text: str) -> str:
    """The document with this text between its markers. Raises ValueError if it does not have both."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def shown(value: Spread, digits: int = 3) -> str:
    """`0.97 (0.95–0.99)`, with so many significant digits."""
    if value.count == 1:
        return f"{value.median:.{digits}g}"
    return f"{value.median:.{digits}g} ({value.low:.{digits}g}–{value.high:.{digits}g})"


def _name(row_id: str, mode: Mode) -> str:
    return f"{row_id}:{mode}"


def _cell(row: Row, entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return _EMPTY
    value = Spread(entry["median"], entry["low"], entry["high"], entry["count"])
    unit = f" {row.unit}" if row.unit else ""
    sign = "≥" if row.sense == ">=" else "≤"
    bound = entry["target"].split()[1]
    return f"{shown(value)}{unit}; target {sign} {bound}: **{entry['verdict']}**"


def _describe(facts: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items())
