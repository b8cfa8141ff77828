"""What the engine needs of llama.LlamaContext; tests have one that keeps its rules and fails on demand."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from semif_server.llama_batch import Piece


class Context(Protocol):
    """What the engine needs of llama.LlamaContext."""

    sequences: int
    micro_batch: int
    can_cut_tail: bool

    def decode(self, pieces: Sequence[Piece]) -> list[NDArray[np.float32] | None]:
        """Evaluate pieces of distinct sequences; the last one's logits of each that wants them."""

    def copy(self, source: int, target: int) -> None:
        """Make target a copy of source."""

    def cut(self, sequence: int, position: int) -> None:
        """Forget a sequence's tokens from a position on."""

    def clear(self, sequence: int) -> None:
        """Empty one sequence."""

    def clear_all(self) -> None:
        """Empty all sequences."""

    def request_abort(self) -> None:
        """Let a running decode end early."""

    def allow_decodes(self) -> None:
        """Take request_abort back."""
