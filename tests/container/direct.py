"""llama.cpp called directly, past all of the server's code: what the server's numbers are compared to."""

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray


class DirectModel:
    """One GGUF with a context of its own, one sequence, decoded exactly as told."""

    def __init__(self, gguf: Path, *, n_ctx: int, n_ubatch: int = 512) -> None:
        self._model = llama_cpp.llama_model_load_from_file(
            str(gguf).encode(), llama_cpp.llama_model_default_params()
        )
        self._vocabulary_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = n_ctx
        parameters.n_batch = parameters.n_ubatch = n_ubatch
        parameters.n_threads = parameters.n_threads_batch = 2
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        self._memory = llama_cpp.llama_get_memory(self._context)

    def logits(self, chunks: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Decode the chunks one after the other from an empty context; the last token's logits."""
        llama_cpp.llama_memory_clear(self._memory, True)
        for chunk in chunks:
            logits = self._decode(chunk)
        return logits

    def _decode(self, chunk: Sequence[int]) -> NDArray[np.float32]:
        tokens = (llama_cpp.llama_token * len(chunk))(*chunk)
        assert llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(tokens, len(chunk))) == 0
        row = llama_cpp.llama_get_logits_ith(self._context, -1)
        pointer = ctypes.cast(row, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,)).copy()

    def branches(
        self, chunks: Sequence[Sequence[int]], tokens: Iterable[int]
    ) -> tuple[NDArray[np.float32], dict[int, NDArray[np.float32]]]:
        """Logits behind the chunks, and for each token behind the chunks and that token.

        The chunks are decoded once; before each token the saved state of the whole context is put back.
        """
        logits = self.logits(chunks)
        size = llama_cpp.llama_state_get_size(self._context)
        state = (ctypes.c_uint8 * size)()
        assert llama_cpp.llama_state_get_data(self._context, state, size) == size
        behind = {}
        for token in tokens:
            assert llama_cpp.llama_state_set_data(self._context, state, size) > 0
            behind[token] = self._decode((token,))
        return logits, behind

    def close(self) -> None:
        """Free both."""
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)
