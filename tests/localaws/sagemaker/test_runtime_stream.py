"""Streams that end badly, from a real container: what the SDK makes of the frames."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.eventstream import EventStream
from botocore.exceptions import EventStreamError
from botocore.parsers import create_parser

from localaws.protocol import Scope
from localaws.sagemaker.runtime_stream import EVENT_STREAM, chat_completions, invoke_with_response_stream

SCOPE = Scope("123456789012", "eu-central-1")


@pytest.fixture
def serving(lab: Any) -> Any:
    lab.model()
    lab.config()
    assert lab.endpoint()["EndpointStatus"] == "InService"
    return lab


def stream(serving: Any, body: dict[str, Any], limit_s: float = 30.0) -> Any:
    headers = {"content-type": "application/json", "X-Amzn-SageMaker-Accept": "text/event-stream"}
    look = serving.backend._look(SCOPE, "e")
    return invoke_with_response_stream(SCOPE, "e", look, headers, json.dumps(body).encode(), limit_s=limit_s)


class _Raw:
    """A response's body as botocore reads it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def stream(self) -> Iterator[bytes]:
        return self._pieces


def events(pieces: Iterator[bytes]) -> Any:
    """The SDK's own reading of the frames."""
    model = botocore.session.get_session().get_service_model("sagemaker-runtime")
    shape: Any = model.operation_model("InvokeEndpointWithResponseStream").output_shape
    parser: Any = create_parser("rest-json")
    read: Any = EventStream
    return read(
        _Raw(pieces), shape.members["Body"], parser._event_stream_parser, "InvokeEndpointWithResponseStream"
    )


def test_a_whole_stream_and_what_the_container_was_asked(serving: Any) -> None:
    status, headers, pieces = stream(serving, {})
    assert (status, headers["Content-Type"]) == (200, EVENT_STREAM)
    assert headers["X-Amzn-SageMaker-Content-Type"] == "application/json"
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "trace=1"
    said = json.loads(b"".join(event["PayloadPart"]["Bytes"] for event in events(pieces)))
    assert said["path"] == "/invocations"
    assert said["headers"]["accept"] == "text/event-stream"


def test_a_connection_that_breaks_is_an_event_of_its_own(serving: Any) -> None:
    _, _, pieces = stream(serving, {"drip": 2, "then": "die"})
    received: list[bytes] = []
    with pytest.raises(EventStreamError, match=r"\(ModelStreamError\).*connection to the model was closed"):
        received.extend(event["PayloadPart"]["Bytes"] for event in events(pieces))
    assert b"".join(received) == b".."


def test_a_stream_over_the_limit(serving: Any) -> None:
    _, _, pieces = stream(serving, {"drip": 150}, limit_s=1.0)
    with pytest.raises(EventStreamError, match=r"\(ModelStreamError\).*did not finish"):
        list(events(pieces))


def test_before_the_first_byte_errors_are_those_of_invoke_endpoint(serving: Any) -> None:
    status, headers, body = stream(serving, {"status": 500, "answer": "no"})
    assert (status, headers["x-amzn-ErrorType"]) == (424, "ModelError")
    assert json.loads(body)["OriginalStatusCode"] == 500
    status, _, body = stream(serving, {"sleep": 30}, limit_s=0.5)
    assert (status, json.loads(body)["OriginalStatusCode"]) == (424, 0)
    status, headers, _ = stream(serving, {"die": True})
    assert (status, headers["x-amzn-ErrorType"]) == (503, "ServiceUnavailable")


def test_an_endpoint_is_deleted_when_a_stream_was_left(serving: Any) -> None:
    _, _, pieces = stream(serving, {"drip": 150})
    assert isinstance(pieces, Iterator)
    assert list(zip(range(3), pieces, strict=False))
    pieces.close()  # type: ignore[attr-defined]
    (hosted,) = serving.backend._look(SCOPE, "e")()[1]
    assert hosted._calls == 0


def test_the_openai_path_asks_for_chat_completions_and_passes_errors_on(serving: Any) -> None:
    look = serving.backend._look(SCOPE, "e")

    def ask(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": "application/json"}
        raw = json.dumps(body).encode()
        status, _, pieces = chat_completions(SCOPE, "e", look, headers, raw, limit_s=30.0)
        assert not isinstance(pieces, bytes)
        return status, json.loads(b"".join(pieces))

    assert ask({})[1]["path"] == "/v1/chat/completions"
    assert ask({"status": 422, "answer": '{"error": "x"}'}) == (422, {"error": "x"})
