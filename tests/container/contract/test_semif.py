import json
from dataclasses import replace
from typing import Any

import pytest

from semif_server.contract.semif import SemifContract
from semif_server.engine.task import DecisionResult, DecisionTask, RequestResult, RequestTimes, SharedTiming
from semif_server.errors import Code, RequestError
from tests.container.serving import PASSWORD_RESET, decision

CONTRACT = SemifContract(
    max_options=16, max_decisions=4, prompt_version="p-v1", model={"gguf": {"file": "m.gguf"}}
)


def read(body: Any) -> Any:
    return CONTRACT.read(json.dumps(body).encode())


def option(identifier: str, description: str = "x") -> dict[str, str]:
    return {"id": identifier, "description": description}


def test_a_decision_becomes_a_task() -> None:
    request = read({"decision": PASSWORD_RESET})
    assert request.shared is False
    assert request.tasks == (
        DecisionTask(
            id="support-route",
            state_json='"The customer cannot receive a password reset email."',
            question="Which queue should handle this request?",
            option_ids=("account_access", "billing"),
            descriptions=("Account access support.", "Billing support."),
        ),
    )


def test_decisions_share_a_state() -> None:
    state = {"b": [1, 1.0, True, None], "a": "é"}
    request = read({"decisions": [decision(id="x", state=state), decision(id="y", state=state)]})
    assert request.shared is True
    assert [task.state_json for task in request.tasks] == ['{"b": [1, 1.0, true, null], "a": "é"}'] * 2


BAD: list[tuple[Any, Code, str | None]] = [
    ([], Code.NOT_AN_OBJECT, None),
    ("decision", Code.NOT_AN_OBJECT, None),
    (None, Code.NOT_AN_OBJECT, None),
    ({}, Code.MISSING_FIELD, "decision"),
    ({"decision": decision(), "decisions": [decision()]}, Code.AMBIGUOUS_REQUEST, None),
    ({"decision": decision(), "extra": 1}, Code.UNKNOWN_FIELD, "extra"),
    ({"decision": decision(temperature=1)}, Code.UNKNOWN_FIELD, "decision.temperature"),
    (
        {"decision": decision(options=[option("a"), option("b") | {"weight": 1}])},
        Code.UNKNOWN_FIELD,
        "decision.options.1.weight",
    ),
    ({"decision": decision(**{"not a name": 1})}, Code.UNKNOWN_FIELD, "decision"),
    ({"decision": None}, Code.WRONG_TYPE, "decision"),
    ({"decision": []}, Code.WRONG_TYPE, "decision"),
    ({"decision": decision(id=None)}, Code.MISSING_FIELD, "decision.id"),
    ({"decision": decision(state=None)}, Code.MISSING_FIELD, "decision.state"),
    ({"decision": decision(question=None)}, Code.MISSING_FIELD, "decision.question"),
    ({"decision": decision(options=None)}, Code.MISSING_FIELD, "decision.options"),
    ({"decision": decision(options=[{"id": "a"}])}, Code.MISSING_FIELD, "decision.options.0.description"),
    ({"decision": decision(id=7)}, Code.WRONG_TYPE, "decision.id"),
    ({"decision": decision(state=7)}, Code.WRONG_TYPE, "decision.state"),
    ({"decision": decision(state=True)}, Code.WRONG_TYPE, "decision.state"),
    ({"decision": decision(question=["x"])}, Code.WRONG_TYPE, "decision.question"),
    ({"decision": decision(options={"a": "b"})}, Code.WRONG_TYPE, "decision.options"),
    ({"decision": decision(options=["a", "b"])}, Code.WRONG_TYPE, "decision.options.0"),
    (
        {"decision": decision(options=[option("a"), {"id": 1, "description": "x"}])},
        Code.WRONG_TYPE,
        "decision.options.1.id",
    ),
    ({"decision": decision(id="")}, Code.EMPTY_VALUE, "decision.id"),
    ({"decision": decision(question=" \n")}, Code.EMPTY_VALUE, "decision.question"),
    (
        {"decision": decision(options=[option("a"), option("b", "")])},
        Code.EMPTY_VALUE,
        "decision.options.1.description",
    ),
    ({"decision": decision(state="")}, Code.EMPTY_STATE, "decision.state"),
    ({"decision": decision(state={})}, Code.EMPTY_STATE, "decision.state"),
    ({"decision": decision(state=[])}, Code.EMPTY_STATE, "decision.state"),
    ({"decision": decision(state=" \t\n")}, Code.EMPTY_STATE, "decision.state"),
    ({"decision": decision(options=[])}, Code.TOO_FEW_OPTIONS, "decision.options"),
    ({"decision": decision(options=[option("a")])}, Code.TOO_FEW_OPTIONS, "decision.options"),
    (
        {"decision": decision(options=[option(str(i)) for i in range(17)])},
        Code.TOO_MANY_OPTIONS,
        "decision.options",
    ),
    (
        {"decision": decision(options=[option(str(i)) for i in range(256)])},
        Code.TOO_MANY_OPTIONS,
        "decision.options",
    ),
    (
        {"decision": decision(options=[option("a"), option("b"), option("a")])},
        Code.DUPLICATE_OPTION_ID,
        "decision.options.2.id",
    ),
    ({"decisions": decision()}, Code.WRONG_TYPE, "decisions"),
    ({"decisions": []}, Code.EMPTY_VALUE, "decisions"),
    ({"decisions": [decision(id=str(i)) for i in range(5)]}, Code.TOO_MANY_DECISIONS, "decisions"),
    ({"decisions": [decision(), decision()]}, Code.DUPLICATE_DECISION_ID, "decisions.1.id"),
    ({"decisions": [decision(), decision(id="y", state="")]}, Code.EMPTY_STATE, "decisions.1.state"),
    (
        {"decisions": [decision(), decision(id="y", state="other")]},
        Code.DIFFERENT_STATES,
        "decisions.1.state",
    ),
    (
        {"decisions": [decision(state=[1]), decision(id="y", state=[1.0])]},
        Code.DIFFERENT_STATES,
        "decisions.1.state",
    ),
    (
        {"decisions": [decision(state=[1]), decision(id="y", state=[True])]},
        Code.DIFFERENT_STATES,
        "decisions.1.state",
    ),
    (
        {"decisions": [decision(state={"a": 1, "b": 2}), decision(id="y", state={"b": 2, "a": 1})]},
        Code.DIFFERENT_STATES,
        "decisions.1.state",
    ),
]


