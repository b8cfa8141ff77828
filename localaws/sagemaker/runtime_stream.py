"""Answers of a container as they come: InvokeEndpointWithResponseStream, and the OpenAI path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from moto.core.eventstream import EventStreamEncoder

from localaws.protocol import Scope
from localaws.sagemaker.container_call import BrokenError, ContainerCall, NoConnectionError, TimedOutError
from localaws.sagemaker.runtime import TIMED_OUT, UNAVAILABLE, model_error, read
from localaws.sagemaker.runtime_target import Answer, Look, Reached, reach

EVENT_STREAM = "application/vnd.amazon.eventstream"
_CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"

StreamAnswer = tuple[int, dict[str, str], Iterator[bytes]]
"""Status, headers, and the body's pieces; closing the iterator ends the call of the container."""


def invoke_with_response_stream(
    scope: Scope, name: str, look: Look, headers: Mapping[str, str], body: bytes, *, limit_s: float
) -> Answer | StreamAnswer:
    """Answer one InvokeEndpointWithResponseStream; the arguments are those of `reach`.

    A container's error before its answer begins is a ModelError, one after that an event of the stream.
    """
    reached = reach(scope, name, look, headers, body)
    if not isinstance(reached, Reached):
        return reached
    with ExitStack() as held:
        held.callback(reached.variant.release)
        try:
            call = ContainerCall(reached.port, "/invocations", reached.headers, body, limit_s=limit_s)
            held.callback(call.close)
            if not 200 <= call.status < 300:
                return model_error(scope, reached, read(call))
        except NoConnectionError:
            return UNAVAILABLE
        except TimedOutError:
            return model_error(scope, reached, TIMED_OUT)
        until_the_end = held.pop_all()
    sent = {"Content-Type": EVENT_STREAM, **reached.invoked}
    if "content-type" in call.headers:
        sent["X-Amzn-SageMaker-Content-Type"] = call.headers["content-type"]
    if _CUSTOM_ATTRIBUTES.lower() in call.headers:
        sent[_CUSTOM_ATTRIBUTES] = call.headers[_CUSTOM_ATTRIBUTES.lower()]
    return 200, sent, _until_the_end(until_the_end, _events(call))


def chat_completions(
    scope: Scope, name: str, look: Look, headers: Mapping[str, str], body: bytes, *, limit_s: float
) -> Answer | StreamAnswer:
    """Answer the OpenAI path: what the container's /v1/chat/completions says, as it says it, errors too."""
    reached = reach(scope, name, look, headers, body)
    if not isinstance(reached, Reached):
        return reached
    with ExitStack() as held:
        held.callback(reached.variant.release)
        try:
            call = ContainerCall(reached.port, "/v1/chat/completions", reached.headers, body, limit_s=limit_s)
        except NoConnectionError:
            return UNAVAILABLE
        except TimedOutError:
            return model_error(scope, reached, TIMED_OUT)
        held.callback(call.close)
        until_the_end = held.pop_all()
    sent = {"Content-Type": call.headers.get("content-type", "application/json"), **reached.invoked}
    return call.status, sent, _until_the_end(until_the_end, _bytes(call))


def _until_the_end(held: ExitStack, pieces: Iterator[bytes]) -> Iterator[bytes]:
    with held:
        # So that the answer's head goes out before the container's first piece has come.
        yield b""
        yield from pieces


def _bytes(call: ContainerCall) -> Iterator[bytes]:
    """The pieces; an answer that breaks ends without its end, as the container's own did."""
    try:
        yield from call.pieces()
    except (TimedOutError, BrokenError) as error:
        raise ConnectionResetError("the container's answer broke") from error


def _events(call: ContainerCall) -> Iterator[bytes]:
    """Frame the pieces as PayloadPart events; one that the SDKs raise ends a stream that broke."""
    try:
        for piece in call.pieces():
            yield _event({":message-type": "event", ":event-type": "PayloadPart"}, piece)
    except TimedOutError:
        yield _failure("ModelInvocationTimeExceeded", "The model did not finish its response in time.")
    except BrokenError:
        yield _failure("StreamBroken", "The connection to the model was closed before the response's end.")


def _event(headers: dict[str, str], payload: bytes) -> bytes:
    typed = {**headers, ":content-type": "application/octet-stream"}
    return EventStreamEncoder().encode_message(typed, payload)


def _failure(code: str, message: str) -> bytes:
    headers = {":message-type": "exception", ":exception-type": "ModelStreamError"}
    payload = json.dumps({"ErrorCode": code, "Message": message}).encode()
    return EventStreamEncoder().encode_message({**headers, ":content-type": "application/json"}, payload)
