"""Every code is documented with its status, and errors say when to come back."""

import re
from pathlib import Path

import pytest

from semif_server import errors
from semif_server.errors import Code, UnavailableError, status_of

ROWS = [
    (set(re.findall(r"\d+", statuses)), set(re.findall(r"`(\w+)`", codes)))
    for statuses, codes in re.findall(
        r"^\| ([\d, ]+) \| ([^|]+) \|",
        (Path(__file__).parents[2] / "docs/errors.md").read_text(),
        re.MULTILINE,
    )
]


@pytest.mark.parametrize("code", Code)
def test_every_code_has_one_row_with_its_status(code: Code) -> None:
    rows = [statuses for statuses, codes in ROWS if code.value in codes]
    assert len(rows) == 1, code
    assert str(status_of(code)) in rows[0]


def test_no_row_is_of_another_code() -> None:
    assert {code for _, codes in ROWS for code in codes} == {code.value for code in Code}


@pytest.mark.parametrize(
    ("seconds", "header"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (3.01, "4"), (60.0, "60")]
)
def test_the_retry_header_is_whole_seconds_rounded_up(seconds: float, header: str) -> None:
    error = UnavailableError(Code.BUSY, "x", seconds)
    assert error.headers == {"retry-after": header}


def test_a_refusal_names_the_wait_the_setting_and_when_to_come_back() -> None:
    late = errors.busy(wait_s=71.4, deadline_s=55.0, retry_after_s=17.2)
    assert (late.status, late.retryable, late.retry_after_s) == (503, True, 17.2)
    for part in ("about 71 seconds", "55 after it arrived", "in 17 seconds", "SEMIF_DEADLINE_S"):
        assert part in late.message
    full = errors.queue_full(queued_tokens=1_048_000, limit_tokens=1_048_576, retry_after_s=60.0)
    assert full.code is Code.BUSY
    for part in ("1,048,000 tokens", "SEMIF_MAX_QUEUE_TOKENS", "1,048,576", "in 60 seconds"):
        assert part in full.message
