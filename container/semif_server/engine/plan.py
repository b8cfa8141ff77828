"""The chunk plan: which tokens of a prompt go into which llama_decode. Pure.

Where a prompt is cut changes the rounding of its logits. So the cuts depend on the prompt's own
segments alone, never on what is cached or running: a cached prefix then holds the very numbers that a
fresh evaluation would compute.
"""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# A shorter state costs more as a decode of its own than its reuse saves.
MIN_OWN_STATE_TOKENS: Final = 64
KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, stop) of a row, one llama_decode."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens to evaluate, up to the logits of the last one; chunks in order, gapless.

    keys: one per chunk; names the tokens up to the chunk's end and the places at which they are cut, so two
    rows with an equal key hold the same numbers there. durable_end: where head and state end, the part that
    a later request may share; 0 if the row has none. own_start: where the part begins that no other row of
    its request has.
    """

    tokens: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    keys: tuple[bytes, ...]
    durable_end: int
    own_start: int

    def with_token(self, token: int) -> "Row":
        """This row with one token more, as a chunk of its own."""
        end = len(self.tokens)
        return Row(
            (*self.tokens, token),
            (*self.chunks, Chunk(end, end + 1)),
            (*self.keys, _key(self.keys[-1], (token,))),
            self.durable_end,
            end,
        )


def prompt_row(head: Sequence[int], state: Sequence[int], tail: Sequence[int], micro_batch: int) -> Row:
    """Cut head, state and tail into chunks of micro_batch tokens, the last of each segment shorter.

    A state under MIN_OWN_STATE_TOKENS is cut together with the tail.
    """
    tokens = (*head, *state, *tail)
    head_end = len(head)
    durable_end = head_end + len(state) if len(state) >= MIN_OWN_STATE_TOKENS else 0
    prefix_end = durable_end or head_end
    chunks = tuple(
        Chunk(start, min(start + micro_batch, segment_end))
        for segment_start, segment_end in ((0, head_end), (head_end, prefix_end), (prefix_end, len(tokens)))
        for start in range(segment_start, segment_end, micro_batch)
    )
    keys = []
    key = b""
    for chunk in chunks:
        key = _key(key, tokens[chunk.start : chunk.stop])
        keys.append(key)
    return Row(tokens, chunks, tuple(keys), durable_end, prefix_end)


def _key(before: bytes, tokens: Sequence[int]) -> bytes:
    return hashlib.blake2b(before + array("i", tokens).tobytes(), digest_size=KEY_BYTES).digest()
