"""A failure in CloudFormation's answer: all that tells, in 1,000 characters."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from build_run.failures import ADVICE, Cause, classify_error
from build_run.observation import Build, BuildStatus
from build_run.report import failure_of, telling_lines
from build_run.steps import Fail

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
BUILD = Build(
    "p:1", BuildStatus.FAILED, "BUILD", "C: words", MOMENT, MOMENT, "g", "s", "https://link", "h", "r", "t"
)
FAIL = Fail("build_failed", "p:1 ended FAILED in BUILD.", "Deploy again.", BUILD)


def test_all_parts_in_their_order() -> None:
    assert str(failure_of(FAIL, ["one\n", "two"])) == (
        "build_failed: p:1 ended FAILED in BUILD. C: words Last lines: one | two Next: Deploy again."
        " Log: https://link"
    )
    assert str(failure_of(replace(FAIL, build=None), [])) == (
        "build_failed: p:1 ended FAILED in BUILD. Next: Deploy again."
    )


def test_the_newest_lines_that_fit() -> None:
    text = str(failure_of(FAIL, [f"line {i} {'x' * 80}" for i in range(60)]))
    assert "Last lines: line 5" in text
    assert "line 59" in text
    assert 800 < len(text) <= 1000
    alone = str(failure_of(FAIL, ["early", "y" * 5000]))
    assert "Last lines: early | " + "y" * 299 + "… Next" in alone


def test_the_error_that_the_program_names_is_the_end() -> None:
    lines = ["a", "error: E: what; next step", "next: do", "cleaning", "up", "[Container] 2026 Phase", " "]
    assert telling_lines(lines) == ["a", "error: E: what; next step", "next: do"]
    assert telling_lines(["[Container] 2026 x", "b\tc\x1b[1m\r\n"]) == ["b c [1m"]


def test_a_link_that_is_too_long_gives_way_to_the_logs_name() -> None:
    build = replace(BUILD, link="https://" + "x" * 600)
    assert str(failure_of(replace(FAIL, build=build), [])).endswith("Log: g s")


@given(st.text(max_size=3000), st.text(max_size=3000), st.lists(st.text(max_size=1500), max_size=8))
def test_every_failure_fits(reason: str, context: str, lines: list[str]) -> None:
    build = replace(BUILD, context=context)
    text = str(failure_of(replace(FAIL, reason=reason, build=build), lines))
    assert len(text) <= 1000
    assert text.startswith("build_failed: ")
    assert text.endswith(" Next: Deploy again. Log: https://link")


def test_classified_refusals() -> None:
    assert classify_error("ThrottlingException") is Cause.TRANSIENT
    assert classify_error("SomethingNew", 503) is Cause.TRANSIENT
    assert classify_error("SomethingNew", 429) is Cause.TRANSIENT
    assert classify_error("AccountLimitExceededException") is Cause.LIMIT
    assert classify_error("AccessDenied", 403) is Cause.ACCESS_DENIED
    assert classify_error("RepositoryNotFoundException") is Cause.NOT_FOUND
    assert classify_error("ValidationError") is Cause.UNKNOWN
    assert set(ADVICE) == set(Cause)
