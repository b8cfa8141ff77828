"""Durations, tables in narrow terminals, foreign text."""

import pytest

from semif.terminal import bars, columns, duration, printable, time_left


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 m 0 s"),
        (552, "9 m 12 s"),
        (3599, "59 m 59 s"),
        (3725, "1 h 2 m"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3300, "55 min left"),
        (119, "1 min left"),
        (59, "under 1 min left"),
        (0, "no time left"),
        (-5, "no time left"),
    ],
)
def test_time_left(seconds: float, text: str) -> None:
    assert time_left(seconds) == text


def test_bars_fill_the_width() -> None:
    assert bars([("yes", 0.75), ("no", 0.25)], width=30) == [
        "yes  0.750000  ███████████",
        "no   0.250000  ████",
    ]


@pytest.mark.parametrize("width", [1, 10, 20, 24, 40, 200])
def test_no_width_cuts_a_probability(width: int) -> None:
    lines = bars([("a_rather_long_option", 0.123456), ("b", 0.876544)], width=width)
    text = "\n".join(lines)
    assert "0.123456" in text
    assert "0.876544" in text
    assert "a_rather_long_option" in text
    if width >= 20:
        assert all(len(line) <= width for line in lines)


def test_columns_keep_values_whole() -> None:
    assert columns([("A", "x" * 200), ("LongName", "")]) == [f"  A         {'x' * 200}", "  LongName"]


@pytest.mark.parametrize("hostile", ["\x1b]0;title\x07", "a\u202eb", "\x9b31m", "\ud800"])
def test_control_text_is_defused(hostile: str) -> None:
    shown = printable(hostile)
    assert "\ufffd" in shown
    assert not set(shown) & {"\x1b", "\x07", "\u202e", "\x9b", "\ud800"}


def test_ordinary_text_is_kept() -> None:
    text = "größer 日本語 👩\u200d💻 → 4 %"
    assert printable(text) == text
