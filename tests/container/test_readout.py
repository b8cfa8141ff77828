import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semif_server.readout import log_sum_exp, read_options

NONE: dict[int, np.ndarray] = {}


def single(*ids: int) -> list[tuple[int, ...]]:
    return [(token,) for token in ids]


logits = st.floats(min_value=-1e4, max_value=1e4, width=32)
rows = st.lists(logits, min_size=3, max_size=60).map(lambda values: np.array(values, dtype=np.float32))


@given(row=rows, data=st.data())
def test_probabilities_are_the_softmax_of_the_options(row: np.ndarray, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(row) - 1), min_size=2, max_size=len(row), unique=True))
    readout = read_options(row, single(*ids), NONE)
    assert math.isclose(sum(readout.probabilities), 1.0, abs_tol=1e-12)
    assert readout.option_logits == tuple(float(row[token]) for token in ids)
    highest = max(readout.option_logits)
    exponentials = [math.exp(logit - highest) for logit in readout.option_logits]
    for probability, exponential in zip(readout.probabilities, exponentials, strict=True):
        assert math.isclose(probability, exponential / sum(exponentials), abs_tol=1e-12)
    assert 0.0 <= readout.allowed_token_mass <= 1.0
    assert row[readout.full_vocab_argmax_id] == row.max()


@given(row=rows, shift=st.floats(min_value=-100, max_value=100))
def test_a_shift_of_all_logits_changes_no_probability(row: np.ndarray, shift: float) -> None:
    shifted = (row.astype(np.float64) + shift).astype(np.float32)
    difference = np.abs((shifted.astype(np.float64) - shift) - row).max()
    before, after = read_options(row, single(0, 1), NONE), read_options(shifted, single(0, 1), NONE)
    assert before.probabilities == pytest.approx(after.probabilities, abs=4 * difference + 1e-9)


def test_the_mass_is_the_options_share_of_the_whole_vocabulary() -> None:
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], dtype=np.float64)).astype(np.float32)
    readout = read_options(row, single(1, 2), NONE)
    assert readout.allowed_token_mass == pytest.approx(0.375, abs=1e-7)
    assert readout.probabilities == pytest.approx((2 / 3, 1 / 3), abs=1e-7)
    assert readout.full_vocab_argmax_id == 0
    assert read_options(row, single(0, 1, 2, 3), NONE).allowed_token_mass == pytest.approx(1.0)


def test_order_of_the_options_only_reorders() -> None:
    row = np.array([3.0, -1.0, 2.0], dtype=np.float32)
    assert (
        read_options(row, single(0, 1, 2), NONE).probabilities
        == read_options(row, single(2, 1, 0), NONE).probabilities[::-1]
    )


def test_log_sum_exp_does_not_overflow() -> None:
    assert log_sum_exp(np.array([1e4, 1e4])) == pytest.approx(1e4 + math.log(2))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_is_an_error(wrong: float) -> None:
    with pytest.raises(FloatingPointError):
        read_options(np.array([0.0, 1.0, wrong], dtype=np.float32), single(0, 1), NONE)


def test_the_row_is_left_as_it_was() -> None:
    row = np.array([3.0, -1.0, 2.0], dtype=np.float32)
    read_options(row, single(0, 1), NONE)
    assert row.tolist() == [3.0, -1.0, 2.0]


@given(row=rows, data=st.data())
def test_two_steps_multiply_the_whole_vocabularys_probabilities(row: np.ndarray, data: st.DataObject) -> None:
    tokens = st.integers(0, len(row) - 1)
    codes = data.draw(st.lists(st.tuples(tokens, tokens), min_size=2, max_size=9, unique=True))
    draw_row = st.lists(st.floats(-30, 30, width=32), min_size=len(row), max_size=len(row))
    first = np.array(data.draw(draw_row), dtype=np.float32)
    seconds = {token: np.array(data.draw(draw_row), dtype=np.float32) for token in {one for one, _ in codes}}
    readout = read_options(first, codes, seconds)
    joint = [softmax(first)[one] * softmax(seconds[one])[other] for one, other in codes]
    for logit, probability, product in zip(readout.option_logits, readout.probabilities, joint, strict=True):
        assert math.isclose(logit, math.log(product), abs_tol=1e-9)
        assert math.isclose(probability, product / sum(joint), abs_tol=1e-9)
    assert readout.allowed_token_mass == pytest.approx(min(1.0, sum(joint)), abs=1e-9)
    assert readout.full_vocab_argmax_id == int(first.argmax())


def softmax(row: np.ndarray) -> list[float]:
    exponentials = [math.exp(float(logit) - float(row.max())) for logit in row]
    return [one / sum(exponentials) for one in exponentials]


def test_a_second_row_that_is_not_finite_is_an_error() -> None:
    row = np.zeros(3, dtype=np.float32)
    with pytest.raises(FloatingPointError):
        read_options(row, [(0, 1), (1, 2)], {0: row, 1: np.array([0.0, math.nan, 0.0], dtype=np.float32)})
