"""Decisions of a wanted length, about made-up incident reports. Standard library only.

Lengths are counted in words, and the benchmark's vocabularies hold each word as one token; what a prompt
really has is read from the server's answer.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

_VOCABULARY: Final = (
    "the a of to and in that it was for on with as at by from this had not are but what all were when we"
    " there can an which their said if do will each about how up out them then she many some so these would"
    " other into has more her two like him see time could no make than first been its who now people my made"
    " over did down only way find use may water long little very after words called just where most know get"
    " through back much before go good new write our used me man too any day same right look think also"
    " around another came come work three word must because does part even place well such here take why"
    " things help put years different away again off went old number great tell men say small every found"
    " still between name should home big give air line set own under read last never us left end along while"
    " might next sound below saw something thought both few those always looked show large often together"
    " asked house world going want school important until form food keep children feet land side without boy"
    " once animals life enough took four head above kind began almost live page got earth need far hand high"
    " year mother light parts country father let night following picture being study second eyes soon times"
    " story boys since white days ever paper hard near sentence better best across during today others"
    " however sure means knew try told young miles sun ways thing whole hear example heard several change"
    " answer room sea against top turned learn point city play toward five using himself usually money seen"
    " car morning"
)
_WORDS: Final = tuple(_VOCABULARY.split())

_QUESTIONS: Final = (
    "Was something found?",
    "Is it about money?",
    "Does it say who was there?",
    "Must somebody answer soon?",
    "Is it about the house?",
    "Was it the first time?",
    "Should it be read again?",
)
_OPTIONS: Final = ("Yes.", "No.")


def texts() -> tuple[str, ...]:
    """All texts that decisions are made of."""
    return (_VOCABULARY, *_QUESTIONS, *_OPTIONS)


class Prompts:
    """A stream of decisions; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # nothing secret: texts to be measured with
        self._count = 0

    def state(self, words: int) -> str:
        """A report of so many words, unlike any before."""
        return " ".join(self._random.choices(_WORDS, k=words))

    def decision(self, state: str, question: int = 0) -> dict[str, Any]:
        """A decision about a state; different numbers ask different questions."""
        self._count += 1
        text = _QUESTIONS[question % len(_QUESTIONS)]
        if question >= len(_QUESTIONS):
            text = f"{self.state(question // len(_QUESTIONS))} {text}"
        options = [{"id": str(index), "description": text} for index, text in enumerate(_OPTIONS)]
        return {"id": f"d{self._count}", "state": state, "question": text, "options": options}

    def decisions(self, state: str, count: int) -> Iterator[Mapping[str, Any]]:
        """Decisions with different questions about one state."""
        return (self.decision(state, question) for question in range(count))
