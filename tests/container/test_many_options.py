"""More options than the profile has slots, on real vocabularies: one step, two steps, llama.cpp's numbers."""

import json
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pytest

from semif_server.encoding import PromptEncoder
from semif_server.engine.plan import Row
from semif_server.engine.prepare import Preparer
from semif_server.profile import DEFAULT_PROFILE_PATH, load_profile
from semif_server.prompt import to_json
from semif_server.template import ChatTemplate
from tests.container.direct import DirectModel
from tests.container.serving import Serving, decision, softmax
from tools.make_tiny_hybrid import write_tiny_hybrid

CAPITALS = list(ascii_uppercase)
LIMITED: dict[str, Any] = {
    **json.loads(DEFAULT_PROFILE_PATH.read_text(encoding="utf-8")),
    "name": "letters-only-v1",
}
del LIMITED["vocabulary_codes"]


def options(count: int) -> list[dict[str, str]]:
    return [{"id": f"o{index}", "description": f"Shelf {index}."} for index in range(count)]


def asked(count: int, **changes: Any) -> dict[str, Any]:
    return decision(state="The box is green.", question="Where?", options=options(count), **changes)


def limited_encoder(serving: Serving, folder: Path) -> PromptEncoder:
    path = folder / "profile.json"
    path.write_text(json.dumps(LIMITED))
    model = serving.assembly.model
    vocabulary = model.vocabulary
    template = ChatTemplate(
        model.chat_template(), bos_token=vocabulary.bos_text(), eos_token=vocabulary.eos_text()
    )
    return PromptEncoder(vocabulary, template, load_profile(path))


def slots_shown(serving: Serving, tokens: tuple[int, ...]) -> list[str]:
    text = b"".join(serving.vocabulary._text_of(token, special=True) for token in tokens).decode()
    shown = json.loads("[" + text.partition('"options": [')[2].partition("]")[0] + "]")
    return [one["letter"] for one in shown]


def check_codes(serving: Serving, encoder: PromptEncoder, count: int) -> None:
    """Every code is what the tokenizer makes of its text behind the prompt's ending."""
    vocabulary, ending = serving.vocabulary, encoder._pieces.after
    before = vocabulary.tokenize(ending, parse_special=True)
    codes = encoder.codes_for(count)
    assert len({code.tokens for code in codes}) == count
    for code in codes:
        assert vocabulary.tokenize(ending + code.text, parse_special=True) == [*before, *code.tokens]


@pytest.fixture(scope="module")
def direct_smollm2(smollm2_gguf: Path) -> Iterator[DirectModel]:
    model = DirectModel(smollm2_gguf, n_ctx=8192)
    yield model
    model.close()


@pytest.fixture(scope="module")
def direct_hybrid(tiny_hybrid_gguf: Path) -> Iterator[DirectModel]:
    model = DirectModel(tiny_hybrid_gguf, n_ctx=16_384)
    yield model
    model.close()


@pytest.fixture(scope="module")
def wide_hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The byte vocabulary with room for the text of 255 options."""
    folder = tmp_path_factory.mktemp("wide")
    gguf = write_tiny_hybrid(folder / "wide.gguf", context_tokens=16_384)
    serving = Serving(gguf, max_tokens=16_384, max_request_tokens=65_536)
    yield serving
    serving.close()


@pytest.fixture(scope="module")
def limited_hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The same model in an archive whose profile keeps to A-P."""
    folder = tmp_path_factory.mktemp("limited")
    gguf = write_tiny_hybrid(folder / "wide.gguf", context_tokens=16_384)
    (folder / "profile.json").write_text(json.dumps(LIMITED))
    serving = Serving(gguf, model_dir=folder, max_tokens=16_384, max_request_tokens=65_536)
    yield serving
    serving.close()


def test_smollm2_has_403_codes_of_one_token(smollm2: Serving) -> None:
    encoder = smollm2.assembly.encoder
    assert encoder.single_token_codes == 403
    assert (encoder.options_in_one_step, encoder.max_options) == (255, 255)
    assert [code.text for code in encoder.codes_for(16)] == CAPITALS[:16]
    assert [code.text for code in encoder.codes_for(26)] == CAPITALS
    check_codes(smollm2, encoder, 255)


def test_the_byte_vocabulary_has_26_and_then_pairs(hybrid: Serving) -> None:
    encoder = hybrid.assembly.encoder
    assert (encoder.single_token_codes, encoder.options_in_one_step, encoder.max_options) == (26, 26, 255)
    assert [code.text for code in encoder.codes_for(27)][:2] == ["AA", "AB"]
    for count in (26, 27, 255):
        check_codes(hybrid, encoder, count)


def test_a_limited_profile_keeps_to_its_letters_on_any_vocabulary(
    smollm2: Serving, hybrid: Serving, tmp_path: Path
) -> None:
    for serving in (smollm2, hybrid):
        encoder = limited_encoder(serving, tmp_path)
        assert (encoder.options_in_one_step, encoder.max_options) == (16, 255)
        assert {len(code.tokens) for code in encoder.codes_for(255)} == {2}
        assert set("".join(code.text for code in encoder.codes_for(255))) - {" "} == set(CAPITALS[:16])
        check_codes(serving, encoder, 255)
        # up to 16 options nothing tells it from the default profile
        ours = serving.assembly.encoder
        texts = tuple(f"Shelf {index}." for index in range(16))
        assert encoder.encode(to_json("x"), "q", texts) == ours.encode(to_json("x"), "q", texts)


