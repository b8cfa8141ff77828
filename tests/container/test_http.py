"""Requests through the whole app: every refusal's status, code and field, and a server that lives on."""

import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from semif_server.logs import JsonFormatter
from tests.container.serving import JSON, PASSWORD_RESET, Serving, decision

ERROR_KEYS = ["code", "message", "field", "retryable", "retry_after_s"]


def raw(**fields: str) -> bytes:
    """A request for one decision with some fields replaced by raw JSON text."""
    members = {name: json.dumps(value) for name, value in PASSWORD_RESET.items()} | fields
    return (
        '{"decision": {' + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}}"
    ).encode()


def option(identifier: str) -> dict[str, str]:
    return {"id": identifier, "description": "x"}


def assert_refused(response: httpx.Response, status: int, code: str, field: str | None) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ERROR_KEYS
    error: dict[str, Any] = body["error"]
    assert (response.status_code, error["code"], error["field"]) == (status, code, field)
    assert error["message"].endswith(".")
    return error


BAD_BODIES: list[tuple[Any, int, str, str | None]] = [
    (b"", 400, "empty_body", None),
    (b"not json", 400, "invalid_json", None),
    (b'{"decision": ', 400, "invalid_json", None),
    (b"[]", 400, "not_an_object", None),
    (b'"text"', 400, "not_an_object", None),
    (b"null", 400, "not_an_object", None),
    ({}, 400, "missing_field", "decision"),
    ({"decision": decision(), "decisions": [decision()]}, 400, "ambiguous_request", None),
    ({"decision": decision(), "stream": True}, 400, "unknown_field", "stream"),
    ({"decision": decision(temperature=0.7)}, 400, "unknown_field", "decision.temperature"),
    ({"decision": decision(state="")}, 400, "empty_state", "decision.state"),
    ({"decision": decision(state={})}, 400, "empty_state", "decision.state"),
    ({"decision": decision(state=[])}, 400, "empty_state", "decision.state"),
    ({"decision": decision(options=[option("a")])}, 400, "too_few_options", "decision.options"),
    (
        {"decision": decision(options=[option(str(i)) for i in range(256)])},
        400,
        "too_many_options",
        "decision.options",
    ),
    (
        {"decision": decision(options=[option("a"), option("a")])},
        400,
        "duplicate_option_id",
        "decision.options.1.id",
    ),
    ({"decisions": [decision(), decision()]}, 400, "duplicate_decision_id", "decisions.1.id"),
    (
        {"decisions": [decision(), decision(id="two", state="other")]},
        400,
        "different_states",
        "decisions.1.state",
    ),
    ({"decisions": [decision(id=str(i)) for i in range(65)]}, 400, "too_many_decisions", "decisions"),
    (raw(state="NaN"), 400, "non_finite_number", "decision.state"),
    (raw(state="[1e999]"), 400, "non_finite_number", "decision.state"),
    (raw(question="-Infinity"), 400, "non_finite_number", "decision.question"),
    (raw(state=r'"\ud800"'), 400, "lone_surrogate", "decision.state"),
    (raw(state=r'{"\udc00": 1}'), 400, "lone_surrogate", "decision.state"),
    (raw(id=r'"\ud83d"'), 400, "lone_surrogate", "decision.id"),
    (raw(state='{"a": 1, "a": 2}'), 400, "duplicate_key", "decision.state"),
    (raw(state="9" * 5000), 400, "number_too_long", "decision.state"),
    (raw(state="[" * 10_000 + "]" * 10_000), 400, "json_too_deep", None),
    (b"[" * 200_000, 400, "json_too_deep", None),
    (raw().replace(b"reset", b"\xff\xfe"), 400, "invalid_utf8", None),
]


@pytest.mark.parametrize(("body", "status", "code", "field"), BAD_BODIES)
def test_bad_bodies(hybrid: Serving, body: Any, status: int, code: str, field: str | None) -> None:
    error = assert_refused(hybrid.post(body), status, code, field)
    assert (error["retryable"], error["retry_after_s"]) == (False, None)
    assert hybrid.request("GET", "/ping").status_code == 200


