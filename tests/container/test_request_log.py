import pytest

from semif_server.engine.task import RequestTimes
from semif_server.request_log import RequestRecord, open_record

ID = b"x-amzn-sagemaker-inference-id"
ATTRIBUTES = b"x-amzn-sagemaker-custom-attributes"


def test_trace_headers_are_taken_over() -> None:
    record = open_record(
        "/invocations", [(b"host", b"x"), (ID, b"call-7"), (ATTRIBUTES, b"tenant=a; step=2")]
    )
    assert record.trace == {"inference_id": "call-7", "custom_attributes": "tenant=a; step=2"}
    assert record.dropped_headers == ()
    assert record.fields()["inference_id"] == "call-7"


@pytest.mark.parametrize(
    ("header", "limit", "key"), [(ID, 64, "inference_id"), (ATTRIBUTES, 1024, "custom_attributes")]
)
def test_trace_headers_are_bounded(header: bytes, limit: int, key: str) -> None:
    at_limit = open_record("/invocations", [(header, b"a" * limit)])
    assert at_limit.trace == {key: "a" * limit}
    over = open_record("/invocations", [(header, b"a" * (limit + 1))])
    assert over.trace == {}
    assert over.fields()["dropped_headers"] == [key]


@pytest.mark.parametrize("value", [b"a\tb", b"\xc3\xa9", b"a\x7f", b"a\x00", b"a\x1b[31m"])
def test_what_is_not_printable_ascii_is_dropped_and_said_so(value: bytes) -> None:
    record = open_record("/invocations", [(ID, value), (ID, value)])
    assert record.trace == {}
    assert record.dropped_headers == ("inference_id",)


def test_of_repeated_trace_headers_the_first_counts() -> None:
    assert open_record("/invocations", [(ID, b"one"), (ID, b"two")]).trace == {"inference_id": "one"}


@pytest.mark.parametrize(
    ("path", "route"), [("/ping", "/ping"), ("/invocations", "/invocations"), ("/x", "other"), ("", "other")]
)
def test_routes_are_few(path: str, route: str) -> None:
    assert open_record(path, []).route == route


def test_a_line_has_the_times_only_of_an_answer() -> None:
    record = RequestRecord("id", "/invocations", status=503, code="busy", total_s=0.0012345)
    assert record.fields() == {
        "id": "id",
        "status": 503,
        "code": "busy",
        "decisions": 0,
        "input_tokens": 0,
        "cached_tokens": 0,
        "total_ms": 1.234,
    }
    record.times = RequestTimes(queue_s=0.5, prefill_s=0.25, decode_s=0.125, total_s=1.0)
    assert {"queue_ms": 500.0, "prefill_ms": 250.0, "decode_ms": 125.0}.items() <= record.fields().items()