@pytest.mark.parametrize("count", [16, 17, 26, 27, 255])
def test_one_step_on_a_real_vocabulary(smollm2: Serving, count: int) -> None:
    context = smollm2.assembly.context
    encoder = smollm2.assembly.encoder
    preparer = Preparer(encoder, micro_batch=context.micro_batch, max_tokens=8192, max_request_tokens=8192)
    prepared = preparer.prepare(smollm2.read(asked(count))).decisions[0]
    assert len(prepared.rows) == 1
    assert {len(code) for code in prepared.codes} == {1}
    shown = slots_shown(smollm2, prepared.rows[0].tokens)
    assert [smollm2.vocabulary.piece(token).decode() for (token,) in prepared.codes] == shown
    assert shown[:26] == CAPITALS[: min(count, 26)]


@pytest.mark.parametrize("count", [17, 27])
def test_one_step_gives_llama_cpps_own_logits(
    smollm2: Serving, direct_smollm2: DirectModel, count: int
) -> None:
    one = asked(count)
    result = smollm2.decide({"decision": one})["result"]
    logits = direct_smollm2.logits(cut(smollm2.prepare(one).rows[0]))
    ids = result["answer_token_ids"]
    assert result["option_ids"] == [f"o{index}" for index in range(count)]
    assert result["option_logits"] == [float(logits[token]) for token in ids]
    assert result["probabilities"] == pytest.approx(softmax(result["option_logits"]), abs=1e-9)
    assert result["allowed_token_mass"] == pytest.approx(softmax(logits.tolist())[ids].sum(), abs=1e-9)


def cut(row: Row) -> list[tuple[int, ...]]:
    return [row.tokens[chunk.start : chunk.stop] for chunk in row.chunks]


def check_two_steps(
    serving: Serving, direct: DirectModel, one: dict[str, Any], result: dict[str, Any]
) -> None:
    """The answer against the definition, from llama.cpp called directly: p(first) · p(second | first)."""
    prompt = cut(serving.prepare(one).rows[0])
    ids = result["answer_token_ids"]
    assert len(ids) == len(one["options"])
    logits, logits_behind = direct.branches(prompt, {token for token, _ in ids})
    first = softmax(logits.tolist())
    behind = {token: softmax(row.tolist()) for token, row in logits_behind.items()}
    joint = np.array([first[token] * behind[token][second] for token, second in ids])
    assert result["allowed_token_mass"] == pytest.approx(joint.sum(), abs=1e-9)
    assert result["option_logits"] == pytest.approx(np.log(joint).tolist(), abs=1e-9)
    assert result["probabilities"] == pytest.approx((joint / joint.sum()).tolist(), abs=1e-9)
    assert result["probabilities"] == pytest.approx(softmax(result["option_logits"]), abs=1e-9)
    assert result["full_vocab_argmax_id"] == int(first.argmax())
    assert len(set(result["option_logits"])) == len(ids), "equal scores would hide a swap"


@pytest.mark.parametrize("count", [27, 255])
def test_two_steps_on_the_byte_vocabulary(
    wide_hybrid: Serving, direct_hybrid: DirectModel, count: int
) -> None:
    one = asked(count)
    prepared = wide_hybrid.prepare(one)
    firsts = list(dict.fromkeys(code[0] for code in prepared.codes))
    assert [row.tokens[-1] for row in prepared.rows[1:]] == firsts
    assert len(firsts) == -(-count // 26)
    spelled = [b"".join(map(wide_hybrid.vocabulary.piece, code)).decode() for code in prepared.codes]
    assert spelled == slots_shown(wide_hybrid, prepared.rows[0].tokens)
    result = wide_hybrid.decide({"decision": one})["result"]
    assert result["answer_token_ids"] == [list(code) for code in prepared.codes]
    assert result["input_tokens"] == len(prepared.rows[0].tokens)
    check_two_steps(wide_hybrid, direct_hybrid, one, result)


@pytest.mark.parametrize("count", [17, 255])
def test_two_steps_within_a_limited_profile(
    limited_hybrid: Serving, direct_hybrid: DirectModel, count: int
) -> None:
    one = asked(count)
    result = limited_hybrid.decide({"decision": one})["result"]
    assert result["prompt_version"] == "letters-only-v1"
    assert {token for code in result["answer_token_ids"] for token in code} <= {
        ord(one) for one in "ABCDEFGHIJKLMNOP"
    }
    check_two_steps(limited_hybrid, direct_hybrid, one, result)


def test_decisions_of_both_kinds_share_a_state(wide_hybrid: Serving, direct_hybrid: DirectModel) -> None:
    both = [asked(3, id="few"), asked(40, id="many"), asked(26, id="capitals")]
    results = wide_hybrid.decide({"decisions": both})["results"]
    for one, result in zip(both, results, strict=True):
        fresh = wide_hybrid.decide({"decision": one})["result"]
        assert result["option_logits"] == fresh["option_logits"]
    check_two_steps(wide_hybrid, direct_hybrid, both[1], results[1])
    assert all(
        isinstance(token, int) for result in (results[0], results[2]) for token in result["answer_token_ids"]
    )


def test_256_options_are_refused(wide_hybrid: Serving) -> None:
    response = wide_hybrid.post({"decision": asked(256)})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "too_many_options")
    assert "the limit is 255." in response.json()["error"]["message"]


def test_the_second_step_counts_towards_the_limit(wide_hybrid: Serving) -> None:
    prepared = wide_hybrid.prepare(asked(40))
    request = wide_hybrid.assembly.preparer.prepare(wide_hybrid.read(asked(40)))
    assert request.evaluated_tokens == len(prepared.rows[0].tokens) + 2
    assert {len(row.tokens) for row in prepared.rows[1:]} == {len(prepared.rows[0].tokens) + 1}