@pytest.fixture(scope="module", autouse=True)
def _the_server_is_as_good_as_before(hybrid: Serving) -> Iterator[None]:
    before = hybrid.decide({"decision": PASSWORD_RESET})["result"]["option_logits"]
    yield
    assert hybrid.decide({"decision": PASSWORD_RESET})["result"]["option_logits"] == before


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/jsonl"},
    ],
)
def test_wrong_content_types(hybrid: Serving, headers: dict[str, str]) -> None:
    response = hybrid.post(json.dumps({"decision": PASSWORD_RESET}).encode(), headers)
    assert_refused(response, 415, "unsupported_media_type", None)


@pytest.mark.parametrize(
    "value", ["application/json", "Application/JSON ; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_right_content_types(hybrid: Serving, value: str) -> None:
    response = hybrid.post({"decision": PASSWORD_RESET}, {"content-type": value})
    assert response.status_code == 200


def test_compressed_bodies_are_refused(hybrid: Serving) -> None:
    response = hybrid.post(b"\x1f\x8b", JSON | {"content-encoding": "gzip"})
    assert_refused(response, 415, "unsupported_content_encoding", None)


def too_large(limit: int) -> bytes:
    return json.dumps({"decision": decision(state="x" * limit)}).encode()


def test_a_body_over_the_limit_with_content_length(hybrid: Serving) -> None:
    response = hybrid.post(too_large(262_144))
    error = assert_refused(response, 413, "body_too_large", None)
    assert "262,144 bytes" in error["message"]


def test_a_body_over_the_limit_without_content_length(hybrid: Serving) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 65_536
            yield b" " * 65_536

    response = hybrid.request("POST", "/invocations", content=body(), headers=JSON)
    assert_refused(response, 413, "body_too_large", None)
    assert sent < 3_000_000, "an endless body must not be read to its end"


def test_a_body_at_the_limit_is_read(hybrid: Serving) -> None:
    body = json.dumps({"decision": PASSWORD_RESET}).encode().ljust(262_144)
    assert hybrid.post(body).status_code == 200
    assert_refused(hybrid.post(body + b" "), 413, "body_too_large", None)


def test_a_chunked_body_is_read(hybrid: Serving) -> None:
    async def body() -> AsyncIterator[bytes]:
        for byte in json.dumps({"decision": PASSWORD_RESET}).encode():
            yield bytes([byte])

    assert hybrid.request("POST", "/invocations", content=body(), headers=JSON).status_code == 200


def test_a_prompt_over_the_token_limit_says_how_many_and_the_limit(hybrid: Serving) -> None:
    long = decision(state="word " * 1000)
    tokens = len(
        hybrid.assembly.encoder.encode(json.dumps(long["state"]), long["question"], ("a", "b")).tokens
    )
    assert tokens > 4096
    error = assert_refused(hybrid.post({"decision": long}), 422, "prompt_too_long", "decision")
    exact = len(
        hybrid.assembly.encoder.encode(
            json.dumps(long["state"]),
            long["question"],
            tuple(one["description"] for one in long["options"]),
        ).tokens
    )
    assert f"{exact:,} tokens" in error["message"]
    assert "4,096" in error["message"]
    short = decision(id="x", question="why?")
    second = {"decisions": [short, decision(id="y", question="why? " * 1000)]}
    assert_refused(hybrid.post(second), 422, "prompt_too_long", "decisions.1")


def test_a_prompt_at_the_token_limit_is_answered(hybrid: Serving) -> None:
    # One blank-free character is one token of the byte vocabulary.
    base = len(hybrid.prepare(decision(state="x")).prompt.tokens)
    at_limit = decision(state="x" * (4096 - base + 1))
    assert hybrid.decide({"decision": at_limit})["result"]["input_tokens"] == 4096
    over = decision(state=at_limit["state"] + "x")
    assert (
        "4,097 tokens"
        in assert_refused(hybrid.post({"decision": over}), 422, "prompt_too_long", "decision")["message"]
    )


def test_a_request_over_its_token_limit_is_refused(hybrid: Serving) -> None:
    asked = [decision(id=str(index), state="s" * 100, question="q" * 1500) for index in range(30)]
    error = assert_refused(hybrid.post({"decisions": asked}), 422, "request_too_long", "decisions")
    first, *_ = (hybrid.prepare(one) for one in asked)
    row = first.rows[0]
    needed = len(row.tokens) + 29 * (len(row.tokens) - row.durable_end)
    assert f"{needed:,} tokens" in error["message"]
    assert "32,768" in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("POST", "/invocations/", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/openapi.json", 404, "not_found"),
        ("GET", "/invocations", 405, "method_not_allowed"),
        ("POST", "/metrics", 405, "method_not_allowed"),
        ("POST", "/ping", 405, "method_not_allowed"),
    ],
)
def test_other_routes(hybrid: Serving, method: str, path: str, status: int, code: str) -> None:
    assert_refused(hybrid.request(method, path), status, code, None)


def test_ping_is_an_empty_object(hybrid: Serving) -> None:
    response = hybrid.request("GET", "/ping")
    assert (response.status_code, response.content) == (200, b"{}")


def test_more_options_than_single_token_codes_are_answered(hybrid: Serving) -> None:
    options = [option(str(index)) for index in range(80)]
    result = hybrid.decide({"decision": decision(options=options)})["result"]
    assert result["option_ids"] == [str(index) for index in range(80)]
    assert sum(result["probabilities"]) == pytest.approx(1)
    assert any(isinstance(token, list) and len(token) == 2 for token in result["answer_token_ids"])


def test_a_bug_is_a_500_that_says_so_and_the_next_answer_is_right(
    hybrid: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = hybrid.decide({"decision": PASSWORD_RESET})["result"]["option_logits"]
    context = hybrid.assembly.context
    decode = type(context).decode
    broken = [True]

    def failing(*arguments: Any, **options: Any) -> Any:
        logits = decode(context, *arguments, **options)
        if broken:
            broken.pop()
            raise KeyError("SECRET-MARKER in an exception")
        return logits

    monkeypatch.setattr(context, "decode", failing)
    response = hybrid.post({"decision": PASSWORD_RESET})
    error = assert_refused(response, 500, "internal_error", None)
    assert "bug in the server" in error["message"]
    assert response.headers["x-request-id"] in error["message"]
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    bug = next(line for line in lines if line["level"] == "error")
    assert bug["error"] == "KeyError"
    assert bug["id"] in error["message"]
    assert any("test_http.py" in frame and "failing" in frame for frame in bug["frames"])
    assert "SECRET-MARKER" not in response.text + json.dumps(lines)
    assert hybrid.decide({"decision": PASSWORD_RESET})["result"]["option_logits"] == right


def test_a_logit_that_is_not_finite_is_a_bug_and_never_an_answer(
    hybrid: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = hybrid.assembly.context
    decode = type(context).decode

    def poisoned(*arguments: Any, **options: Any) -> Any:
        logits = decode(context, *arguments, **options)
        return [None if one is None else one * float("nan") for one in logits]

    monkeypatch.setattr(context, "decode", poisoned)
    assert_refused(hybrid.post({"decision": PASSWORD_RESET}), 500, "internal_error", None)


def test_one_log_line_per_request(hybrid: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "semif_server")
    result = hybrid.decide({"decision": PASSWORD_RESET})["result"]
    refused = hybrid.post(b"[]")
    hybrid.request("GET", "/ping")
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    answered, refusal = [line for line in lines if line["event"] == "request"]
    assert (answered["status"], answered["code"], answered["decisions"]) == (200, "ok", 1)
    assert (answered["input_tokens"], answered["cached_tokens"]) == (
        result["input_tokens"],
        result["cached_tokens"],
    )
    assert min(answered["queue_ms"], answered["decode_ms"]) > 0
    assert answered["total_ms"] >= answered["queue_ms"] + answered["prefill_ms"] + answered["decode_ms"]
    assert "queue_ms" not in refusal
    assert (refusal["status"], refusal["code"]) == (400, "not_an_object")
    assert refusal["id"] == refused.headers["x-request-id"] != answered["id"]
