import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semif_server.profile import load_profile
from semif_server.prompt import to_json, user_message

PROFILE = load_profile(None)

texts = st.text(st.characters(exclude_categories=["Cs"]))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(state=values, question=texts, descriptions=st.lists(texts, min_size=2, max_size=16))
def test_the_message_is_json_in_the_agreed_key_order(
    state: Any, question: str, descriptions: list[str]
) -> None:
    message = user_message(
        PROFILE.payload, to_json(state), question, PROFILE.slots[: len(descriptions)], descriptions
    )
    options = [
        {"letter": letter, "description": text}
        for letter, text in zip(PROFILE.slots, descriptions, strict=False)
    ]
    assert message.text == json.dumps(
        {"evidence": state, "criterion": question, "options": options}, ensure_ascii=False
    )


@given(state=values, question=texts)
def test_segments_end_behind_a_key(state: Any, question: str) -> None:
    message = user_message(PROFILE.payload, to_json(state), question, "AB", ("x", "y"))
    data = message.text.encode()
    assert data[: message.head_end] == b'{"evidence":'
    assert data[message.head_end : message.state_end].decode() == f' {to_json(state)}, "criterion":'
    assert data[message.state_end :].decode().startswith(f" {to_json(question)}, ")


@given(state=values, first=texts, second=texts)
def test_questions_about_one_state_share_everything_before_the_question(
    state: Any, first: str, second: str
) -> None:
    one, other = (
        user_message(PROFILE.payload, to_json(state), question, "AB", ("x", "y"))
        for question in (first, second)
    )
    assert one.state_end == other.state_end
    assert one.text.encode()[: one.state_end] == other.text.encode()[: other.state_end]


def test_other_keys_come_from_the_profile() -> None:
    payload = PROFILE.payload.model_copy(update={"state": "s\n", "question": "é", "slot": "k"})
    message = user_message(payload, '"x"', "q", ("A", "B"), ("one", "two"))
    assert message.text == (
        '{"s\\n": "x", "é": "q", "options":'
        ' [{"k": "A", "description": "one"}, {"k": "B", "description": "two"}]}'
    )
