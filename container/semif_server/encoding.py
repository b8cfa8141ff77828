"""Prompt → tokens, cut into segments. Pure, given a vocabulary.

Three rules. Only the template's pieces are parsed for control tokens; the caller's text never is. The
caller's text is one tokenization, so no merge is lost at a cut. Segments are cut on token boundaries of
that one tokenization, so the tokens of a prompt do not depend on where it is cut.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from semif_server.codes import Code, find_codes
from semif_server.errors import ModelError
from semif_server.profile import Profile
from semif_server.prompt import to_json, user_message
from semif_server.template import ChatTemplate

_PROBE_STATES: Final = ("probe", {"probe": [1]}, ["probe"], "é 漢字 🙂\n\t\\")


class Vocabulary(Protocol):
    """What is needed of a model's vocabulary."""

    @property
    def bos_id(self) -> int | None:
        """The token to begin every prompt with, None if the vocabulary wants none."""

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Token ids of a text, nothing added."""

    def piece(self, token_id: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""

    def is_user_defined(self, token_id: int) -> bool:
        """Whether the tokenizer honours this token in any text, parse_special or not."""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """Token ids by segment, in order, and the SHA-256 of the rendered text (UTF-8, hexadecimal)."""

    head: tuple[int, ...]
    state: tuple[int, ...]
    tail: tuple[int, ...]
    sha256: str

    @property
    def tokens(self) -> tuple[int, ...]:
        """The whole prompt."""
        return self.head + self.state + self.tail


class PromptEncoder:
    """One vocabulary, one template, one profile: everything that is the same for all requests.

    Raises ModelError at construction when this model can't serve this profile.
    """

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate, profile: Profile) -> None:
        self._vocabulary = vocabulary
        self._profile = profile
        self._pieces = template.pieces(profile.system)
        self._markers = _marker_pattern(vocabulary, template.source)
        self._before = self._encode_before()
        self._after = tuple(vocabulary.tokenize(self._pieces.after, parse_special=True))
        self._check_text_is_kept()
        self._codes = find_codes(
            self._tokens_behind, profile.slots, vocabulary_codes=profile.vocabulary_codes
        )
        self.head: tuple[int, ...] = self.encode(to_json("probe"), "probe", ("probe", "probe")).head

    @property
    def options_in_one_step(self) -> int:
        """How many options one evaluation of the prompt decides among; more take a second step."""
        return self._codes.options_in_one_step

    @property
    def max_options(self) -> int:
        """How many options a decision may have with this model and this profile."""
        return self._codes.max_options

    @property
    def single_token_codes(self) -> int:
        """How many codes of one token there are, also beyond the options that a request may have."""
        return max(len(self._codes.slots), len(self._codes.singles))

    def codes_for(self, n_options: int) -> tuple[Code, ...]:
        """What stands for the options of a decision, in their order. Raises ValueError beyond max_options."""
        return self._codes.codes_for(n_options)

    def encode(self, state_json: str, question: str, descriptions: Sequence[str]) -> EncodedPrompt:
        """Encode one decision. state_json: the state as prompt.to_json gives it.

        The options are shown with the codes that codes_for gives for so many.
        """
        slots = [code.text for code in self.codes_for(len(descriptions))]
        message = user_message(self._profile.payload, state_json, question, slots, descriptions)
        sha256 = hashlib.sha256(self._pieces.render(message.text).encode()).hexdigest()
        ids, ends = self._encode_plain(message.text)
        spelled_bytes = ends[-1] if ends else 0
        head_tokens = bisect_right(ends, message.head_end)
        # Behind a place where the tokens stop to spell the text, no cut can be found: all of it is tail.
        state_tokens = (
            bisect_right(ends, message.state_end) if spelled_bytes >= message.state_end else head_tokens
        )
        return EncodedPrompt(
            head=(*self._before, *ids[:head_tokens]),
            state=tuple(ids[head_tokens:state_tokens]),
            tail=(*ids[state_tokens:], *self._after),
            sha256=sha256,
        )

    def _encode_before(self) -> tuple[int, ...]:
        tokenize = self._vocabulary.tokenize
        ids = tokenize(self._pieces.before, parse_special=True)
        ids += self._encode_plain(self._pieces.system)[0]
        ids += tokenize(self._pieces.between, parse_special=True)
        bos = self._vocabulary.bos_id
        return tuple(ids if bos is None or ids[:1] == [bos] else [bos, *ids])

    def _encode_plain(self, text: str) -> tuple[list[int], list[int]]:
        """Tokenize text that is not the template's: no control token, none of the template's markers.

        Gives the token ids, and for each the byte of the text at which it ends, as far as the tokens
        spell the text. Vocabularies without a token for every byte drop what they can't spell.
        """
        data = text.encode()
        ids: list[int] = []
        ends: list[int] = []
        offset = part_end = 0
        for part in self._parts(text):
            part_ids = self._vocabulary.tokenize(part, parse_special=False)
            is_spelled = offset == part_end and len(ends) == len(ids)
            ids += part_ids
            part_end += len(part.encode())
            for index, token_id in enumerate(part_ids if is_spelled else ()):
                piece = self._vocabulary.piece(token_id)
                if index == 0 and piece[:1] == b" " and not data.startswith(piece, offset):
                    piece = piece[1:]  # SentencePiece vocabularies put a blank before a text
                if not data.startswith(piece, offset):
                    break
                offset += len(piece)
                ends.append(offset)
        return ids, ends

    def _parts(self, text: str) -> list[str]:
        """The text, cut inside every marker, so that no part holds one."""
        if self._markers is None:
            return [text]
        cuts = [0, *(match.start() + 1 for match in self._markers.finditer(text)), len(text)]
        return [text[start:stop] for start, stop in pairwise(cuts)]

    def _check_text_is_kept(self) -> None:
        keys, slots = self._profile.payload, self._profile.slots[:2]
        for state in _PROBE_STATES:
            message = user_message(keys, to_json(state), "probe", slots, ("probe", "probe"))
            if self._encode_plain(message.text)[1][-1:] != [len(message.text.encode())]:
                raise ModelError(
                    "The model's tokenizer changes the text it is given (its tokens do not spell it byte for"
                    " byte), so prompts can't be cut into segments. Use a GGUF with a lossless tokenizer."
                )

    def _tokens_behind(self, text: str) -> tuple[int, ...] | None:
        """The tokens with which an answer begins that is this text, as the tokenizer itself cuts it.

        None where the text changes the tokens of the prompt's ending, or is not what its tokens spell.
        """
        tokens = tuple(self._vocabulary.tokenize(self._pieces.after + text, parse_special=True))
        n_after = len(self._after)
        if tokens[:n_after] != self._after:
            return None
        answer = tokens[n_after:]
        spelled = b"".join(self._vocabulary.piece(token) for token in answer)
        return answer if spelled == text.encode() else None


def _marker_pattern(vocabulary: Vocabulary, template_source: str) -> re.Pattern[str] | None:
    """The template's structural markers that the tokenizer honours in any text, such as `<think>`.

    Runs of blanks can be tokens of this kind too; they structure nothing and stay as they are.
    """
    markers: set[str] = set()
    for token_id in vocabulary.tokenize(template_source, parse_special=True):
        if vocabulary.is_user_defined(token_id):
            marker = vocabulary.piece(token_id).decode("utf-8", "replace")
            if len(marker) > 1 and marker.strip():
                markers.add(marker)
    if not markers:
        return None
    # A look-ahead finds overlapping markers as well.
    return re.compile(f"(?={'|'.join(re.escape(marker) for marker in sorted(markers))})")
