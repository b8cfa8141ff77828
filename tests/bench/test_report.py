import json
from pathlib import Path

import pytest

from bench import report
from bench.rows import ROWS, Measured
from bench.spread import spread

FULL = {"command": "`make bench`", "load before": "0.10"}
PART = {"command": "`make bench ARGS='--only start'`", "load before": "0.20"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmark.md"


def test_a_part_replaces_its_own_rows_and_keeps_what_the_others_ran_on() -> None:
    first = report.merge(
        {}, [Measured("start", "exact", spread([3.0])), Measured("overhead", "exact", spread([2.0]))], FULL
    )

    second = report.merge(first, [Measured("start", "exact", spread([1.0]), "a note")], PART)

    assert list(second["rows"]) == ["overhead:exact", "start:exact"]
    assert second["rows"]["overhead:exact"] == first["rows"]["overhead:exact"]
    assert second["rows"]["start:exact"]["median"] == 1.0
    assert second["rows"]["start:exact"]["verdict"] == "met"
    assert second["rows"]["start:exact"]["run"] == PART
    assert json.loads(json.dumps(second)) == second


def test_rows_that_no_longer_exist_go() -> None:
    known = report.merge({}, [Measured("start", "exact", spread([1.0]))], FULL)
    known["rows"]["gone:exact"] = known["rows"]["start:exact"]

    assert list(report.merge(known, [], FULL)["rows"]) == ["start:exact"]


def test_the_table_has_every_row_and_says_what_was_not_measured() -> None:
    measured = [
        Measured("start", "exact", spread([1.5, 1.4, 1.6])),
        Measured("start", "throughput", spread([2.5]), "a note"),
    ]

    lines = report.table(report.merge({}, measured, FULL)).splitlines()

    assert len([line for line in lines if line.startswith("| ")]) == 1 + len(ROWS)
    assert (
        "| process start to the first 200 of /ping, warm disk | 1.5 (1.4–1.6) s; target ≤ 2: **met**"
        " | 2.5 s; target ≤ 2: **not met** |" in lines
    )
    assert f"| {ROWS[0].measure} | not measured | not measured |" in lines
    assert "command `make bench`; load before 0.10" in lines
    assert "- start:throughput: a note" in lines


def test_the_table_goes_between_the_markers_of_the_document() -> None:
    text = report.replace_table(DOCUMENT.read_text(), "new table")

    assert f"{report.BEGIN}\nnew table\n{report.END}" in text
    assert text.split(report.BEGIN)[0] == DOCUMENT.read_text().split(report.BEGIN)[0]
    with pytest.raises(ValueError, match="needs the lines"):
        report.replace_table("no markers", "new table")