@pytest.mark.parametrize(("body", "code", "field"), BAD)
def test_what_is_refused(body: Any, code: Code, field: str | None) -> None:
    with pytest.raises(RequestError) as caught:
        read(body)
    error = caught.value
    assert (error.code, error.status, error.field) == (code, 400, field)
    assert error.retryable is False
    assert error.retry_after_s is None
    assert error.message.endswith(".")


def test_the_limit_of_options_is_said() -> None:
    many = {"decision": decision(options=[option(str(i)) for i in range(256)])}
    fewer_codes = r"256 options are given; the limit is 16, as many as this model has codes for"
    with pytest.raises(RequestError, match=fewer_codes):
        read(many)
    contract = SemifContract(max_options=255, max_decisions=4, prompt_version="p-v1", model={})
    with pytest.raises(RequestError, match=r"256 options are given; the limit is 255\. Send fewer"):
        contract.read(json.dumps(many).encode())
    del many["decision"]["options"][0]
    assert len(contract.read(json.dumps(many).encode()).tasks[0].option_ids) == 255


def test_codes_of_two_tokens_are_lists() -> None:
    result = replace(RESULT, answer_token_ids=((1, 2), (1, 3)))
    written = CONTRACT.write(RequestResult((result,), None, TIMES))["result"]
    assert json.loads(json.dumps(written))["answer_token_ids"] == [[1, 2], [1, 3]]


@pytest.mark.parametrize("name", ["Maximum", "9lives", "a-b", "x" * 65, "émile", "a b", ""])
def test_an_unknown_field_that_is_no_plain_name_is_refused_by_position(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        read({"decision": {**decision(), name: 1}})
    assert caught.value.message == "Field number 5 of `decision` is no field of this contract. Remove it."
    assert caught.value.field == "decision"
    with pytest.raises(RequestError) as caught:
        read({name: 1})
    assert caught.value.message == "Field number 1 of the body is no field of this contract. Remove it."


TIMES = RequestTimes(queue_s=0.25, prefill_s=0.25, decode_s=0.25, total_s=0.75)

RESULT = DecisionResult(
    id="d",
    option_ids=("a", "b"),
    probabilities=(0.75, 0.25),
    option_logits=(1.5, 0.5),
    answer_token_ids=(1, 2),
    allowed_token_mass=0.5,
    full_vocab_argmax_id=1,
    input_tokens=10,
    cached_tokens=4,
    prompt_sha256="ab",
    forward_s=0.5,
    total_s=0.75,
)

WRITTEN = {
    "id": "d",
    "option_ids": ["a", "b"],
    "probabilities": [0.75, 0.25],
    "option_logits": [1.5, 0.5],
    "answer_token_ids": [1, 2],
    "allowed_token_mass": 0.5,
    "full_vocab_argmax_id": 1,
    "input_tokens": 10,
    "cached_tokens": 4,
    "prompt_sha256": "ab",
    "prompt_version": "p-v1",
    "model": {"gguf": {"file": "m.gguf"}},
    "forward_seconds": 0.5,
    "total_seconds": 0.75,
}


def test_a_response_has_its_fields_in_the_agreed_order() -> None:
    assert json.dumps(CONTRACT.write(RequestResult((RESULT,), None, TIMES))) == json.dumps(
        {"result": WRITTEN}
    )


def test_a_shared_response_has_timing() -> None:
    timing = SharedTiming(batch_size=2, prefix_tokens=7, prefill_s=0.25, suffix_forward_s=0.5, total_s=1.0)
    written = {
        "results": [WRITTEN, WRITTEN],
        "timing": {
            "batch_size": 2,
            "prefix_tokens": 7,
            "prefill_seconds": 0.25,
            "suffix_forward_seconds": 0.5,
            "total_seconds": 1.0,
        },
    }
    assert json.dumps(CONTRACT.write(RequestResult((RESULT, RESULT), timing, TIMES))) == json.dumps(written)
