"""What goes into one llama_decode: pieces of sequences, in a llama_batch over numpy arrays."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from semif_server import bindings

llama_cpp: Final = bindings.load_bindings()


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one sequence, from a position on, in one decode."""

    sequence: int
    position: int
    tokens: Sequence[int]
    want_logits: bool


class Batch:
    """A llama_batch over numpy arrays: llama_batch_init's would be filled token by token."""

    def __init__(self, room: int) -> None:
        self.tokens = np.zeros(room, np.int32)
        self.positions = np.zeros(room, np.int32)
        self.sequences = np.zeros(room, np.int32)
        self.wanted = np.zeros(room, np.int8)
        self._counts = np.ones(room, np.int32)
        # Per token a pointer to its list of sequences, which has one entry.
        self._lists = self.sequences.ctypes.data + np.arange(room, dtype=np.uintp) * self.sequences.itemsize
        self.struct = llama_cpp.llama_batch()
        for name, array in (
            ("token", self.tokens),
            ("pos", self.positions),
            ("n_seq_id", self._counts),
            ("seq_id", self._lists),
            ("logits", self.wanted),
        ):
            kind = dict(llama_cpp.llama_batch._fields_)[name]
            setattr(self.struct, name, ctypes.cast(array.ctypes.data, kind))

    def fill(self, pieces: Sequence[Piece]) -> list[int]:
        """Put the pieces in, one behind the other; gives the place of each one's last token.

        Raises ValueError for an empty piece or more tokens than there is room.
        """
        self.wanted[:] = 0
        start = 0
        ends = []
        for piece in pieces:
            stop = start + len(piece.tokens)
            if not start < stop <= len(self.tokens):
                raise ValueError(
                    f"a decode of {stop} tokens or an empty piece; {len(self.tokens)} is the most"
                )
            self.tokens[start:stop] = piece.tokens
            self.positions[start:stop] = np.arange(piece.position, piece.position + stop - start)
            self.sequences[start:stop] = piece.sequence
            self.wanted[stop - 1] = piece.want_logits
            ends.append(stop - 1)
            start = stop
        self.struct.n_tokens = start
        return ends
