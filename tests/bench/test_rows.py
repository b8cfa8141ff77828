import pytest

from bench.rows import GROUPS, MODES, ROWS, Measured, Verdict
from bench.spread import spread


def test_every_row_has_a_name_of_its_own_and_a_bound_for_both_modes() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert all(set(row.targets) == set(MODES) for row in ROWS)
    assert GROUPS == ("fresh", "short", "shared", "callers", "behind", "overhead", "start")


@pytest.mark.parametrize(
    ("row_id", "values", "verdict"),
    [
        ("fresh-raw", [0.95, 0.96, 0.94], "met"),
        ("fresh-raw", [0.94, 0.90, 1.10], "not met"),  # a bound that is no equality: its spread is no excuse
        ("later-callo", [1.02, 0.98, 1.03], "equal within the spread"),
        ("later-callo", [1.02, 1.01, 1.03], "not met"),
        ("later-callo", [0.99, 0.98, 1.03], "met"),
        ("shared-callo", [1.06, 0.98, 1.07], "not met"),  # 1.05 is allowed already
        ("callers-throughput", [0.98, 0.97, 1.01], "equal within the spread"),
        ("callers-refused", [0.0, 1.0, 1.0], "not met"),
    ],
)
def test_the_verdict_is_the_medians(row_id: str, values: list[float], verdict: Verdict) -> None:
    assert Measured(row_id, "exact", spread(values)).verdict == verdict


def test_modes_have_bounds_of_their_own() -> None:
    value = spread([0.92])

    assert Measured("shared-raw", "exact", value).verdict == "met"
    assert Measured("shared-raw", "throughput", value).verdict == "not met"
