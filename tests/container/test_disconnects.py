"""Clients that leave, and clients that are slow: seen at the app's own interface, message by message."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from semif_server import request_body
from semif_server.logs import JsonFormatter
from tests.container.serving import PASSWORD_RESET, Serving, decision

Receive = Callable[[], Awaitable[dict[str, Any]]]
BODY = json.dumps({"decision": PASSWORD_RESET}).encode()


async def post(serving: Serving, receive: Receive) -> list[dict[str, Any]]:
    """POST /invocations with the given ASGI messages; what the app sent."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/invocations",
        "raw_path": b"/invocations",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "server": ("x", 80),
        "client": ("y", 1),
        "state": {},
    }
    await serving.assembly.app(scope, receive, send)
    return sent


def in_turn(*messages: dict[str, Any]) -> Receive:
    """These messages, and then nothing ever more."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def whole(body: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": False}


def outcomes(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, Any]]:
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert not [line for line in lines if line["level"] != "info"]
    return [(line["status"], line["code"]) for line in lines if line["event"] == "request"]


def test_a_client_that_leaves_takes_its_work_with_it(
    hybrid: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine = hybrid.assembly.engine
    before = engine.snapshot().decoded_tokens_total
    # Thousands of tokens each, of which none needs to be decoded to its end.
    asked = [decision(id=str(index), state="s" * 3000, question="q" * 200) for index in range(40)]
    body = json.dumps({"decisions": asked}).encode()

    async def leave_while_it_runs() -> list[dict[str, Any]]:
        gone = asyncio.Event()
        messages = [whole(body)]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        request = asyncio.create_task(post(hybrid, receive))
        while engine.snapshot().waiting_requests == 0:
            await asyncio.sleep(0.001)
        gone.set()
        return await request

    sent = asyncio.run(leave_while_it_runs())
    assert sent == [], "nobody is there to be answered"
    assert outcomes(caplog) == [(None, "client_disconnected")]
    now = engine.snapshot()
    assert (now.waiting_requests, now.queued_tokens) == (0, 0)
    assert engine.is_idle
    assert now.decoded_tokens_total - before < 40 * 200
    assert hybrid.decide({"decision": PASSWORD_RESET})["result"]["id"] == PASSWORD_RESET["id"]


def test_a_client_that_leaves_in_its_body_is_no_error(
    hybrid: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    part = {"type": "http.request", "body": BODY[:20], "more_body": True}
    assert asyncio.run(post(hybrid, in_turn(part, {"type": "http.disconnect"}))) == []
    assert outcomes(caplog) == [(None, "client_disconnected")]


def test_a_slow_sender_holds_no_permit_and_is_told_in_the_end(
    hybrid: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(request_body, "BODY_S", 0.2)

    async def send_slowly() -> list[dict[str, Any]]:
        part = {"type": "http.request", "body": BODY[:20], "more_body": True}
        slow = [asyncio.create_task(post(hybrid, in_turn(part))) for _ in range(200)]
        await asyncio.sleep(0.05)
        assert hybrid.assembly.engine.is_idle
        start, _ = await post(hybrid, in_turn(whole(BODY)))
        assert start["status"] == 200, "whole requests pass the slow ones"
        return [message for sent in await asyncio.gather(*slow) for message in sent]

    sent = asyncio.run(send_slowly())
    assert [one["status"] for one in sent if one["type"] == "http.response.start"] == [408] * 200
    error = json.loads(sent[1]["body"])["error"]
    assert (error["code"], error["retryable"]) == ("request_timeout", True)
    assert (b"retry-after", b"1") in sent[0]["headers"]
    assert sorted(outcomes(caplog), key=str) == [(200, "ok")] + [(408, "request_timeout")] * 200


def test_a_cancelled_request_is_told_that_the_server_stops(
    hybrid: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def cancel() -> list[dict[str, Any]]:
        part = {"type": "http.request", "body": BODY[:20], "more_body": True}
        request = asyncio.create_task(post(hybrid, in_turn(part)))
        await asyncio.sleep(0.05)
        request.cancel()
        return await request

    start, body = asyncio.run(cancel())
    assert start["status"] == 503
    assert json.loads(body["body"])["error"]["code"] == "shutting_down"
    assert outcomes(caplog) == [(503, "shutting_down")]
