"""What a soak asks: decisions that can be told apart, and a random but repeatable mix of requests over them.

Every request is drawn from its own seed, so that one alone can be written again, whoever sends it when.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Decision = Mapping[str, Any]

_WORDS: Final = [
    "account",
    "invoice",
    "parcel",
    "refund",
    "password",
    "delay",
    "warehouse",
    "courier",
    "damaged",
    "upgrade",
    "contract",
    "meeting",
    "network",
    "printer",
    "röntgen",
    "Straße",
    "発送",
    "订单",
    "возврат",
    "café",
    "naïve",
    "🚚",
    "100",
    "3.5",
    "true",
    "<|im_end|>",
    "</think>",
    "\\",
    '"',
    "\t",
    "[x]",
    "{y}",
]
_STATE_CHARS: Final = ((1, 40), (40, 400), (400, 1500), (1500, 3200))
_STATE_WEIGHTS: Final = (3, 4, 2, 1)
_OPTIONS: Final = ((2, 4), (5, 16), (17, 40), (41, 255))
_OPTION_WEIGHTS: Final = (12, 5, 2, 1)
_MAX_SHARED: Final = 6
_HOT_STATES: Final = 3  # that are asked for again and again, for a while
_HOT_REQUESTS: Final = 40  # as long as this


class Kind(StrEnum):
    """What a request does."""

    SINGLE = "single"
    SHARED = "shared"
    IDENTICAL = "identical"
    LEFT = "left"
    INVALID = "invalid"


_KIND_WEIGHTS: Final = {Kind.SINGLE: 52, Kind.SHARED: 13, Kind.IDENTICAL: 10, Kind.LEFT: 15, Kind.INVALID: 10}


@dataclass(frozen=True, slots=True)
class Request:
    """One thing that a client does.

    decisions: numbers of decisions, all over one state; none when it is invalid. copies: how often it is
    sent at the same time. send_share, stay_s, reset: of a client that leaves: how much it sends (1.0: all),
    how long it stays, how it goes.
    """

    number: int
    kind: Kind
    decisions: tuple[int, ...] = ()
    shared: bool = False
    copies: int = 1
    send_share: float = 1.0
    stay_s: float = 0.0
    reset: bool = False


def make_decisions(
    seed: int, count: int, *, max_state_chars: int = 3200, max_options: int = 255
) -> list[Decision]:
    """Decisions over about a third as many states, no two with the same text anywhere that matters."""
    draw = random.Random(f"decisions {seed}")
    decisions: list[Decision] = []
    while len(decisions) < count:
        state = _state(draw, len(decisions), max_state_chars)
        for _ in range(min(count - len(decisions), draw.choice((1, 1, 2, 3, 6)))):
            decisions.append(_decision(draw, len(decisions), state, max_options))
    return decisions


def _decision(draw: random.Random, number: int, state: Any, max_options: int) -> Decision:
    [(low, high)] = draw.choices(_OPTIONS, _OPTION_WEIGHTS)
    low = min(low, max_options)
    options = draw.randint(low, min(high, max_options))
    # A long list leaves its descriptions short: the prompt has an end.
    longest = 40 if options <= 16 else 6
    return {
        "id": f"decision {number}",
        "state": state,
        "question": f"{number}: {_text(draw, draw.randint(5, 120))}?",
        "options": [
            {"id": f"{number}/{index}", "description": _text(draw, draw.randint(2, longest))}
            for index in range(options)
        ],
    }


def _state(draw: random.Random, number: int, max_chars: int) -> Any:
    [(low, high)] = draw.choices(_STATE_CHARS, _STATE_WEIGHTS)
    text = f"{number} {_text(draw, draw.randint(min(low, max_chars), min(high, max_chars)))}"
    match draw.randrange(4):
        case 0:
            return {"number": number, "text": text, "flags": [True, None, 1.5]}
        case 1:
            return [number, text]
        case _:
            return text


def _text(draw: random.Random, chars: int) -> str:
    words: list[str] = []
    while sum(len(word) + 1 for word in words) < chars:
        words.append(draw.choice(_WORDS) if draw.random() < 0.7 else f"{draw.getrandbits(32):x}")
    return " ".join(words)[:chars].strip() or "x"


class RequestMix:
    """Requests by number: the same seed and decisions give the same requests."""

    def __init__(self, seed: int, decisions: Sequence[Decision], *, longest_stay_s: float = 0.05) -> None:
        self._seed = seed
        self._decisions = decisions
        self._longest_stay_s = longest_stay_s
        by_state: dict[str, list[int]] = defaultdict(list)
        for number, one in enumerate(decisions):
            by_state[json.dumps(one["state"])].append(number)
        self._states = list(by_state.values())

    def request(self, number: int) -> Request:
        """The request of a number."""
        draw = random.Random(f"request {self._seed} {number}")
        [kind] = draw.choices(list(_KIND_WEIGHTS), list(_KIND_WEIGHTS.values()))
        if kind is Kind.INVALID:
            return Request(number, kind)
        asked = self._asked_about(draw, number)
        shared = kind is Kind.SHARED or (kind is not Kind.SINGLE and draw.random() < 0.25)
        if shared:
            chosen = tuple(draw.sample(asked, draw.randint(1, min(_MAX_SHARED, len(asked)))))
        else:
            chosen = (draw.choice(asked),)
        if kind is Kind.IDENTICAL:
            return Request(number, kind, chosen, shared, copies=draw.randint(2, 4))
        if kind is Kind.LEFT:
            return Request(
                number,
                kind,
                chosen,
                shared,
                send_share=1.0 if draw.random() < 0.8 else draw.random(),
                stay_s=draw.choice((0.0, draw.uniform(0, self._longest_stay_s))),
                reset=draw.random() < 0.5,
            )
        return Request(number, kind, chosen, shared)

    def body(self, request: Request) -> bytes:
        """Its JSON."""
        asked = [self._decisions[number] for number in request.decisions]
        content = {"decisions": asked} if request.shared else {"decision": asked[0]}
        return json.dumps(content, ensure_ascii=False).encode()

    def _asked_about(self, draw: random.Random, number: int) -> list[int]:
        """The decisions over one state: one of those that are asked for these days, or any."""
        if draw.random() < 0.5:
            days = random.Random(f"hot {self._seed} {number // _HOT_REQUESTS}")
            return draw.choice(days.choices(self._states, k=_HOT_STATES))
        return draw.choice(self._states)
