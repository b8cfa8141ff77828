"""The promises about numbers, on real models: same bits, cached or not, and llama.cpp's own."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semif_server.engine.present import present
from semif_server.llama import DecodeError
from semif_server.llama_batch import Piece
from semif_server.profile import load_profile
from tests.container.direct import DirectModel
from tests.container.serving import PASSWORD_RESET, Serving, decision, softmax

CLOCKS = {"cached_tokens", "forward_seconds", "total_seconds"}

# More than 64 tokens for either vocabulary, so that it is a chunk of its own.
LONG_STATE: dict[str, Any] = {
    "ticket": "Ordered on Monday, the box arrived crushed on Friday; the customer wants the money back.",
    "history": [{"order": 88, "total": 41.5, "paid": True}, {"order": 12, "total": 7.0, "paid": None}],
    "note": "Second complaint this month. Previous one was closed without an answer after nine days.",
}
TICKET = [LONG_STATE["note"], LONG_STATE["ticket"], {"orders": LONG_STATE["history"]}]
QUESTIONS = (
    "Is a refund requested?",
    "Which queue should handle this request?",
    "Who is at fault?",
    "How upset is the customer, judged by the words alone?",
    "(none)",
    "Is it urgent?",
    '"Quoted"',
    "  Was the parcel insured?",
)
LONG_DECISION = decision(id="1", state=TICKET, question=QUESTIONS[1])


def without_clocks(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in CLOCKS}


def chunks_of(serving: Serving, one: dict[str, Any]) -> list[tuple[int, ...]]:
    row = serving.prepare(one).rows[0]
    return [row.tokens[chunk.start : chunk.stop] for chunk in row.chunks]


def fresh_result(serving: Serving, one: dict[str, Any]) -> dict[str, Any]:
    """The answer with nothing but the head in the cache."""
    serving.forget()
    result: dict[str, Any] = serving.decide({"decision": one})["result"]
    assert result["cached_tokens"] == len(serving.assembly.encoder.head)
    return result


@pytest.fixture(scope="module")
def direct_smollm2(smollm2_gguf: Path) -> Iterator[DirectModel]:
    model = DirectModel(smollm2_gguf, n_ctx=2048)
    yield model
    model.close()


@pytest.fixture(scope="module")
def direct_hybrid(tiny_hybrid_gguf: Path) -> Iterator[DirectModel]:
    model = DirectModel(tiny_hybrid_gguf, n_ctx=4096)
    yield model
    model.close()


@pytest.fixture(scope="module")
def password_reset(smollm2: Serving) -> dict[str, Any]:
    smollm2.forget()
    result: dict[str, Any] = smollm2.decide({"decision": PASSWORD_RESET})["result"]
    return result


@pytest.fixture(scope="module")
def long_result(smollm2: Serving) -> dict[str, Any]:
    smollm2.forget()
    result: dict[str, Any] = smollm2.decide({"decision": LONG_DECISION})["result"]
    return result


def test_the_readmes_decision(smollm2: Serving, smollm2_gguf: Path, password_reset: dict[str, Any]) -> None:
    assert list(password_reset) == [
        "id",
        "option_ids",
        "probabilities",
        "option_logits",
        "answer_token_ids",
        "allowed_token_mass",
        "full_vocab_argmax_id",
        "input_tokens",
        "cached_tokens",
        "prompt_sha256",
        "prompt_version",
        "model",
        "forward_seconds",
        "total_seconds",
    ]
    assert password_reset["id"] == "support-route"
    assert password_reset["option_ids"] == ["account_access", "billing"]
    assert sum(password_reset["probabilities"]) == pytest.approx(1.0, abs=1e-12)
    assert password_reset["probabilities"][0] > 0.5
    assert password_reset["prompt_version"] == "semif-default-v1"
    assert password_reset["model"]["gguf"] == {
        "file": smollm2_gguf.name,
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }
    assert password_reset["input_tokens"] == len(smollm2.prepare(PASSWORD_RESET).rows[0].tokens)
    assert password_reset["cached_tokens"] == len(smollm2.assembly.encoder.head)
    assert 0 < password_reset["forward_seconds"] <= password_reset["total_seconds"]


def test_probabilities_are_the_softmax_of_the_logits(password_reset: dict[str, Any]) -> None:
    assert password_reset["probabilities"] == pytest.approx(
        softmax(password_reset["option_logits"]), abs=1e-9
    )


def test_the_same_request_twice_gives_the_same_bits(smollm2: Serving, password_reset: dict[str, Any]) -> None:
    again = smollm2.decide({"decision": PASSWORD_RESET})["result"]
    assert without_clocks(again) == without_clocks(password_reset)


def test_the_hash_is_that_of_the_rendered_prompt(smollm2: Serving, password_reset: dict[str, Any]) -> None:
    # SmolLM2's template is ChatML with a system turn; written out here by hand.
    user = json.dumps(
        {
            "evidence": PASSWORD_RESET["state"],
            "criterion": PASSWORD_RESET["question"],
            "options": [
                {"letter": "A", "description": "Account access support."},
                {"letter": "B", "description": "Billing support."},
            ],
        }
    )
    prompt = (
        f"<|im_start|>system\n{load_profile(None).system}<|im_end|>\n"
        f"<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert password_reset["prompt_sha256"] == hashlib.sha256(prompt.encode()).hexdigest()


def test_cached_and_fresh_give_the_same_bits_on_the_real_model(
    smollm2: Serving, password_reset: dict[str, Any], long_result: dict[str, Any]
) -> None:
    asked = [decision(id=str(index), state=TICKET, question=QUESTIONS[index]) for index in range(2)]
    smollm2.forget()
    shared = smollm2.decide({"decisions": asked})["results"]
    prefix = smollm2.prepare(asked[0]).rows[0].durable_end
    assert [result["cached_tokens"] for result in shared] == [len(smollm2.assembly.encoder.head), prefix]
    assert without_clocks(shared[1]) == without_clocks(long_result)
    # and what lay in the sequences before does not matter
    again = smollm2.decide({"decision": PASSWORD_RESET})["result"]
    assert without_clocks(again) == without_clocks(password_reset)


@pytest.mark.parametrize("which", ["short", "long"])
def test_logits_are_llama_cpps_own_and_chunks_move_probabilities_little(
    smollm2: Serving, direct_smollm2: DirectModel, request: pytest.FixtureRequest, which: str
) -> None:
    one, fixture = (PASSWORD_RESET, "password_reset") if which == "short" else (LONG_DECISION, "long_result")
    result: dict[str, Any] = request.getfixturevalue(fixture)
    answers = result["answer_token_ids"]
    assert result["cached_tokens"] > 0
    logits = direct_smollm2.logits(chunks_of(smollm2, one))
    assert result["option_logits"] == [float(logits[token]) for token in answers]
    assert result["full_vocab_argmax_id"] == int(logits.argmax())
    assert result["allowed_token_mass"] == pytest.approx(softmax(logits.tolist())[answers].sum(), abs=1e-9)

    tokens = smollm2.prepare(one).rows[0].tokens
    assert len(tokens) <= 512
    whole = direct_smollm2.logits([tokens])
    probabilities = softmax([float(whole[token]) for token in answers])
    assert np.abs(probabilities - result["probabilities"]).max() <= 0.02


def test_eight_decisions_on_a_hybrid_equal_eight_fresh_ones(
    hybrid: Serving, direct_hybrid: DirectModel
) -> None:
    asked = [decision(id=str(i), state=LONG_STATE, question=question) for i, question in enumerate(QUESTIONS)]
    response = hybrid.decide({"decisions": asked})
    fresh = [fresh_result(hybrid, one) for one in asked]
    assert [without_clocks(one) for one in response["results"]] == [without_clocks(one) for one in fresh]
    assert len({tuple(one["option_logits"]) for one in fresh}) == 8
    for one, result in zip(asked, fresh, strict=True):
        logits = direct_hybrid.logits(chunks_of(hybrid, one))
        assert result["option_logits"] == [float(logits[token]) for token in result["answer_token_ids"]]


def test_shared_timing_says_what_was_held_once(hybrid: Serving) -> None:
    asked = [decision(id=str(i), state=LONG_STATE, question=question) for i, question in enumerate(QUESTIONS)]
    hybrid.forget()
    response = hybrid.decide({"decisions": asked})
    timing = response["timing"]
    row = hybrid.prepare(asked[0]).rows[0]
    assert list(timing) == [
        "batch_size",
        "prefix_tokens",
        "prefill_seconds",
        "suffix_forward_seconds",
        "total_seconds",
    ]
    assert (timing["batch_size"], timing["prefix_tokens"]) == (8, row.durable_end)
    head = len(hybrid.assembly.encoder.head)
    assert [one["cached_tokens"] for one in response["results"]] == [head, *[row.durable_end] * 7]
    forward_s = sum(one["forward_seconds"] for one in response["results"])
    assert timing["prefill_seconds"] + timing["suffix_forward_seconds"] == pytest.approx(forward_s)
    assert forward_s <= timing["total_seconds"]


def test_decisions_over_a_short_state_equal_fresh_ones(hybrid: Serving) -> None:
    asked = [
        decision(id=str(i), state={"a": i % 1}, question=question) for i, question in enumerate(QUESTIONS)
    ]
    response = hybrid.decide({"decisions": asked})
    head = len(hybrid.assembly.encoder.head)
    assert response["timing"]["prefix_tokens"] == head
    for one, result in zip(asked, response["results"], strict=True):
        assert result["cached_tokens"] == head
        assert without_clocks(hybrid.decide({"decision": one})["result"]) == without_clocks(result)


def test_a_single_entry_in_decisions_is_answered_as_decisions(hybrid: Serving) -> None:
    response = hybrid.decide({"decisions": [decision(state=LONG_STATE)]})
    fresh = fresh_result(hybrid, decision(state=LONG_STATE))
    assert [without_clocks(one) for one in response["results"]] == [without_clocks(fresh)]
    assert response["timing"]["batch_size"] == 1


def test_a_prompt_of_several_micro_batches_is_the_same_shared_or_fresh(
    hybrid: Serving, direct_hybrid: DirectModel
) -> None:
    state = ["All that was said on the phone, word for word. " * 20, LONG_STATE]
    asked = [decision(id=str(i), state=state, question=QUESTIONS[i] * 9) for i in range(2)]
    head = len(hybrid.assembly.encoder.head)
    assert hybrid.prepare(asked[0]).rows[0].durable_end - head > 2 * 512
    shared = hybrid.decide({"decisions": asked})["results"]
    fresh = [fresh_result(hybrid, one) for one in asked]
    assert [without_clocks(one) for one in shared] == [without_clocks(one) for one in fresh]
    logits = direct_hybrid.logits(chunks_of(hybrid, asked[1]))
    assert fresh[1]["option_logits"] == [float(logits[token]) for token in fresh[1]["answer_token_ids"]]


@pytest.mark.parametrize("which", ["smollm2", "hybrid"])
def test_a_later_request_about_a_state_decodes_only_its_tail(
    request: pytest.FixtureRequest, which: str
) -> None:
    serving: Serving = request.getfixturevalue(which)
    asked = [decision(id=str(i), state=TICKET, question=QUESTIONS[i]) for i in range(3)]
    fresh = [fresh_result(serving, one) for one in asked]
    serving.forget()
    later = [serving.decide({"decision": one})["result"] for one in asked]
    durable_end = serving.prepare(asked[0]).rows[0].durable_end
    head = len(serving.assembly.encoder.head)
    assert [one["cached_tokens"] for one in later] == [head, durable_end, durable_end]
    assert [without_clocks(one) for one in later] == [without_clocks(one) for one in fresh]
    assert len({tuple(one["option_logits"]) for one in fresh}) == 3


@pytest.mark.parametrize("which", ["smollm2", "hybrid"])
def test_a_decode_is_ended_early_and_leaves_no_trace(request: pytest.FixtureRequest, which: str) -> None:
    serving: Serving = request.getfixturevalue(which)
    one = decision(state=TICKET, question=QUESTIONS[0])
    fresh = fresh_result(serving, one)
    serving.forget()
    context = serving.assembly.context
    context.request_abort()
    with pytest.raises(DecodeError) as caught:
        context.decode([Piece(0, 0, (1,) * 200, want_logits=True)])
    assert caught.value.status == 2
    context.clear(0)
    context.allow_decodes()
    assert without_clocks(serving.decide({"decision": one})["result"]) == without_clocks(fresh)


def test_a_memory_says_by_what_it_does_whether_it_can_cut(smollm2: Serving, hybrid: Serving) -> None:
    assert (smollm2.assembly.context.can_cut_tail, smollm2.assembly.model.is_hybrid) == (True, False)
    assert (hybrid.assembly.context.can_cut_tail, hybrid.assembly.model.is_hybrid) == (False, True)


def test_options_keep_the_request_order(hybrid: Serving) -> None:
    options = [{"id": f"o{index}", "description": f"Choice number {index}."} for index in (5, 3, 16, 1)]
    result = hybrid.decide({"decision": decision(options=options)})["result"]
    assert result["option_ids"] == ["o5", "o3", "o16", "o1"]
    assert result["answer_token_ids"] == [code.tokens[0] for code in hybrid.assembly.encoder.codes_for(4)]


@pytest.mark.parametrize("which", ["smollm2", "hybrid"])
def test_strangers_that_run_at_once_get_their_fresh_answers(
    request: pytest.FixtureRequest, which: str
) -> None:
    serving: Serving = request.getfixturevalue(which)
    asked = [
        decision(id=f"{i}{j}", state=[i, *TICKET], question=QUESTIONS[j]) for i in range(3) for j in range(3)
    ]
    fresh = [fresh_result(serving, one) for one in asked]
    serving.forget()
    engine, preparer = serving.assembly.engine, serving.assembly.preparer
    prepared = [preparer.prepare(serving.read(one)) for one in asked * 2]
    waiting = [engine.submit(one, time.perf_counter()) for one in prepared]
    for one, submission, wanted in zip(prepared, waiting, fresh * 2, strict=True):
        [result] = present(one, submission.future.result(60), time.perf_counter()).results
        assert list(result.option_logits) == wanted["option_logits"]
        assert result.allowed_token_mass == wanted["allowed_token_mass"]
    assert len({tuple(one["option_logits"]) for one in fresh}) == 9


def test_sixteen_options_are_answered(hybrid: Serving) -> None:
    options = [{"id": f"o{index}", "description": f"Choice number {index}."} for index in range(16)]
    result = hybrid.decide({"decision": decision(options=options)})["result"]
    assert len(set(result["answer_token_ids"])) == 16
    assert result["probabilities"] == pytest.approx(softmax(result["option_logits"]), abs=1e-9)
