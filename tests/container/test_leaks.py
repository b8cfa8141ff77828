"""A marker in every field, through every error path: no error body and no output of the server holds it."""

import json
from typing import Any

import pytest

from tests.container.process import ServerProcess

MARKER = "SECRET7f3aMARKER"


def marked() -> dict[str, Any]:
    """A right decision with the marker in every text, and as a key of the state."""
    return {
        "id": f"id {MARKER}",
        "state": {f"key {MARKER}": [f"state {MARKER}"]},
        "question": f"question {MARKER}",
        "options": [
            {"id": f"option {index} {MARKER}", "description": f"description {index} {MARKER}"}
            for index in range(2)
        ],
    }


def changed(**changes: Any) -> dict[str, Any]:
    return {"decision": marked() | changes}


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


OPTIONS = marked()["options"]
LONG = f"{MARKER} " * 600

BODIES: dict[str, Any] = {
    "invalid_json": f'{{"decision": {MARKER}}}'.encode(),
    "invalid_json in a string": f'{{"decision": "{MARKER}\n"}}'.encode(),
    "invalid_json in an escape": f'{{"{MARKER}": "\\{MARKER}"}}'.encode(),
    "invalid_utf8": MARKER.encode() + b"\xff",
    "not_an_object": [MARKER],
    "missing_field": {},
    "missing_field of a decision": {"decision": {"id": MARKER}},
    "ambiguous_request": {"decision": marked(), "decisions": [marked()]},
    "unknown_field": {MARKER: MARKER},
    "unknown_field of a decision": changed(**{MARKER: MARKER}),
    "unknown_field of an option": changed(options=[OPTIONS[0], OPTIONS[1] | {MARKER: MARKER}]),
    "unknown_field beside a decision": {"decision": marked(), f"a {MARKER}": 1},
    "wrong_type of a decision": {"decision": MARKER},
    "wrong_type of decisions": {"decisions": {MARKER: MARKER}},
    "wrong_type of an id": changed(id=[MARKER]),
    "wrong_type of a question": changed(question={MARKER: MARKER}),
    "wrong_type of options": changed(options={MARKER: MARKER}),
    "wrong_type of an option": changed(options=[MARKER, MARKER]),
    "wrong_type of a description": changed(options=[{"id": MARKER, "description": [MARKER]}, OPTIONS[1]]),
    "empty_value": changed(question=""),
    "empty_state": changed(state=""),
    "too_few_options": changed(options=OPTIONS[:1]),
    "too_many_options": changed(options=[{"id": f"{MARKER}{i}", "description": MARKER} for i in range(256)]),
    "too_many_decisions": {"decisions": [marked()] * 65},
    "duplicate_option_id": changed(options=[OPTIONS[0], OPTIONS[0]]),
    "duplicate_decision_id": {"decisions": [marked(), marked()]},
    "different_states": {"decisions": [marked(), marked() | {"id": "2", "state": MARKER * 2}]},
    "duplicate_key": f'{{"decision": {{"state": {{"{MARKER}": 1, "{MARKER}": 2}}}}}}'.encode(),
    "non_finite_number": text_of(changed(state={MARKER: 0})).replace("0}", "NaN}").encode(),
    "number_too_long": text_of(changed(state={MARKER: 0})).replace("0}", "9" * 5000 + "}").encode(),
    "lone_surrogate": text_of(changed(state=f"{MARKER}#")).replace("#", "\\ud800").encode(),
    "lone_surrogate in a key": text_of(changed(state={f"{MARKER}#": 1})).replace("#", "\\ud800").encode(),
    "json_too_deep": (f'["{MARKER}",' * 10_000).encode(),
    "prompt_too_long": changed(state=LONG),
    "prompt_too_long in decisions": {"decisions": [marked(), marked() | {"id": "2", "question": LONG}]},
    "request_too_long": {
        "decisions": [marked() | {"id": f"{MARKER}{i}", "question": LONG[:2500]} for i in range(8)]
    },
    "body_too_large": changed(state=MARKER * 20_000),
    "empty_body": b"",
}


@pytest.mark.parametrize("name", BODIES)
def test_no_error_body_holds_the_marker(hybrid_process: ServerProcess, name: str) -> None:
    status, body = hybrid_process.post(BODIES[name])
    assert 400 <= status < 500
    assert json.loads(body)["error"]["code"] == name.partition(" ")[0]
    assert MARKER not in body
    assert MARKER not in hybrid_process.output()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", f"/{MARKER}", {"Content-Type": "application/json"}, 404),
        ("PUT", f"/invocations?{MARKER}={MARKER}", {"Content-Type": "application/json"}, 405),
        ("POST", f"/invocations?{MARKER}", {"Content-Type": MARKER}, 415),
        ("POST", "/invocations", {"Content-Type": "application/json", "Content-Encoding": MARKER}, 415),
        ("POST", "/invocations", {"Content-Type": f"application/json; charset={MARKER}"}, 415),
    ],
)
def test_no_path_and_no_header_comes_back(
    hybrid_process: ServerProcess, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = hybrid_process.request(method, path, text_of(changed()).encode(), headers | {"X-Any": MARKER})
    assert answer[0] == status
    assert MARKER not in answer[1]
    assert MARKER not in hybrid_process.output()


def test_a_right_request_gives_the_ids_back_and_logs_nothing_of_it(hybrid_process: ServerProcess) -> None:
    status, body = hybrid_process.post(changed())
    assert status == 200
    result = json.loads(body)["result"]
    assert result["id"] == f"id {MARKER}"
    assert result["option_ids"] == [f"option {index} {MARKER}" for index in range(2)]
    assert body.count(MARKER) == 3
    assert MARKER not in hybrid_process.output()


def test_at_the_end_the_server_still_serves_and_has_logged_every_request(
    hybrid_process: ServerProcess,
) -> None:
    assert hybrid_process.request("GET", "/ping") == (200, "{}")
    logged = hybrid_process.lines("request")
    assert len(logged) >= len(BODIES)
    assert {line["level"] for line in logged} == {"info"}
    assert not any(key in hybrid_process.output() for key in ("Traceback", '"error"', '"critical"'))
