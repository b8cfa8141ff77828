"""The rows of the benchmark's table: what is measured, what it must show, and whether it does. Pure."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bench.spread import Spread

Mode = Literal["exact", "throughput"]
Sense = Literal[">=", "<="]
Verdict = Literal["met", "equal within the spread", "not met"]

MODES: Final[tuple[Mode, ...]] = ("exact", "throughput")
_HOLDS: Final[Mapping[Sense, Callable[[float, float], bool]]] = {">=": operator.ge, "<=": operator.le}
_EQUALITY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    group: the measurement that it comes from. targets: a bound for each mode. unit: of value and bound.
    is_ratio: whether the value is this server's over another's, so that 1.0 means equality.
    """

    id: str
    group: str
    measure: str
    sense: Sense
    targets: Mapping[Mode, float]
    unit: str = ""
    is_ratio: bool = False


def _both(target: float) -> dict[Mode, float]:
    return {"exact": target, "throughput": target}


ROWS: Final[tuple[Row, ...]] = (
    Row("fresh-raw", "fresh", "fresh, 1,500 tokens: speed over raw llama.cpp", ">=", _both(0.95), "×"),
    Row(
        "short-raw",
        "short",
        "fresh, 100 tokens: speed over raw llama.cpp in one chunk",
        ">=",
        {"exact": 0.85, "throughput": 0.9},
        "×",
    ),
    Row("short-fastjev", "short", "fresh decisions/s over fastjev's", ">=", _both(2.0), "×"),
    Row("short-callo", "short", "fresh, short: time over callo's", "<=", _both(1.0), "×", is_ratio=True),
    Row(
        "shared-fresh",
        "shared",
        "21 questions over one 1,500-token state: time over 21 fresh",
        "<=",
        {"exact": 1 / 8, "throughput": 1 / 9.5},
        "×",
    ),
    Row(
        "shared-raw",
        "shared",
        "21 questions: speed over raw decoding of exactly the new tokens",
        ">=",
        {"exact": 0.9, "throughput": 0.95},
        "×",
    ),
    Row(
        "shared-fastjev",
        "shared",
        "21 questions: speed over fastjev's shared mode",
        ">=",
        {"exact": 4.0, "throughput": 5.0},
        "×",
    ),
    Row(
        "shared-callo",
        "shared",
        "21 questions: time over callo's",
        "<=",
        {"exact": 1.05, "throughput": 1.0},
        "×",
        is_ratio=True,
    ),
    Row(
        "later-callo",
        "shared",
        "one more question on the same state: time over callo's",
        "<=",
        _both(1.0),
        "×",
        is_ratio=True,
    ),
    Row(
        "callers-throughput",
        "callers",
        "16 callers, short prompts: throughput over one caller's",
        ">=",
        _both(1.0),
        "×",
        is_ratio=True,
    ),
    Row("callers-refused", "callers", "16 callers: answers 503", "<=", _both(0.0)),
    Row("callers-fair", "callers", "16 callers: p95 over p50", "<=", _both(3.0), "×"),
    Row(
        "behind-6k",
        "behind",
        "100 tokens arriving behind a 6k-token prefill: longest wait",
        "<=",
        _both(2.0),
        "chunks",
    ),
    Row(
        "behind-16k",
        "behind",
        "a short decision behind a 16k-token prefill (tiny hybrid): longest wait",
        "<=",
        _both(2.0),
        "chunks",
    ),
    Row(
        "overhead", "overhead", "the server's own time over the decodes', 200 tokens", "<=", _both(3.0), "ms"
    ),
    Row("start", "start", "process start to the first 200 of /ping, warm disk", "<=", _both(2.0), "s"),
)

GROUPS: Final = tuple(dict.fromkeys(row.group for row in ROWS))
_BY_ID: Final = {row.id: row for row in ROWS}


@dataclass(frozen=True, slots=True)
class Measured:
    """What one row came to in one mode. note: what else a reader must know, such as both sides' times."""

    row_id: str
    mode: Mode
    value: Spread
    note: str = ""

    @property
    def row(self) -> Row:
        """The row it fills."""
        return _BY_ID[self.row_id]

    @property
    def target(self) -> float:
        """The row's bound in this mode."""
        return self.row.targets[self.mode]

    @property
    def verdict(self) -> Verdict:
        """Whether the median keeps the bound.

        Where the bound is equality with another side, a median beyond it counts as equal if the
        repetitions lie on both sides of it, and is told apart from one that keeps it.
        """
        if _HOLDS[self.row.sense](self.value.median, self.target):
            return "met"
        is_equality = self.row.is_ratio and self.target == _EQUALITY
        if is_equality and self.value.low <= _EQUALITY <= self.value.high:
            return "equal within the spread"
        return "not met"
