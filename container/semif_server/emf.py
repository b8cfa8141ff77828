"""CloudWatch's Embedded Metric Format: log lines that CloudWatch Logs turns into metrics by itself.

One line stands for all requests of FLUSH_S seconds, or for fewer when MAX_VALUES of them were answered: the
format takes that many values of a metric in a line. CloudWatch Logs is paid by the byte, and a line for each
request would be most of the log; times go in as single values all the same, so percentiles stay exact. A
killed process loses the last FLUSH_S seconds at most, one that is told to stop loses nothing.
"""

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field
from typing import Final

from semif_server.engine.engine import EngineSnapshot
from semif_server.logs import log_document
from semif_server.metrics import EngineFigures
from semif_server.request_log import DISCONNECTED, RequestRecord, milliseconds

NAMESPACE: Final = "SemIf"
FLUSH_S: Final = 10.0
MAX_VALUES: Final = 100
_DIMENSION: Final = "Model"
_MAX_DIMENSION_CHARS: Final = 1024
_REPORTED_ROUTE: Final = "/invocations"
_TIMES: Final = ("QueueTime", "PrefillTime", "DecodeTime", "RequestTime")

_log = logging.getLogger("semif_server.emf")


@dataclass(slots=True)
class Batch:
    """Requests that one line will stand for. times_ms: one value per answered request."""

    outcomes: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("Answered", "Refused", "Unavailable", "Failed", "Left"), 0)
    )
    decisions: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    times_ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _TIMES})

    @property
    def is_full(self) -> bool:
        """Whether the line can take no more values."""
        return len(self.times_ms[_TIMES[0]]) >= MAX_VALUES

    def add(self, record: RequestRecord) -> None:
        """Take a request in."""
        self.outcomes[_outcome(record)] += 1
        if record.times is None:
            return
        self.decisions += record.decisions
        self.input_tokens += record.input_tokens
        self.cached_tokens += record.cached_tokens
        times = record.times
        for name, seconds in zip(
            _TIMES, (times.queue_s, times.prefill_s, times.decode_s, record.total_s), strict=True
        ):
            self.times_ms[name].append(milliseconds(seconds))


def document(
    batch: Batch, engine: EngineSnapshot, *, decoded_tokens: int, model: str, now_s: float
) -> object:
    """The line as JSON. now_s: time.time(). decoded_tokens: since the line before."""
    counts: dict[str, float] = {
        **batch.outcomes,
        "Decisions": batch.decisions,
        "InputTokens": batch.input_tokens,
        "CachedTokens": batch.cached_tokens,
        "DecodedTokens": decoded_tokens,
        "WaitingRequests": engine.waiting_requests,
        "QueuedTokens": engine.queued_tokens,
    }
    values: dict[str, object] = {}
    metrics: list[dict[str, str]] = []
    for name, count in counts.items():
        values[name] = count
        metrics.append({"Name": name, "Unit": "Count"})
    if math.isfinite(engine.tokens_per_s):
        values["TokensPerSecond"] = round(engine.tokens_per_s, 3)
        metrics.append({"Name": "TokensPerSecond", "Unit": "Count/Second"})
    for name, times_ms in batch.times_ms.items():
        if times_ms:
            values[name] = times_ms
            metrics.append({"Name": name, "Unit": "Milliseconds"})
    directive = {"Namespace": NAMESPACE, "Dimensions": [[_DIMENSION]], "Metrics": metrics}
    return {
        "_aws": {"Timestamp": int(now_s * 1000), "CloudWatchMetrics": [directive]},
        "event": "metrics",
        _DIMENSION: model[:_MAX_DIMENSION_CHARS],
        **values,
    }


class EmfReporter:
    """Gathers requests and writes the lines. For the event loop only. model: the dimension's value."""

    def __init__(self, engine: EngineFigures, model: str) -> None:
        self._engine = engine
        self._model = model
        self._batch = Batch()
        self._decoded_before = 0
        self._timer: asyncio.TimerHandle | None = None

    def observe(self, record: RequestRecord) -> None:
        """Take in a request that has ended."""
        if record.route != _REPORTED_ROUTE:
            return
        self._batch.add(record)
        if self._batch.is_full:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Write the line of what was taken in since the last one; nothing when that is nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._batch = self._batch, Batch()
        if not any(batch.outcomes.values()):
            return
        engine = self._engine.snapshot()
        decoded = engine.decoded_tokens_total - self._decoded_before
        self._decoded_before = engine.decoded_tokens_total
        line = document(batch, engine, decoded_tokens=decoded, model=self._model, now_s=time.time())
        log_document(_log, line)


def _outcome(record: RequestRecord) -> str:
    if record.code == DISCONNECTED or record.status is None:
        return "Left"
    if record.status < 400:
        return "Answered"
    if record.status < 500:
        return "Refused"
    return "Unavailable" if record.status == 503 else "Failed"
