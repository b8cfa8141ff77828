"""Lines of the Embedded Metric Format, held to the structure that CloudWatch's specification asks for."""

import asyncio
import json
import logging
import math
import time
from dataclasses import replace
from typing import Any

import botocore.loaders
import pytest

from semif_server import emf
from semif_server.emf import MAX_VALUES, Batch, EmfReporter, document
from semif_server.engine.engine import EngineSnapshot
from semif_server.logs import JsonFormatter
from semif_server.request_log import RequestRecord
from tests.container.test_metrics import ANSWERED, SNAPSHOT, Engine

_CLOUDWATCH = botocore.loaders.Loader().load_service_model("cloudwatch", "service-2")["shapes"]
UNITS = set(_CLOUDWATCH["StandardUnit"]["enum"])
MAX_LINE_BYTES = 262_144
MAX_METRICS, MAX_DIMENSIONS = 100, 30


def assert_follows_the_specification(line: str) -> dict[str, Any]:
    """The specification's rules for one log event, each as far as a line of ours can break it."""
    assert "\n" not in line
    assert len(line.encode()) <= MAX_LINE_BYTES
    root = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(root, dict)
    assert set(root["_aws"]) == {"Timestamp", "CloudWatchMetrics"}
    timestamp_ms = root["_aws"]["Timestamp"]
    assert type(timestamp_ms) is int
    two_weeks_ms, two_hours_ms = 14 * 86_400_000, 2 * 3_600_000
    assert -two_weeks_ms < timestamp_ms - time.time() * 1000 < two_hours_ms
    directives = root["_aws"]["CloudWatchMetrics"]
    assert directives
    for directive in directives:
        assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
        assert 1 <= len(directive["Namespace"]) <= 255
        assert not directive["Namespace"].startswith((":", "AWS/"))
        assert directive["Dimensions"]
        for names in directive["Dimensions"]:
            assert len(names) <= MAX_DIMENSIONS
            for name in names:
                assert 1 <= len(name) <= 250
                assert isinstance(root[name], str)
                assert 1 <= len(root[name]) <= 1024
        assert 1 <= len(directive["Metrics"]) <= MAX_METRICS
        names = [metric["Name"] for metric in directive["Metrics"]]
        assert len(set(names)) == len(names)
        for metric in directive["Metrics"]:
            assert set(metric) <= {"Name", "Unit", "StorageResolution"}
            assert 1 <= len(metric["Name"]) <= 255
            assert metric["Unit"] in UNITS
            assert metric.get("StorageResolution", 60) in {1, 60}
            target = root[metric["Name"]]
            values = target if isinstance(target, list) else [target]
            assert 1 <= len(values) <= 100
            for value in values:
                assert type(value) in {int, float}
                assert math.isfinite(value)
                assert abs(value) <= 2.0**360
    return root


def written(batch: Batch, engine: EngineSnapshot = SNAPSHOT, model: str = "m.gguf") -> dict[str, Any]:
    made = document(batch, engine, decoded_tokens=321, model=model, now_s=time.time())
    return assert_follows_the_specification(json.dumps(made, allow_nan=False))


def units(root: dict[str, Any]) -> dict[str, str]:
    [directive] = root["_aws"]["CloudWatchMetrics"]
    return {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}


def batch_of(*records: RequestRecord) -> Batch:
    batch = Batch()
    for record in records:
        batch.add(record)
    return batch


def test_a_line_holds_counts_and_every_single_time() -> None:
    slower = replace(ANSWERED, total_s=1.5)
    root = written(batch_of(ANSWERED, slower))
    assert root["Model"] == "m.gguf"
    assert (root["Answered"], root["Decisions"]) == (2, 6)
    assert (root["InputTokens"], root["CachedTokens"], root["DecodedTokens"]) == (1800, 1200, 321)
    assert (root["WaitingRequests"], root["QueuedTokens"], root["TokensPerSecond"]) == (2, 300, 812.5)
    assert root["QueueTime"] == [20.0, 20.0]
    assert root["PrefillTime"] == [300.0, 300.0]
    assert root["DecodeTime"] == [70.0, 70.0]
    assert root["RequestTime"] == [410.0, 1500.0]
    named = units(root)
    assert {name for name, unit in named.items() if unit == "Milliseconds"} == {
        "QueueTime",
        "PrefillTime",
        "DecodeTime",
        "RequestTime",
    }
    assert named["TokensPerSecond"] == "Count/Second"
    assert set(named) | {"_aws", "event", "Model"} == set(root), "every number is a metric, nothing else is"


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (200, "ok", "Answered"),
        (400, "invalid_json", "Refused"),
        (408, "request_timeout", "Refused"),
        (422, "prompt_too_long", "Refused"),
        (503, "busy", "Unavailable"),
        (500, "internal_error", "Failed"),
        (None, "client_disconnected", "Left"),
    ],
)
def test_each_request_has_one_outcome(status: int | None, code: str, outcome: str) -> None:
    root = written(batch_of(RequestRecord("id", "/invocations", status=status, code=code)))
    outcomes = {name: root[name] for name in ("Answered", "Refused", "Unavailable", "Failed", "Left")}
    assert outcomes == {name: int(name == outcome) for name in outcomes}


def test_without_an_answer_there_are_no_times_and_an_unknown_speed_is_left_out() -> None:
    refused = batch_of(RequestRecord("id", "/invocations", status=503, code="starting"))
    root = written(refused, replace(SNAPSHOT, tokens_per_s=math.inf))
    assert set(units(root).values()) == {"Count"}
    assert not {"QueueTime", "RequestTime", "TokensPerSecond"} & root.keys()


def test_the_fullest_line_and_the_longest_name_keep_to_the_limits() -> None:
    batch = Batch()
    while not batch.is_full:
        batch.add(replace(ANSWERED, total_s=1 / 3))
    assert len(written(batch, model="m" * 5000)["RequestTime"]) == MAX_VALUES


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [JsonFormatter().format(record) for record in caplog.records if record.name == "semif_server.emf"]
    return [assert_follows_the_specification(line) for line in found]


def test_a_full_batch_is_written_at_once_and_the_rest_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "semif_server")

    async def serve() -> None:
        reporter = EmfReporter(Engine(), "m.gguf")
        for _ in range(MAX_VALUES + 1):
            reporter.observe(ANSWERED)
        assert len(lines_of(caplog)) == 1
        reporter.observe(RequestRecord("id", "/ping", status=200))
        reporter.flush()
        reporter.flush()

    asyncio.run(serve())
    full, rest = lines_of(caplog)
    assert (full["Answered"], rest["Answered"]) == (MAX_VALUES, 1)
    assert (full["DecodedTokens"], rest["DecodedTokens"]) == (1234, 0), "each token counts in one line"


def test_a_batch_is_written_when_its_time_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "semif_server")
    monkeypatch.setattr(emf, "FLUSH_S", 0.01)

    async def serve() -> None:
        reporter = EmfReporter(Engine(), "m.gguf")
        for _ in range(2):
            reporter.observe(ANSWERED)
            before = len(lines_of(caplog))
            while len(lines_of(caplog)) == before:
                await asyncio.sleep(0.01)

    asyncio.run(serve())
    assert [line["Answered"] for line in lines_of(caplog)] == [1, 1]
