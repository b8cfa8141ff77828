"""Tags and attempts: what is written can be read, and fits."""

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool.attempts import (
    Attempt,
    Outcome,
    attempt_text,
    ended_tags,
    first_tags,
    joined,
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
        **tags_at_first(request_id=request_id, skipped=["ml.y: quota is 0"]),
        **started_tags(MOMENT, "It failed before."),
        **ended_tags(outcome, reason, ended_at, "b"),
    }
    assert parse_attempt(tags) == Attempt(
        request_id,
        ("a", "b"),
        outcome,
        tag_value(reason),
        MOMENT,
        ended_at,
        dropped="b",
        skipped=("ml.y: quota is 0",),
        reason_before="It failed before.",
    )
    assert tags["semif:position"] == "2/3"
    assert tags["semif:next"] == "c"
    assert "semif:last-resort" not in tags
    assert tags["semif:pool"] == "a b"
    assert tags["semif:started-at"] == "2026-11-30T22:05:09Z"


def test_the_last_round_has_no_next_and_may_be_the_last_resort() -> None:
    tags = tags_at_first(next_types=[], last_resort=True)
    assert tags["semif:last-resort"] == "true"
    assert "semif:next" not in tags


@given(st.lists(st.text(max_size=120), max_size=40))
def test_skipped_types_fit_into_tags(entries: list[str]) -> None:
    skipped = [f"ml.t{number}: {entry}" for number, entry in enumerate(entries)]
    tags = tags_at_first(skipped=skipped)
    assert all(len(value) <= 256 for value in tags.values())
    assert len(tags) <= 16
    told = parse_attempt(tags).skipped
    named = [text.partition(":")[0] for text in told if not text.endswith("more types")]
    assert named == [f"ml.t{number}" for number in range(len(named))]
    if len(named) < len(skipped):
        assert told[-1] == f"{len(skipped) - len(named)} more types"


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
    assert attempt_text(Attempt("r", ("ml.x",), outcome, "", started_at, ended_at)) == text


def test_a_round_in_words() -> None:
    both = Attempt("r", ("ml.x", "ml.y"), Outcome.CAPACITY)
    assert attempt_text(both) == "ml.x, ml.y: no capacity"
    assert attempt_text(replace(both, outcome=Outcome.IN_SERVICE), ("ml.y",)) == "ml.y: in service"
    assert attempt_text(replace(both, outcome=Outcome.QUOTA, dropped="ml.y")) == "ml.y: no quota"
    assert attempt_text(replace(both, outcome=Outcome.QUOTA, dropped="ml.z")) == "ml.x, ml.y: no quota"


@given(st.integers(0, 120), st.integers(20, 1000))
def test_many_entries_fit(count: int, limit: int) -> None:
    entries = [f"ml.type{i}.xlarge: größer" for i in range(count)]
    for most in (1000, limit):
        text = joined(entries, most)
        assert len(text.encode()) <= most
        assert bool(text) == bool(count)
    if count:
        assert entries[-1] in joined(entries)


def tags_at_first(**more: Any) -> dict[str, str]:
    given_tags: dict[str, Any] = {
        "stack_id": "s",
        "endpoint_name": "e",
        "request_id": "r",
        "types": ["a", "b"],
        "next_types": ["c"],
        "index": 1,
        "rounds": 3,
        "last_resort": False,
        "skipped": [],
    }
    return first_tags(**given_tags | more)
