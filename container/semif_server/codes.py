"""What stands for an option in the prompt, and the tokens that answer with it. Pure.

All options of one decision have codes of one kind, the first of these that has enough:
1. the profile's own slots, one token each;
2. where the profile allows it, all single-token codes of the vocabulary: A-Z, then two capitals;
3. codes of two tokens: two capitals, or, where the profile keeps to its slots, two of those. The second
   token is scored behind the first, so these cost a second step.

A code counts only as the tokenizer itself writes it behind the prompt. Capitals that merge ("AB" is one
token of most vocabularies) are no code of two tokens: the model would never answer with the halves. Where
that leaves too few, the two stand apart ("A B").
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from string import ascii_uppercase
from typing import Final

from semif_server.errors import ModelError

MAX_OPTIONS: Final = 255
# More letters than these need not be tried: 26 make 676 pairs.
_PAIR_LETTERS: Final = 26
_JOINERS: Final = ("", " ")

# Tokens of a text behind the prompt's ending; None if they aren't the ending's own and then the text's.
TokensBehind = Callable[[str], tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class Code:
    """text: as the prompt shows it. tokens: the answer with it, one or two token ids."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodeBook:
    """The codes of one model under one profile, by kind, in the order in which options get them.

    singles, pairs: empty if not allowed, not there, or not needed to reach MAX_OPTIONS.
    """

    slots: tuple[Code, ...]
    singles: tuple[Code, ...]
    pairs: tuple[Code, ...]

    @property
    def options_in_one_step(self) -> int:
        """How many options one evaluation of the prompt decides among, at most MAX_OPTIONS."""
        return min(MAX_OPTIONS, max(len(self.slots), len(self.singles)))

    @property
    def max_options(self) -> int:
        """How many options a decision may have, at most MAX_OPTIONS."""
        return min(MAX_OPTIONS, max(self.options_in_one_step, len(self.pairs)))

    def codes_for(self, n_options: int) -> tuple[Code, ...]:
        """One code per option, all of one kind. Raises ValueError beyond max_options."""
        for codes in (self.slots, self.singles, self.pairs):
            if n_options <= min(len(codes), MAX_OPTIONS):
                return codes[:n_options]
        raise ValueError(f"{n_options} options; there are codes for {self.max_options}")


def find_codes(tokens_behind: TokensBehind, slots: Sequence[str], *, vocabulary_codes: bool) -> CodeBook:
    """Find the codes that a vocabulary offers behind the prompt's ending.

    vocabulary_codes: whether more than the profile's slots may be used. Raises ModelError when a slot is not
    one token.
    """
    own = tuple(_of_length(1, slots, tokens_behind))
    if len(own) < len(slots):
        missing = next(slot for slot in slots if slot not in {code.text for code in own})
        raise ModelError(
            f"The profile's slot {missing!r} is not one token of its own behind this model's prompt:"
            " use a profile with other slots."
        )
    singles: tuple[Code, ...] = ()
    letters: Sequence[str] = slots
    if vocabulary_codes:
        two_capitals = map("".join, product(ascii_uppercase, repeat=2))
        singles = tuple(_of_length(1, (*ascii_uppercase, *two_capitals), tokens_behind))
        letters = ascii_uppercase
    found = CodeBook(own, singles, ())
    if found.options_in_one_step == MAX_OPTIONS:
        return found
    return CodeBook(own, singles, _pairs(letters[:_PAIR_LETTERS], tokens_behind))


def _pairs(letters: Sequence[str], tokens_behind: TokensBehind) -> tuple[Code, ...]:
    """Codes of two tokens with the joiner that gives the most; the first one that gives enough."""
    best: tuple[Code, ...] = ()
    for joiner in _JOINERS:
        texts = dict.fromkeys(first + joiner + second for first, second in product(letters, repeat=2))
        found = tuple(islice(_of_length(2, texts, tokens_behind), MAX_OPTIONS))
        if len(found) > len(best):
            best = found
        if len(best) == MAX_OPTIONS:
            break
    return best


def _of_length(n_tokens: int, texts: Iterable[str], tokens_behind: TokensBehind) -> Iterator[Code]:
    for text in texts:
        tokens = tokens_behind(text)
        if tokens is not None and len(tokens) == n_tokens:
            yield Code(text, tokens)
