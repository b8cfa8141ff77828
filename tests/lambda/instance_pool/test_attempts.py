"""Tags and attempts: what is written can be read, and fits."""

import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool.attempts import (
    Attempt,
    Outcome,
    attempt_text,
    attempts_text,
    ended_tags,
    first_tags,
    parse_attempt,
    started_tags,
    tag_value,
)

MOMENT = datetime(2026, 11, 30, 22, 5, 9, tzinfo=UTC)


@given(st.text(max_size=600))
def test_any_text_becomes_a_tag_value(text: str) -> None:
    value = tag_value(text)
    assert len(value) <= 256
    assert all(unicodedata.category(c)[0] in "LZN" or c in "_.:/=+-@" for c in value)
    assert tag_value(value) == value


def test_a_tag_value_is_cut_to_what_a_tag_holds() -> None:
    assert tag_value("x" * 257) == "x" * 256


def test_of_a_long_reason_the_beginning_is_told() -> None:
    failed = Attempt("r", Outcome.CAPACITY, "y" * 256)
    assert attempts_text([("t", failed)], with_reasons=True) == f"t: no capacity ({'y' * 120})"


def test_a_tag_value_keeps_what_it_can() -> None:
    assert (
        tag_value("limit 'ml.g6.xlarge' is 0 (of 5), größer: ≥1\n")
        == "limit ml.g6.xlarge is 0 of 5 größer: 1"
    )
    assert (
        tag_value("arn:aws:cloudformation:eu-west-1:1:stack/a/b")
        == "arn:aws:cloudformation:eu-west-1:1:stack/a/b"
    )


@given(
    st.sampled_from(Outcome),
    st.text(max_size=400),
    st.integers(0, 4000),
    st.from_regex("[a-z0-9-]{1,40}", fullmatch=True),
)
def test_an_attempt_reads_back_from_its_tags(
    outcome: Outcome, reason: str, seconds: int, request_id: str
) -> None:
    ended_at = MOMENT + timedelta(seconds=seconds)
    tags = {
        **first_tags(
            stack_id="s", endpoint_name="e", instance_types=["a", "b"], index=1, request_id=request_id
        ),
        **started_tags(MOMENT),
        **ended_tags(outcome, reason, ended_at),
    }
    assert parse_attempt(tags) == Attempt(request_id, outcome, tag_value(reason), MOMENT, ended_at)
    assert tags["semif:position"] == "2/2"
    assert tags["semif:pool"] == "a b"
    assert tags["semif:started-at"] == "2026-11-30T22:05:09Z"


def test_nonsense_in_tags_counts_as_absent() -> None:
    assert parse_attempt({"semif:outcome": "great", "semif:started-at": "today"}) == Attempt("")


@pytest.mark.parametrize(
    ("outcome", "seconds", "text"),
    [
        (Outcome.CAPACITY, 552, "ml.x: no capacity after 9 m 12 s"),
        (Outcome.IN_SERVICE, 42, "ml.x: in service after 42 s"),
        (Outcome.QUOTA, None, "ml.x: no quota"),
        (Outcome.FAILED, -3, "ml.x: failed after 0 s"),
    ],
)
def test_attempts_in_words(outcome: Outcome, seconds: int | None, text: str) -> None:
    started_at = None if seconds is None else MOMENT
    ended_at = MOMENT + timedelta(seconds=seconds or 0)
    assert attempt_text("ml.x", Attempt("r", outcome, "", started_at, ended_at)) == text


@given(st.integers(0, 120), st.integers(0, 1000))
def test_many_attempts_fit(count: int, limit: int) -> None:
    attempt = Attempt("r", Outcome.CAPACITY, "größer " * 30, MOMENT, MOMENT + timedelta(seconds=600))
    entries = [(f"ml.type{i}.xlarge", attempt) for i in range(count)]
    for with_reasons in (False, True):
        text = attempts_text(entries, with_reasons=with_reasons)
        assert len(text.encode()) <= 1000
        assert bool(text) == bool(count)
        if count:
            assert entries[-1][0] in text
    assert len(attempts_text(entries, max(limit, 20)).encode()) <= max(limit, 20)
