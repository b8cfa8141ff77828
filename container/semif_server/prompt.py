"""Keys, slots and decision → the user message, with the byte offsets at which its segments end. Pure.

The message is `json.dumps({state, question, options})` in that key order with json's default separators,
so everything up to the end of the state is the same for all questions about one state.

A segment ends behind a key's colon. The blank that follows belongs to the next segment: tokenizers that
split words take a blank together with what follows it (` "`), so the tokens before the cut do not depend
on what comes after it, while a cut behind the state itself would (`."` and `,` can be one token).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from semif_server.profile import PayloadKeys


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The text of the user turn; head_end and state_end count bytes of its UTF-8 form.

    head: everything before the state, `{"evidence":`.
    state: ` STATE, "criterion":`.
    tail: question and options, to the end.
    """

    text: str
    head_end: int
    state_end: int


def to_json(value: object) -> str:
    """JSON as the prompt holds it. Two values are equal to this server if this text is."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def user_message(
    keys: PayloadKeys, state_json: str, question: str, slots: Sequence[str], descriptions: Sequence[str]
) -> UserMessage:
    """Write the user message. state_json: the state as to_json gives it. slots: one per description."""
    options = [
        {keys.slot: slot, keys.description: description}
        for slot, description in zip(slots, descriptions, strict=True)
    ]
    head = f"{{{to_json(keys.state)}:"
    state = f" {state_json}, {to_json(keys.question)}:"
    tail = f" {to_json(question)}, {to_json(keys.options)}: {to_json(options)}}}"
    head_end = len(head.encode())
    return UserMessage(head + state + tail, head_end, head_end + len(state.encode()))
