"""The server by itself: many callers, a short decision behind a long one, its own time, its start."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Final

from bench.client import Answer, Caller
from bench.measure_fresh import SHORT_TOKENS, fresh_decision
from bench.report import shown
from bench.rows import MODES, Measured, Mode
from bench.servers import SemifServer, new_tokens
from bench.sides import interleaved, sides
from bench.spread import percentile, ratios, spread
from bench.workload import Decision, one_decision
from tools.make_tiny_hybrid import write_tiny_hybrid

CALLERS: Final = 16
_CALLER_ROUNDS: Final = 3
_REQUESTS_EACH: Final = 3
_ALONE_REQUESTS: Final = 24
_OVERHEAD_TOKENS: Final = 200
_OVERHEAD_REPETITIONS: Final = 40
_STARTS: Final = 5
_SHORTS_BEHIND: Final = 8
_ALONE_SHORTS: Final = 8
_CHUNK_TOKENS: Final = 512
_HYBRID_CONTEXT_TOKENS: Final = 32_768
_SERVICE_UNAVAILABLE: Final = 503
_seeds: Final = count(100_000)

Say = Callable[[str], None]


def measure_callers(folder: Path, gguf: Path, say: Say) -> list[Measured]:
    """The group `callers`: 16 at once against one, in turns."""
    rows: list[Measured] = []
    with sides(folder, gguf, peers=False) as side:
        words = side.words_for_new_tokens(SHORT_TOKENS)
        for mode in MODES:
            server = side.semif[mode]
            server.decide(fresh_decision(words))

            def alone(_round: int, server: SemifServer = server) -> list[Answer]:
                return _ask(server, 1, _ALONE_REQUESTS, words)

            def many(_round: int, server: SemifServer = server) -> list[Answer]:
                return _ask(server, CALLERS, _REQUESTS_EACH, words)

            found = interleaved({"alone": _timed(alone), "many": _timed(many)}, _CALLER_ROUNDS, say)
            one, all_ = ([len(answers) / seconds for seconds, answers in found[name]] for name in found)
            answers = [each for _, each in found["many"]]
            refused = [float(sum(a.status == _SERVICE_UNAVAILABLE for a in each)) for each in answers]
            fair = [_p95_over_p50([answer.seconds for answer in each]) for each in answers]
            note = f"{shown(spread(all_))} against {shown(spread(one))} decisions/s"
            rows += [
                Measured("callers-throughput", mode, ratios(all_, one), note),
                Measured("callers-refused", mode, spread(refused)),
                Measured("callers-fair", mode, spread(fair)),
            ]
    return rows


def _timed(measure: Callable[[int], list[Answer]]) -> Callable[[int], tuple[float, list[Answer]]]:
    def timed(repetition: int) -> tuple[float, list[Answer]]:
        begun_s = time.perf_counter()
        answers = measure(repetition)
        return time.perf_counter() - begun_s, answers

    return timed


def _ask(server: SemifServer, callers: int, requests_each: int, words: int) -> list[Answer]:
    """So many callers at once, each asking again as soon as it is answered."""
    work = [[one_decision(next(_seeds), words) for _ in range(requests_each)] for _ in range(callers)]

    def one_caller(decisions: Sequence[Decision]) -> list[Answer]:
        caller = Caller(server.port)
        try:
            return [caller.post("/invocations", {"decision": one.as_semif()}) for one in decisions]
        finally:
            caller.close()

    with ThreadPoolExecutor(callers) as pool:
        return [answer for answers in pool.map(one_caller, work) for answer in answers]


def _p95_over_p50(seconds: Sequence[float]) -> float:
    return percentile(seconds, 0.95) / percentile(seconds, 0.5)


def measure_behind(folder: Path, gguf: Path, say: Say) -> list[Measured]:
    """The group `behind`: what a short decision waits while a long prompt is being evaluated."""
    hybrid = write_tiny_hybrid(folder / "hybrid.gguf", context_tokens=_HYBRID_CONTEXT_TOKENS)
    # About 1.13 tokens a word on the one vocabulary; about 6 bytes, so tokens, a word on the other.
    cases = (("behind-6k", gguf, "8192", 5200, 25), ("behind-16k", hybrid, "20480", 2700, 1))
    rows: list[Measured] = []
    for row_id, model, max_tokens, long_words, short_words in cases:
        for mode in MODES:
            settings = {
                "SEMIF_DEADLINE_S": "600",
                "SEMIF_MAX_TOKENS": max_tokens,
                "SEMIF_MAX_REQUEST_TOKENS": str(2 * int(max_tokens)),
            }
            with SemifServer(folder, model, mode, **settings) as server:
                rows.append(_wait_behind(row_id, mode, server, long_words, short_words))
            say(f"{row_id}, {mode}")
    return rows


def _wait_behind(row_id: str, mode: Mode, server: SemifServer, long_words: int, short_words: int) -> Measured:
    def short() -> float:
        return server.decide(one_decision(next(_seeds), short_words)).seconds

    short()
    alone_s = spread([short() for _ in range(_ALONE_SHORTS)]).median
    long_alone = server.decide(one_decision(next(_seeds), long_words))
    chunk_s = long_alone.seconds / (new_tokens(long_alone) / _CHUNK_TOKENS)

    finished = threading.Event()
    long_caller = Caller(server.port)

    def ask_long() -> None:
        try:
            long_caller.expect(
                "/invocations", {"decision": one_decision(next(_seeds), long_words).as_semif()}
            )
        finally:
            finished.set()

    waits: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask_long)
        pause_s = long_alone.seconds / (_SHORTS_BEHIND + 2)
        while not finished.wait(pause_s):
            seconds = short()
            waits.append((seconds - alone_s) / chunk_s)
        running.result()
    long_caller.close()
    note = (
        f"{new_tokens(long_alone)} tokens before it, chunks of {1000 * chunk_s:.0f} ms on average;"
        f" {1000 * alone_s:.0f} ms when alone; waits of {shown(spread(waits))} chunks"
    )
    return Measured(row_id, mode, spread([max(waits)]), note)


def measure_overhead(folder: Path, gguf: Path, say: Say) -> list[Measured]:
    """The group `overhead`: what a caller waits beyond the decodes, alone on a kept connection."""
    with sides(folder, gguf, peers=False) as side:
        head_tokens = side.raw.ask({"op": "encode", "decisions": [fresh_decision(1).as_semif()]})["head"]
        words = side.words_for_new_tokens(_OVERHEAD_TOKENS - head_tokens)

        def of(server: SemifServer) -> Callable[[int], float]:
            def measure(_repetition: int) -> float:
                answer = server.decide(fresh_decision(words))
                return 1000 * (answer.seconds - float(answer.body["result"]["forward_seconds"]))

            return measure

        measures: Mapping[str, Callable[[int], float]] = {mode: of(side.semif[mode]) for mode in MODES}
        interleaved(measures, 3, lambda _text: say("warmed up"))
        found = interleaved(measures, _OVERHEAD_REPETITIONS, lambda _text: None)
    return [Measured("overhead", mode, spread(found[mode])) for mode in MODES]


def measure_start(folder: Path, gguf: Path, say: Say) -> list[Measured]:
    """The group `start`: from the start of the process, its files read before."""

    def of(mode: Mode) -> Callable[[int], float]:
        def measure(_repetition: int) -> float:
            with SemifServer(folder, gguf, mode) as server:
                return server.start_s

        return measure

    measures: Mapping[str, Callable[[int], float]] = {mode: of(mode) for mode in MODES}
    interleaved(measures, 1, lambda _text: say("warmed up"))
    found = interleaved(measures, _STARTS, say)
    return [Measured("start", mode, spread(found[mode])) for mode in MODES]
