"""Requests from flags and JSON, answers as tables, errors with their next step."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semif.decide import read_answers, request_from_flags, request_from_json, server_error, table
from semif.errors import ExitCode, NotReadableError, UsageError
from tests.semif.contract_server import error_body

BARE = b'{"id": "a", "state": {"n": 1.0, "k": 1e2}, "question": "q", "options": []}'


def test_flags_make_one_decision() -> None:
    body = request_from_flags(
        decision_id="route", state="Ich kann mich nicht anmelden ✓", question="Who?", options=["a=x=y", "b="]
    )
    assert json.loads(body) == {
        "decision": {
            "id": "route",
            "state": "Ich kann mich nicht anmelden ✓",
            "question": "Who?",
            "options": [{"id": "a", "description": "x=y"}, {"id": "b", "description": ""}],
        }
    }
    assert "✓".encode() in body


@given(
    st.text(), st.text(), st.lists(st.tuples(st.text().filter(lambda t: "=" not in t), st.text()), min_size=1)
)
def test_any_text_of_a_terminal_arrives_as_typed(
    state: str, question: str, options: list[tuple[str, str]]
) -> None:
    body = request_from_flags(
        decision_id="d", state=state, question=question, options=[f"{a}={b}" for a, b in options]
    )
    sent = json.loads(body.decode("utf-8"))["decision"]
    assert (sent["state"], sent["question"]) == (state, question)
    assert [(option["id"], option["description"]) for option in sent["options"]] == options


def test_missing_flags_are_all_named() -> None:
    with pytest.raises(UsageError, match="--state, --option") as raised:
        request_from_flags(decision_id="d", state=None, question="q", options=[])
    assert raised.value.next_step


def test_option_without_a_description() -> None:
    with pytest.raises(UsageError, match="'billing' has no ="):
        request_from_flags(decision_id="d", state="s", question="q", options=["billing"])


def test_bytes_that_are_no_text_cannot_be_sent() -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        request_from_flags(decision_id="d", state="s", question="\udcff", options=["a=b"])
    with pytest.raises(UsageError, match="the state is not UTF-8"):
        request_from_flags(decision_id="d", state=["\ud800"], question="q", options=["a=b"])


@pytest.mark.parametrize(
    "raw",
    [
        b'{"decision": {"n": 1.0}}',
        b'{ "decisions" : [ ] }',
        b'{"decision": {}, "decisions": []}',
        b"[1]",
        b"NaN",
    ],
)
def test_json_is_sent_byte_for_byte(raw: bytes) -> None:
    assert request_from_json(raw, "x.json") == raw


def test_bare_decision_is_wrapped_and_not_rewritten() -> None:
    body = request_from_json(b"\xef\xbb\xbf" + BARE, "x.json")
    assert BARE in body
    assert json.loads(body) == {"decision": json.loads(BARE)}


def test_broken_json_says_where() -> None:
    with pytest.raises(UsageError, match=r"x\.json is not JSON: .* in line 2, column 3"):
        request_from_json(b'{"a": 1,\n  }', "x.json")


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(UsageError):
        request_from_json(b"[" * 200_000, "x.json")


def test_not_utf8_says_where() -> None:
    with pytest.raises(UsageError, match="standard input, at byte 2, is not UTF-8"):
        request_from_json(b'{"\xff": 1}', "standard input")


def test_table_has_the_answer_first() -> None:
    body = json.dumps(
        {"result": {"id": "route", "option_ids": ["a", "billing"], "probabilities": [0.25, 0.75]}}
    ).encode()
    assert table(read_answers(body), width=40).splitlines() == [
        "route: billing",
        "a        0.250000  █████",
        "billing  0.750000  ████████████████",
    ]


def test_equal_probabilities_choose_the_first() -> None:
    body = json.dumps({"result": {"id": "d", "option_ids": ["x", "y"], "probabilities": [0.5, 0.5]}}).encode()
    assert read_answers(body)[0].best == 0


def test_several_results_are_several_tables() -> None:
    results = [{"id": name, "option_ids": ["x", "y"], "probabilities": [1, 0]} for name in ("one", "two")]
    text = table(read_answers(json.dumps({"results": results}).encode()), width=40)
    assert [block.splitlines()[0] for block in text.split("\n\n")] == ["one: x", "two: x"]


def test_option_ids_cannot_steer_the_terminal() -> None:
    body = json.dumps(
        {"result": {"id": "d\x1b[2J", "option_ids": ["\x1b[31m", "y"], "probabilities": [1, 0]}}
    )
    assert "\x1b" not in table(read_answers(body.encode()), width=40)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"result": {"id": "d"}}',
        b'{"result": {"id": "d", "option_ids": ["a"], "probabilities": []}}',
        b'{"result": {"id": "d", "option_ids": [], "probabilities": []}}',
        b'{"result": {"id": "d", "option_ids": ["a"], "probabilities": ["x"]}}',
        b'{"results": 3}',
    ],
)
def test_other_answers_are_not_read(body: bytes) -> None:
    with pytest.raises(NotReadableError):
        read_answers(body)


@pytest.mark.parametrize(
    ("status", "retryable", "exit_code"),
    [
        (400, False, ExitCode.REFUSED),
        (413, False, ExitCode.REFUSED),
        (422, False, ExitCode.REFUSED),
        (429, False, ExitCode.RETRYABLE),
        (503, True, ExitCode.RETRYABLE),
        (503, False, ExitCode.RETRYABLE),
        (500, False, ExitCode.SERVICE),
        (500, True, ExitCode.RETRYABLE),
    ],
)
def test_exit_code_follows_the_error(status: int, retryable: bool, exit_code: ExitCode) -> None:
    error = server_error(status, error_body("some_code", "why", "decision.state", retryable=retryable))
    assert error.exit_code == exit_code
    assert (error.code, error.message, error.field) == ("some_code", "why", "decision.state")
    assert error.next_step


def test_retry_after_is_told() -> None:
    error = server_error(503, error_body("busy", "full", retryable=True, after_s=2.5))
    assert error.report() == "error: busy: full\nnext: send the same request again in 2.5 s"


@pytest.mark.parametrize(
    "body", [b"", b"Bad Gateway", b"\xff\x1b[2J", b"[]", b'{"error": "x"}', b'{"error": {}}']
)
def test_an_error_of_something_else_is_shown_as_it_is(body: bytes) -> None:
    error = server_error(502, body)
    assert error.code == "http_502"
    assert error.exit_code == ExitCode.SERVICE
    assert "\x1b" not in error.report()
