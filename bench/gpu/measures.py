"""What is measured at one length of prompt: fresh, later, shared, sixteen callers. Standard library only.

fresh: only the head of the prompt, which is the same for all, is cached. later: another question about a
state that the server has just read. shared: 21 questions about a new state in one request. callers: sixteen
clients at once, each with fresh decisions.
"""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.gpu.prompts import Prompts
from bench.gpu.server import Client, Server, ServerError

SHARED_QUESTIONS: Final = 21
CALLERS: Final = 16
_TIMEOUT_S: Final = 60.0
_PROBE_WORDS: Final = (8, 808)
_WARM_UPS: Final = 2
_TOLERANCE: Final = 1e-4


class MeasureError(Exception):
    """An answer was not what it must be, so its time means nothing."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long each measure goes on: at most seconds, but at least `least` repetitions, at most `most`."""

    seconds: float
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: its seconds, and the tokens of its prompts, all and newly evaluated."""

    seconds: float
    input_tokens: int
    new_tokens: int


class Meter:
    """Measures one server at one length. tokens: wanted length of a prompt, its head included."""

    def __init__(self, server: Server, *, tokens: int, seed: int, effort: Effort) -> None:
        self._server = server
        self._prompts = Prompts(seed)
        self._effort = effort
        self._client = server.client(_TIMEOUT_S)
        self._tokens = tokens
        self._words = self._find_words(tokens)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def fresh(self) -> dict[str, Any]:
        """One caller, each decision about a new state."""
        for _ in range(_WARM_UPS):
            self._fresh(self._client, self._prompts)
        return self._row("fresh", self._repeat(lambda: self._fresh(self._client, self._prompts)))

    def later(self) -> dict[str, Any]:
        """One caller, questions about a state that is cached."""
        state = self._prompts.state(self._words)
        questions = itertools.count()

        def one() -> Sample:
            return _ask(self._client, self._prompts.decision(state, next(questions)))

        one()
        samples = self._repeat(one)
        # A short state is evaluated together with the question, and only the head is kept then.
        row = self._row("later", samples)
        row["cached_tokens"] = samples[-1].input_tokens - samples[-1].new_tokens
        return row

    def shared(self, fresh_p50_s: float) -> dict[str, Any]:
        """One request with 21 questions about a new state; and as a share of 21 fresh decisions' time."""

        def one() -> Sample:
            state = self._prompts.state(self._words)
            body = {"decisions": list(self._prompts.decisions(state, SHARED_QUESTIONS))}
            answer, seconds = self._client.ask(body)
            return _sample(answer["results"], SHARED_QUESTIONS, seconds)

        row = self._row("shared", self._repeat(one))
        row["questions"] = SHARED_QUESTIONS
        row["of_fresh_time"] = round(row["p50_s"] / (SHARED_QUESTIONS * fresh_p50_s), 4)
        return row

    def callers(self, fresh: Mapping[str, Any]) -> dict[str, Any]:
        """Sixteen callers at once, for the measure's whole time."""
        begun_s = time.monotonic()
        samples: list[Sample] = []
        refused: list[str] = []
        broken: list[Exception] = []

        def call(number: int) -> None:
            try:
                self._call_for_a_while(number, samples, refused)
            except Exception as error:  # handed to the main thread
                broken.append(error)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed_s = time.monotonic() - begun_s
        if broken:
            raise broken[0]
        if not samples:
            raise MeasureError(f"NO_ANSWERS: all {len(refused)} requests were refused: {refused[0]}")
        row = self._row("callers", samples)
        new_tokens = sum(sample.new_tokens for sample in samples)
        return row | {
            "callers": CALLERS,
            "decisions_per_s": round(len(samples) / elapsed_s, 3),
            "new_tokens_per_s": round(new_tokens / elapsed_s, 1),
            "over_one_caller": round(len(samples) / elapsed_s * fresh["p50_s"], 3),
            "p95_over_p50": round(row["p95_s"] / row["p50_s"], 3),
            "refused": len(refused),
            "first_refusal": refused[0] if refused else None,
        }

    def _call_for_a_while(self, number: int, samples: list[Sample], refused: list[str]) -> None:
        ends_s = time.monotonic() + self._effort.seconds
        client, prompts = self._server.client(_TIMEOUT_S), Prompts(1_000_003 * (number + 1) + self._tokens)
        try:
            for _ in range(self._effort.most):
                try:
                    samples.append(self._fresh(client, prompts))
                except ServerError as error:
                    refused.append(str(error))
                if time.monotonic() > ends_s:
                    return
        finally:
            client.close()

    def _fresh(self, client: Client, prompts: Prompts) -> Sample:
        return _ask(client, prompts.decision(prompts.state(self._words)))

    def _repeat(self, one: Callable[[], Sample]) -> list[Sample]:
        ends_s = time.monotonic() + self._effort.seconds
        samples = [one() for _ in range(self._effort.least)]
        while len(samples) < self._effort.most and time.monotonic() < ends_s:
            samples.append(one())
        return samples

    def _row(self, measure: str, samples: Sequence[Sample]) -> dict[str, Any]:
        times_s = sorted(sample.seconds for sample in samples)
        total_s, new_tokens = sum(times_s), sum(sample.new_tokens for sample in samples)
        return {
            "measure": measure,
            "wanted_tokens": self._tokens,
            "input_tokens": statistics.median_low(sample.input_tokens for sample in samples),
            "new_tokens": statistics.median_low(sample.new_tokens for sample in samples),
            "requests": len(samples),
            "p50_s": round(statistics.median(times_s), 5),
            "p95_s": round(percentile(times_s, 95), 5),
            "min_s": round(times_s[0], 5),
            "max_s": round(times_s[-1], 5),
            "new_tokens_per_s": round(new_tokens / total_s, 1),
        }

    def _find_words(self, tokens: int) -> int:
        """Words of a state that make a prompt of so many tokens, from two prompts' lengths."""
        decisions = (self._prompts.decision(self._prompts.state(words)) for words in _PROBE_WORDS)
        few, many = (_ask(self._client, decision).input_tokens for decision in decisions)
        per_word = (many - few) / (_PROBE_WORDS[1] - _PROBE_WORDS[0])
        return max(1, round(_PROBE_WORDS[0] + (tokens - few) / per_word))


def _ask(client: Client, decision: Mapping[str, Any]) -> Sample:
    answer, seconds = client.ask({"decision": decision})
    return _sample([answer["result"]], 1, seconds)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def _sample(results: Sequence[Mapping[str, Any]], count: int, seconds: float) -> Sample:
    if len(results) != count:
        raise MeasureError(f"ANSWERS_MISSING: {len(results)} of {count} decisions were answered")
    for result in results:
        total = math.fsum(result["probabilities"])
        if not abs(total - 1.0) <= _TOLERANCE:
            raise MeasureError(f"PROBABILITIES_WRONG: they sum to {total}, not 1")
    input_tokens = sum(result["input_tokens"] for result in results)
    cached_tokens = sum(result["cached_tokens"] for result in results)
    return Sample(seconds, input_tokens, input_tokens - cached_tokens)
