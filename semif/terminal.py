"""Text that is safe and legible in a terminal of any width: durations, tables, foreign text."""

import unicodedata
from collections.abc import Sequence


def duration(seconds: float) -> str:
    """A span for people: `4 s`, `9 m 12 s`, `1 h 2 m`. Whole seconds, rounded down; never negative."""
    whole_s = max(0, int(seconds))
    hours, rest_s = divmod(whole_s, 3600)
    minutes, secs = divmod(rest_s, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {secs} s" if minutes else f"{secs} s"


def time_left(seconds: float) -> str:
    """What remains of a budget, in whole minutes rounded down: `31 min left`, `no time left`."""
    if seconds <= 0:
        return "no time left"
    return f"{int(seconds // 60)} min left" if seconds >= 60 else "under 1 min left"


def printable(text: str) -> str:
    """Foreign text on one line: runs of white space become a space, control characters a replacement mark.

    Servers, logs and AWS choose this text; an escape sequence in it must not reach the terminal.
    """
    one_line = " ".join(text.split())
    return "".join("\N{REPLACEMENT CHARACTER}" if _unsafe(char) else char for char in one_line)


def _unsafe(char: str) -> bool:
    # Cc: controls; Cf: bidirectional overrides and other invisible marks; Cs: halves of a pair.
    # The joiner of emoji and of several scripts is harmless.
    return unicodedata.category(char) in {"Cc", "Cf", "Cs"} and char != "\N{ZERO WIDTH JOINER}"


def columns(rows: Sequence[tuple[str, str]], *, indent: str = "  ") -> list[str]:
    """Names and values in two columns; values are never cut."""
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{indent}{name:<{width}}  {value}".rstrip() for name, value in rows]


def bars(rows: Sequence[tuple[str, float]], *, width: int) -> list[str]:
    """One line per (label, probability): label, probability with six decimals, a bar.

    Narrow terminals (`width` columns) lose the bar first, then the label moves to a line of its own;
    the probability is always whole.
    """
    number_width = 8
    label_width = max((len(label) for label, _ in rows), default=0)
    if label_width + 2 + number_width > width:
        return [line for label, p in rows for line in (label, f"  {p:.6f}")]
    bar_width = min(40, width - label_width - number_width - 4)
    lines = []
    for label, p in rows:
        bar = "█" * round(max(0.0, min(1.0, p)) * bar_width) if bar_width >= 5 else ""
        lines.append(f"{label:<{label_width}}  {p:.6f}  {bar}".rstrip())
    return lines


def bytes_text(size_bytes: int) -> str:
    """A size for people, in powers of 1000: `0 B`, `812 kB`, `3.01 GB`."""
    value, units = float(size_bytes), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.3g} {units[0]}"
