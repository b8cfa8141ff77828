"""Whether the library does with the loaded model what the bindings believe: last proof before serving."""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from semif_server import llama
from semif_server.library_defaults import mismatch
from semif_server.llama_batch import Piece

_MOST_TOKENS: Final = 2**24  # far more than any vocabulary has


class CheckableContext(Protocol):
    """What is needed of a context to try it."""

    def decode(self, pieces: list[Piece]) -> list[NDArray[np.float32] | None]:
        """Evaluate pieces."""

    def clear_all(self) -> None:
        """Empty all sequences."""


def check_vocabulary(vocabulary: Any) -> None:
    """Raise LibraryError unless sizes and token ids are such as a vocabulary has."""
    n_tokens = vocabulary.n_tokens
    if not 0 < n_tokens <= _MOST_TOKENS:
        raise mismatch(llama.llama_cpp, f"the vocabulary has {n_tokens} tokens")
    ids = vocabulary.tokenize("A", parse_special=False)
    beyond = [token_id for token_id in ids if not 0 <= token_id < n_tokens]
    if not ids or beyond:
        raise mismatch(llama.llama_cpp, f"the text A has the tokens {ids} in a vocabulary of {n_tokens}")


def check_decode(context: CheckableContext, n_tokens: int) -> None:
    """Decode one token. Raise LibraryError unless it gives finite logits that differ, one per token."""
    context.clear_all()
    try:
        (logits,) = context.decode([Piece(0, 0, (0,), want_logits=True)])
    except (llama.DecodeError, ValueError) as error:
        raise mismatch(llama.llama_cpp, f"a decode of one token failed: {error}") from None
    finally:
        context.clear_all()
    if logits is None or logits.shape != (n_tokens,):
        seen = "no" if logits is None else f"{logits.size:,}"
        raise mismatch(llama.llama_cpp, f"a decode gave {seen} logits, not {n_tokens:,}")
    finite = int(np.isfinite(logits).sum())
    if finite < n_tokens:
        raise mismatch(llama.llama_cpp, f"only {finite:,} of a decode's {n_tokens:,} logits are finite")
    if logits.min() == logits.max():
        raise mismatch(llama.llama_cpp, f"all logits of a decode are {logits[0]}")
