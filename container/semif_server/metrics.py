"""GET /metrics: counters and histograms of requests, and the engine's figures at the moment of asking.

Label values come from fixed sets (routes, statuses, error codes), so that no caller can make a new series.
"""

import math
from collections.abc import Iterable
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from semif_server import __version__
from semif_server.engine.engine import EngineSnapshot
from semif_server.request_log import RequestRecord

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_NO_STATUS: Final = "none"  # the client was gone before there was an answer
_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class EngineFigures(Protocol):
    """What is asked of the engine."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are served."""

    def snapshot(self) -> EngineSnapshot:
        """The figures of this moment."""


class Metrics:
    """All metrics of one server, in a registry of their own."""

    def __init__(self, engine: EngineFigures) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        registry.register(_EngineCollector(engine))
        self._requests = Counter(
            "semif_requests", "Requests by outcome.", ("route", "status", "code"), registry=registry
        )
        self._decisions = Counter("semif_decisions", "Decisions answered.", registry=registry)
        self._input_tokens = Counter(
            "semif_input_tokens", "Prompt tokens of answered decisions.", registry=registry
        )
        self._cached_tokens = Counter(
            "semif_cached_tokens",
            "Those of semif_input_tokens_total that were not decoded.",
            registry=registry,
        )
        self._queue_s = self._histogram("queue", "From arrival to the first decode.")
        self._prefill_s = self._histogram("prefill", "Decodes up to the end of the state.")
        self._decode_s = self._histogram("decode", "Decodes behind the state.")
        self._total_s = self._histogram("request", "From arrival to the answer.")

    def observe(self, record: RequestRecord) -> None:
        """Count a request that has ended. For the event loop only: it is not locked."""
        status = _NO_STATUS if record.status is None else str(record.status)
        self._requests.labels(record.route, status, record.code).inc()
        if record.times is None:
            return
        self._decisions.inc(record.decisions)
        self._input_tokens.inc(record.input_tokens)
        self._cached_tokens.inc(record.cached_tokens)
        self._queue_s.observe(record.times.queue_s)
        self._prefill_s.observe(record.times.prefill_s)
        self._decode_s.observe(record.times.decode_s)
        self._total_s.observe(record.total_s)

    def render(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(
            f"semif_{name}_seconds",
            f"{what} Answered requests only.",
            registry=self._registry,
            buckets=_BUCKETS_S,
        )


class _EngineCollector(Collector):
    """Asks the engine when it is asked."""

    def __init__(self, engine: EngineFigures) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        """The engine's metrics."""
        info = GaugeMetricFamily("semif_server_info", "The server's version.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        yield GaugeMetricFamily(
            "semif_engine_up", "1 while decisions are served.", value=int(self._engine.is_ready)
        )
        now = self._engine.snapshot()
        gauges: dict[str, tuple[str, float]] = {
            "waiting_requests": ("Requests in the engine, running ones too.", now.waiting_requests),
            "queued_tokens": ("Tokens still to be decoded for them.", now.queued_tokens),
            "sequences": ("Sequences of the context.", now.sequences),
            "used_sequences": ("Those that hold tokens.", now.used_sequences),
        }
        if math.isfinite(now.tokens_per_s):
            gauges["tokens_per_second"] = ("Decoding speed, a moving average.", now.tokens_per_s)
        for name, (what, value) in gauges.items():
            yield GaugeMetricFamily(f"semif_{name}", what, value=value)
        yield CounterMetricFamily("semif_decoded_tokens", "Tokens decoded.", value=now.decoded_tokens_total)
        yield CounterMetricFamily("semif_steps", "Calls of llama_decode.", value=now.steps_total)
