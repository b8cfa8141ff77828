import math

import pytest

from bench.spread import Spread, percentile, ratios, spread


def test_a_spread_is_median_and_range() -> None:
    assert spread([3.0, 1.0, 2.0, 10.0]) == Spread(2.5, 1.0, 10.0, 4)
    assert spread([3.0, 1.0, 2.0]).scaled(1000) == Spread(2000.0, 1000.0, 3000.0, 3)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_a_spread_of_nothing_or_of_no_number_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        spread(values)


def test_ratios_belong_to_a_repetition_so_drift_moves_none() -> None:
    assert ratios([2.0, 4.0, 8.0], [1.0, 2.0, 4.0]) == Spread(2.0, 2.0, 2.0, 3)
    with pytest.raises(ValueError, match="as many"):
        ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize(("share", "expected"), [(0.5, 10), (0.95, 19), (1.0, 20), (0.01, 1)])
def test_a_percentile_is_one_of_the_values(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(20, 0, -1)], share) == expected
