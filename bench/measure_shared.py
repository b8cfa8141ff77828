"""21 questions over one 1,500-token state, and one more afterwards, beside raw llama.cpp and the peers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.measure_fresh import LONG_TOKENS, of_semif, seconds_of
from bench.report import shown
from bench.rows import MODES, Measured, Mode
from bench.servers import SemifServer
from bench.sides import interleaved, sides
from bench.spread import ratios, spread
from bench.workload import SHARED_QUESTIONS, later_decision, shared_decisions, state_text

_REPETITIONS: Final = 3
_FIRST_SEED: Final = 50_000


def _pair(server: SemifServer, words: int) -> Callable[[int], tuple[float, float]]:
    """Seconds of the 21 on a new state, and of one more question on it."""

    def measure(repetition: int) -> tuple[float, float]:
        state = state_text(_FIRST_SEED + repetition, words)
        shared = server.decide_shared(shared_decisions(state))
        return shared.seconds, server.decide(later_decision(state)).seconds

    return measure


def measure_shared(folder: Path, gguf: Path, say: Callable[[str], None]) -> list[Measured]:
    """The group `shared`."""
    with sides(folder, gguf, peers=True) as side:
        words = side.words_for_new_tokens(LONG_TOKENS)
        fastjev, callo = side.fastjev, side.callo
        if fastjev is None or callo is None:
            raise RuntimeError("the peers were not started")

        def decisions(repetition: int) -> list[dict[str, Any]]:
            return [one.as_semif() for one in shared_decisions(state_text(_FIRST_SEED + repetition, words))]

        def of_raw(repetition: int) -> tuple[float, float]:
            answer = side.raw.ask({"op": "shared", "decisions": decisions(repetition)})
            return float(answer["serial_seconds"]), float(answer["batched_seconds"])

        def of_fastjev(repetition: int) -> float:
            return float(fastjev.ask({"decisions": decisions(repetition)})["seconds"])

        def of_callo(repetition: int) -> tuple[float, float]:
            state = state_text(_FIRST_SEED + repetition, words)
            shared = callo.decide(shared_decisions(state))
            return shared.seconds, callo.decide([later_decision(state)]).seconds

        measures: dict[str, Callable[[int], Any]] = {"raw": of_raw, "fastjev": of_fastjev, "callo": of_callo}
        measures |= {mode: _pair(side.semif[mode], words) for mode in MODES}
        measures |= {f"fresh {mode}": of_semif(side.semif[mode], words) for mode in MODES}
        found = interleaved(measures, _REPETITIONS, say)
    return [row for mode in MODES for row in _rows(mode, found)]


def _rows(mode: Mode, found: Mapping[str, list[Any]]) -> list[Measured]:
    own = [shared for shared, _ in found[mode]]
    own_later = [later for _, later in found[mode]]
    fresh = [SHARED_QUESTIONS * seconds for seconds in seconds_of(found[f"fresh {mode}"])]
    # One sequence at a time is what the exact mode may do; the other is held to whichever way is faster.
    raw = [serial if mode == "exact" else min(serial, batched) for serial, batched in found["raw"]]
    callo = [shared for shared, _ in found["callo"]]
    callo_later = [later for _, later in found["callo"]]

    def both(others: list[float]) -> str:
        return f"{shown(spread(own))} against {shown(spread(others))} s"

    return [
        Measured(
            "shared-fresh",
            mode,
            ratios(own, fresh),
            f"{both(fresh)} ({SHARED_QUESTIONS} × one fresh decision)",
        ),
        Measured("shared-raw", mode, ratios(raw, own), both(raw)),
        Measured("shared-fastjev", mode, ratios(found["fastjev"], own), both(found["fastjev"])),
        Measured("shared-callo", mode, ratios(own, callo), both(callo)),
        Measured(
            "later-callo",
            mode,
            ratios(own_later, callo_later),
            f"{shown(spread(own_later))} against {shown(spread(callo_later))} s",
        ),
    ]
