"""Fresh decisions, only the head cached: 1,500 tokens beside raw llama.cpp, 100 beside the peers too."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench.report import shown
from bench.rows import MODES, Measured
from bench.servers import SemifServer, new_tokens
from bench.sides import Sides, interleaved, sides
from bench.spread import Spread, ratios, spread
from bench.workload import Decision, one_decision

LONG_TOKENS: Final = 1500
SHORT_TOKENS: Final = 100
_LONG_REPETITIONS: Final = 5
_SHORT_REPETITIONS: Final = 15
_seeds: Final = count(1)


def fresh_decision(words: int) -> Decision:
    """A decision over a state that nobody was asked about before."""
    return one_decision(next(_seeds), words)


def of_semif(server: SemifServer, words: int) -> Callable[[int], tuple[float, int]]:
    """A measure of one fresh decision: seconds, and tokens that were decoded for it."""

    def measure(_repetition: int) -> tuple[float, int]:
        answer = server.decide(fresh_decision(words))
        return answer.seconds, new_tokens(answer)

    return measure


def of_raw(side: Sides, words: int) -> Callable[[int], tuple[float, int]]:
    """The same of raw llama.cpp, on a state of its own of as many words."""

    def measure(_repetition: int) -> tuple[float, int]:
        answer = side.raw.ask({"op": "fresh", "decisions": [fresh_decision(words).as_semif()]})
        return float(answer["seconds"]), int(answer["tokens"])

    return measure


def speeds(found: list[tuple[float, int]]) -> list[float]:
    """Tokens per second of each repetition."""
    return [tokens / seconds for seconds, tokens in found]


def seconds_of(found: list[tuple[float, int]]) -> list[float]:
    """Seconds of each repetition."""
    return [seconds for seconds, _ in found]


def measure_long(folder: Path, gguf: Path, say: Callable[[str], None]) -> list[Measured]:
    """The group `fresh`."""
    with sides(folder, gguf, peers=False) as side:
        words = side.words_for_new_tokens(LONG_TOKENS)
        measures: dict[str, Callable[[int], Any]] = {"raw": of_raw(side, words)}
        measures |= {mode: of_semif(side.semif[mode], words) for mode in MODES}
        interleaved(measures, 1, lambda _text: say("warmed up"))
        found = interleaved(measures, _LONG_REPETITIONS, say)
    raw = speeds(found["raw"])
    return [
        Measured(
            "fresh-raw",
            mode,
            ratios(speeds(found[mode]), raw),
            f"{shown(spread(speeds(found[mode])))} against {shown(spread(raw))} tokens/s",
        )
        for mode in MODES
    ]


def measure_short(folder: Path, gguf: Path, say: Callable[[str], None]) -> list[Measured]:
    """The group `short`."""
    with sides(folder, gguf, peers=True) as side:
        words = side.words_for_new_tokens(SHORT_TOKENS)
        fastjev, callo = side.fastjev, side.callo
        if fastjev is None or callo is None:
            raise RuntimeError("the peers were not started")

        def of_fastjev(_repetition: int) -> tuple[float, int]:
            answer = fastjev.ask({"decisions": [fresh_decision(words).as_semif()]})
            return float(answer["seconds"]), int(answer["tokens"])

        def of_callo(_repetition: int) -> tuple[float, int]:
            answer = callo.decide([fresh_decision(words)])
            return answer.seconds, int(answer.body["usage"]["input_tokens"])

        measures: dict[str, Callable[[int], Any]] = {
            "raw": of_raw(side, words),
            "fastjev": of_fastjev,
            "callo": of_callo,
        }
        measures |= {mode: of_semif(side.semif[mode], words) for mode in MODES}
        interleaved(measures, 2, lambda _text: say("warmed up"))
        found = interleaved(measures, _SHORT_REPETITIONS, say)
    rows: list[Measured] = []
    for mode in MODES:
        own = seconds_of(found[mode])
        raw = speeds(found["raw"])
        rows += [
            Measured(
                "short-raw",
                mode,
                ratios(speeds(found[mode]), raw),
                f"{shown(spread(speeds(found[mode])))} against {shown(spread(raw))} tokens/s",
            ),
            Measured(
                "short-fastjev",
                mode,
                ratios(seconds_of(found["fastjev"]), own),
                _times(found, mode, "fastjev"),
            ),
            Measured(
                "short-callo", mode, ratios(own, seconds_of(found["callo"])), _times(found, mode, "callo")
            ),
        ]
    return rows


def _times(found: dict[str, list[Any]], mode: str, other: str) -> str:
    return (
        f"{_in_ms(found[mode])} against {_in_ms(found[other])} ms (its prompt: {found[other][0][1]} tokens)"
    )


def _in_ms(one: list[tuple[float, int]]) -> str:
    milliseconds: Spread = spread(seconds_of(one)).scaled(1000)
    return shown(milliseconds)
