"""What /metrics says after known requests, and that nobody outside can make it grow."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from semif_server.engine.engine import EngineSnapshot
from semif_server.engine.task import RequestTimes
from semif_server.metrics import Metrics
from semif_server.request_log import RequestRecord
from tests.container.serving import PASSWORD_RESET, Serving

SNAPSHOT = EngineSnapshot(
    waiting_requests=2,
    queued_tokens=300,
    tokens_per_s=812.5,
    sequences=5,
    used_sequences=3,
    steps_total=7,
    decoded_tokens_total=1234,
)
ANSWERED = RequestRecord(
    "id",
    "/invocations",
    status=200,
    decisions=3,
    input_tokens=900,
    cached_tokens=600,
    times=RequestTimes(queue_s=0.02, prefill_s=0.3, decode_s=0.07, total_s=0.4),
    total_s=0.41,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Engine:
    """Figures as given."""

    def __init__(self) -> None:
        self.is_ready = True
        self.now = SNAPSHOT

    def snapshot(self) -> EngineSnapshot:
        """The given figures."""
        return self.now


def read(text: str) -> Samples:
    """The samples of a text in Prometheus' format, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[(name, frozenset(labels.items()))]


def test_an_answer_is_counted_in_all_its_figures() -> None:
    metrics = Metrics(Engine())
    metrics.observe(ANSWERED)
    metrics.observe(ANSWERED)
    now = read(metrics.render().decode())
    assert value(now, "semif_requests_total", route="/invocations", status="200", code="ok") == 2
    assert value(now, "semif_decisions_total") == 6
    assert value(now, "semif_input_tokens_total") == 1800
    assert value(now, "semif_cached_tokens_total") == 1200
    for name, seconds in {"queue": 0.02, "prefill": 0.3, "decode": 0.07, "request": 0.41}.items():
        assert value(now, f"semif_{name}_seconds_count") == 2
        assert value(now, f"semif_{name}_seconds_sum") == pytest.approx(2 * seconds)
    assert value(now, "semif_queue_seconds_bucket", le="0.01") == 0
    assert value(now, "semif_queue_seconds_bucket", le="0.025") == 2


def test_refusals_and_those_who_left_count_as_requests_only() -> None:
    metrics = Metrics(Engine())
    metrics.observe(RequestRecord("a", "/invocations", status=503, code="busy"))
    metrics.observe(RequestRecord("b", "/invocations", code="client_disconnected"))
    now = read(metrics.render().decode())
    assert value(now, "semif_requests_total", route="/invocations", status="503", code="busy") == 1
    assert (
        value(now, "semif_requests_total", route="/invocations", status="none", code="client_disconnected")
        == 1
    )
    assert value(now, "semif_request_seconds_count") == 0


def test_the_engines_figures_are_of_the_moment_of_asking() -> None:
    engine = Engine()
    metrics = Metrics(engine)
    now = read(metrics.render().decode())
    expected = {
        "semif_engine_up": 1,
        "semif_waiting_requests": 2,
        "semif_queued_tokens": 300,
        "semif_tokens_per_second": 812.5,
        "semif_sequences": 5,
        "semif_used_sequences": 3,
        "semif_steps_total": 7,
        "semif_decoded_tokens_total": 1234,
    }
    assert {name: value(now, name) for name in expected} == expected
    assert value(now, "process_resident_memory_bytes") > 0
    engine.is_ready = False
    engine.now = replace(SNAPSHOT, queued_tokens=0, tokens_per_s=float("inf"))
    later = read(metrics.render().decode())
    assert value(later, "semif_engine_up") == 0
    assert value(later, "semif_queued_tokens") == 0
    assert not any(name == "semif_tokens_per_second" for name, _ in later), "unknown is no number"


def test_two_servers_share_nothing() -> None:
    first, second = Metrics(Engine()), Metrics(Engine())
    first.observe(ANSWERED)
    assert value(read(second.render().decode()), "semif_decisions_total") == 0
    assert not any(family.name.startswith("semif") for family in REGISTRY.collect())


def test_the_route_gives_what_was_served(hybrid: Serving) -> None:
    def now() -> Samples:
        response = hybrid.request("GET", "/metrics")
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return read(response.text)

    hybrid.post({"decision": PASSWORD_RESET})
    hybrid.post(b"[]")
    before = now()
    result = hybrid.decide({"decision": PASSWORD_RESET})["result"]
    hybrid.post(b"[]")
    hybrid.request("GET", "/no-such-path")
    after = now()

    def rise(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert rise("semif_requests_total", route="/invocations", status="200", code="ok") == 1
    assert rise("semif_requests_total", route="/invocations", status="400", code="not_an_object") == 1
    assert value(after, "semif_requests_total", route="other", status="404", code="not_found") >= 1
    assert rise("semif_input_tokens_total") == result["input_tokens"]
    assert rise("semif_cached_tokens_total") == result["cached_tokens"]
    assert rise("semif_decoded_tokens_total") == result["input_tokens"] - result["cached_tokens"]
    assert value(after, "semif_engine_up") == 1


def test_no_caller_makes_a_series(hybrid: Serving) -> None:
    ask: Callable[[], Samples] = lambda: read(hybrid.request("GET", "/metrics").text)  # noqa: E731
    hybrid.request("GET", "/SECRET-0")
    hybrid.request("PUT", "/invocations")
    ask()
    before = ask()
    for number in range(20):
        hybrid.request("GET", f"/SECRET-{number}?SECRET={number}")
        hybrid.request("PUT", "/invocations", headers={"x-amzn-sagemaker-inference-id": f"SECRET-{number}"})
    after = ask()
    assert after.keys() == before.keys()
    assert "SECRET" not in str(after)
