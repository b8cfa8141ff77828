"""What is asked: states of any length that never repeat, and 21 questions about them. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_SUBJECTS: Final = (
    "The courier",
    "A customer",
    "The warehouse",
    "Our agent",
    "The billing team",
    "A neighbour",
)
_VERBS: Final = (
    "reported",
    "returned",
    "forwarded",
    "questioned",
    "confirmed",
    "delayed",
    "repaired",
    "lost",
)
_OBJECTS: Final = (
    "the parcel",
    "an invoice",
    "the second order",
    "a damaged lamp",
    "the refund",
    "a spare key",
)
_ENDS: Final = (
    "before noon",
    "without a receipt",
    "after the phone call",
    "near the old depot",
    "for the third time",
    "and asked for a written answer",
)
_FILLERS: Final = ("then", "again", "today", "later", "there", "also")

_YES_NO: Final = (("yes", "Yes, it does."), ("no", "No, it does not."))
_QUEUES: Final = (
    ("returns", "Returns desk."),
    ("billing", "Billing desk."),
    ("transport", "Transport desk."),
)
_LEVELS: Final = (("low", "Hardly at all."), ("middle", "To some degree."), ("high", "Very much."))
_QUESTIONS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    ("Which desk should read this report first?", _QUEUES),
    ("Does the report ask for money back?", _YES_NO),
    ("How upset is the person who wrote it?", _LEVELS),
    ("Does the report mention an invoice?", _YES_NO),
    ("Which desk is to blame for the delay?", _QUEUES),
    ("How urgent is an answer to this report?", _LEVELS),
    ("Does anyone threaten to go to court?", _YES_NO),
    ("Was a parcel lost on its way?", _YES_NO),
    ("How complete is the report as it stands?", _LEVELS),
    ("Which desk has all it needs to answer?", _QUEUES),
    ("Does the report name a date or a time of day?", _YES_NO),
    ("Was something repaired in the end?", _YES_NO),
    ("How polite is the report's tone?", _LEVELS),
    ("Which desk should pay for the damage?", _QUEUES),
    ("Is a neighbour part of what happened?", _YES_NO),
    ("How likely is another report of this kind?", _LEVELS),
    ("Does the report ask for a written answer?", _YES_NO),
    ("Which desk should call the customer back?", _QUEUES),
    ("Was the refund confirmed by anyone?", _YES_NO),
    ("How hard is it to follow what happened?", _LEVELS),
    ("Does the report speak of a second order?", _YES_NO),
)
_LATER: Final = ("Does the report leave a question open?", _YES_NO)
SHARED_QUESTIONS: Final = len(_QUESTIONS)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, to be written as each side wants it. options: (id, description)."""

    id: str
    state: str
    question: str
    options: tuple[tuple[str, str], ...]

    def as_semif(self) -> dict[str, Any]:
        """As this server, and fastjev's scorers, take it."""
        return {
            "id": self.id,
            "state": self.state,
            "question": self.question,
            "options": [{"id": id_, "description": description} for id_, description in self.options],
        }

    def as_systemone(self) -> dict[str, Any]:
        """As a question of a System One request."""
        return {"type": "choice", "instructions": self.question, "criteria": dict(self.options)}


def state_text(seed: int, words: int) -> str:
    """Prose of so many words. Different seeds differ in the second word, so nothing of it is cached."""
    chosen = random.Random(seed)  # noqa: S311  # text, no secret
    parts = ["Report", f"{seed}:"]
    while len(parts) < words:
        sentence = (chosen.choice(group) for group in (_SUBJECTS, _VERBS, _OBJECTS, _ENDS))
        parts += f"{' '.join(sentence)} {chosen.choice(_FILLERS)}.".split()
    return " ".join(parts[:words])


def one_decision(seed: int, words: int) -> Decision:
    """A decision over a state of its own."""
    question, options = _QUESTIONS[0]
    return Decision(f"d{seed}", state_text(seed, words), question, options)


def shared_decisions(state: str) -> list[Decision]:
    """The 21 decisions over one state."""
    return [
        Decision(f"q{index}", state, question, options)
        for index, (question, options) in enumerate(_QUESTIONS)
    ]


def later_decision(state: str) -> Decision:
    """One more decision over the state, which none of the 21 asks."""
    return Decision("later", state, *_LATER)


def words_for(tokens: int, count_tokens: Callable[[int], int]) -> int:
    """The fewest words that give at least so many tokens. count_tokens: words → tokens, rising."""
    low, high = 1, 2
    while count_tokens(high) < tokens:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if count_tokens(middle) < tokens:
            low = middle + 1
        else:
            high = middle
    return low
