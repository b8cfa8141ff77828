"""llama.cpp as this server uses it: model, vocabulary, and one context with its sequences.

The low-level API is used throughout: logits are computed for the last position only, sequences are
copied whole (a part of a hybrid memory can't be copied: llama.cpp ends the process), and a batch never
exceeds the context's own n_batch (the same).
"""

import ctypes
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

# An assertion in ggml would otherwise start a debugger on the process.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import numpy as np
from numpy.typing import NDArray

from semif_server import bindings
from semif_server.errors import ModelError
from semif_server.llama_batch import Batch, Piece

llama_cpp: Final = bindings.load_bindings()

MICRO_BATCH_TOKENS: Final = 512
CONTEXT_PAD_TOKENS: Final = 256
_LOG_WARN, _LOG_ERROR = 3, 4  # enum ggml_log_level
_NOTHING_ADDED: Final = False  # llama_tokenize: add_special
_BUFFERS_TOO: Final = True  # llama_memory_clear: data

_log = logging.getLogger("semif_server.llama")
_recent_errors: deque[str] = deque(maxlen=8)
_abort_requested: Final = threading.Event()  # llama.cpp logs a decode that it was told to end as an error


def versions() -> dict[str, str]:
    """The bindings' version, and the library's own with the file it came from."""
    return {
        "llama_cpp_python": bindings.package_version(),
        "llama_cpp": bindings.library_version(llama_cpp),
        "libllama": str(bindings.library_path(llama_cpp)),
    }


def system_info() -> str:
    """What llama.cpp says about its backends and the CPU's instruction sets."""
    return str(llama_cpp.llama_print_system_info().decode("utf-8", "replace")).strip(" |")


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _forward_log(level: int, text: bytes, _user_data: object) -> None:
    """Keep warnings and errors. llama.cpp logs numbers and file facts there, never a prompt."""
    if level in (_LOG_WARN, _LOG_ERROR) and not _abort_requested.is_set():
        line = text.decode("utf-8", "replace").strip()
        if level == _LOG_ERROR:
            _recent_errors.append(line)
        _log.log(logging.ERROR if level == _LOG_ERROR else logging.WARNING, "%s", line)


# The module keeps the callback alive: a collected one is a segmentation fault at the next log line.
llama_cpp.llama_log_set(_forward_log, ctypes.c_void_p(0))
bindings.load_plugins(llama_cpp)
llama_cpp.llama_backend_init()


class DecodeError(Exception):
    """llama_decode failed. status: 1 no room, 2 aborted, -1 an invalid batch, below: the backend."""

    def __init__(self, status: int) -> None:
        super().__init__(f"llama_decode answered {status}")
        self.status = status


class LlamaVocabulary:
    """Text ↔ tokens of one model. llama.cpp documents these calls as thread-safe."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(handle)
        self._pieces: list[bytes | None] = [None] * self.n_tokens
        bos = int(llama_cpp.llama_vocab_bos(handle))
        self.bos_id: int | None = bos if llama_cpp.llama_vocab_get_add_bos(handle) and bos >= 0 else None

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Token ids of a text, nothing added to it."""
        data = text.encode()
        room = len(data) + 16
        for _ in range(2):
            ids = (llama_cpp.llama_token * room)()
            count = llama_cpp.llama_tokenize(
                self._handle, data, len(data), ids, room, _NOTHING_ADDED, parse_special
            )
            if count >= 0:
                return list(ids[:count])
            room = -count
        raise OverflowError("llama_tokenize asked for more room twice")

    def piece(self, token_id: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        known = self._pieces[token_id]
        if known is None:
            known = self._pieces[token_id] = self._text_of(token_id, special=False)
        return known

    def is_user_defined(self, token_id: int) -> bool:
        """Whether the tokenizer honours this token in any text, parse_special or not."""
        attributes = llama_cpp.llama_vocab_get_attr(self._handle, token_id)
        return bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED)

    def is_control(self, token_id: int) -> bool:
        """Whether a token is a control token."""
        return bool(llama_cpp.llama_vocab_is_control(self._handle, token_id))

    def bos_text(self) -> str:
        """How templates write the begin token; empty if there is none."""
        return self._special_text(llama_cpp.llama_vocab_bos(self._handle))

    def eos_text(self) -> str:
        """How templates write the end token; empty if there is none."""
        return self._special_text(llama_cpp.llama_vocab_eos(self._handle))

    def _special_text(self, token_id: int) -> str:
        return "" if token_id < 0 else self._text_of(token_id, special=True).decode("utf-8", "replace")

    def _text_of(self, token_id: int, *, special: bool) -> bytes:
        room = 64
        for _ in range(2):
            buffer = ctypes.create_string_buffer(room)
            count = llama_cpp.llama_token_to_piece(self._handle, token_id, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count
        raise OverflowError("llama_token_to_piece asked for more room twice")


class LlamaModel:
    """A loaded GGUF.

    Raises ModelError when llama.cpp can't load the file or the model can't serve decisions.
    """

    def __init__(self, path: Path, *, n_gpu_layers: int = 0) -> None:
        if n_gpu_layers != 0 and not llama_cpp.llama_supports_gpu_offload():
            raise ModelError(
                f"SEMIF_N_GPU_LAYERS={n_gpu_layers}: llama.cpp has no GPU backend with a device here"
                f" ({system_info()}). Set it to 0, use the GPU image, or give the container a GPU whose"
                " driver fits the image's CUDA."
            )
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = n_gpu_layers
        _recent_errors.clear()
        self._handle = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._handle:
            said = _recent_errors[0] if _recent_errors else "no reason given"
            raise ModelError(f"llama.cpp can't load {path}: {said}. Check that the file is whole.")
        self.architecture = self._metadata("general.architecture")
        self.name = self._metadata("general.name") or path.stem
        self.n_ctx_train: int = llama_cpp.llama_model_n_ctx_train(self._handle)
        self.is_hybrid = bool(llama_cpp.llama_model_is_hybrid(self._handle))
        self.is_recurrent = bool(llama_cpp.llama_model_is_recurrent(self._handle))
        self.vocabulary = LlamaVocabulary(llama_cpp.llama_model_get_vocab(self._handle))
        if not llama_cpp.llama_model_has_decoder(self._handle) or self.vocabulary.n_tokens == 0:
            raise ModelError(f"{path} ({self.architecture}) is no language model with a vocabulary.")

    def chat_template(self) -> str:
        """The source of the GGUF's own chat template. Raises ModelError if there is none."""
        source = llama_cpp.llama_model_chat_template(self._handle, None)
        if not source:
            raise ModelError(
                "The model has no chat template (a base model?): use an instruction-tuned GGUF that has"
                " tokenizer.chat_template."
            )
        return str(source.decode("utf-8", "replace"))

    def new_context(self, *, sequences: int, sequence_tokens: int, threads: int) -> "LlamaContext":
        """A context whose sequences hold sequence_tokens each. Raises ModelError if it can't be had."""
        return LlamaContext(
            self._handle,
            self.vocabulary.n_tokens,
            sequences=sequences,
            sequence_tokens=sequence_tokens,
            threads=threads,
        )

    def close(self) -> None:
        """Free the model; its contexts must be closed before."""
        llama_cpp.llama_model_free(self._handle)

    def _metadata(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(1024)
        size = llama_cpp.llama_model_meta_val_str(self._handle, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if size >= 0 else ""


class LlamaContext:
    """One llama.cpp context. Not thread-safe but for request_abort: one thread owns it.

    Each sequence has its own stream (kv_unified off), so what lies in one never changes the rounding
    of another. n_ctx_seq: positions of one sequence. micro_batch: tokens of the largest single decode.
    can_cut_tail: whether the memory can forget the end of a sequence; recurrent and hybrid ones can't.
    """

    def __init__(
        self, model: Any, n_vocab: int, *, sequences: int, sequence_tokens: int, threads: int
    ) -> None:
        per_sequence = -(-sequence_tokens // CONTEXT_PAD_TOKENS) * CONTEXT_PAD_TOKENS
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = per_sequence * sequences
        parameters.n_seq_max = sequences
        parameters.kv_unified = False
        parameters.n_batch = parameters.n_ubatch = MICRO_BATCH_TOKENS
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.no_perf = True
        self._handle = llama_cpp.llama_init_from_model(model, parameters)
        if not self._handle:
            said = _recent_errors[-1] if _recent_errors else "no reason given"
            raise ModelError(
                f"llama.cpp can't make a context of {per_sequence} tokens × {sequences} sequences: {said}."
                " Lower SEMIF_MAX_TOKENS or SEMIF_CACHE_BYTES, or use a machine with more memory."
            )
        self.sequences = sequences
        self.n_ctx: int = llama_cpp.llama_n_ctx(self._handle)
        self.n_ctx_seq: int = llama_cpp.llama_n_ctx_seq(self._handle)
        if self.n_ctx_seq < sequence_tokens:
            raise ModelError(
                f"llama.cpp gives a sequence {self.n_ctx_seq} tokens, fewer than"
                f" SEMIF_MAX_TOKENS={sequence_tokens}: lower that."
            )
        self.micro_batch: int = min(
            llama_cpp.llama_n_batch(self._handle), llama_cpp.llama_n_ubatch(self._handle)
        )
        self._n_vocab = n_vocab
        self._memory = llama_cpp.llama_get_memory(self._handle)
        self._batch = Batch(self.micro_batch)
        self._abort_text = ctypes.create_string_buffer(2)
        # llama.cpp asks several times per decode whether to stop. strlen of a text that is empty until then
        # answers without Python: a Python callback would wait for the interpreter's lock each time.
        self._abort_callback = ctypes.cast(ctypes.CDLL(None).strlen, llama_cpp.ggml_abort_callback)
        llama_cpp.llama_set_abort_callback(
            self._handle, self._abort_callback, ctypes.cast(self._abort_text, ctypes.c_void_p)
        )
        self.can_cut_tail = self._try_to_cut()

    def decode(self, pieces: Sequence[Piece]) -> list[NDArray[np.float32] | None]:
        """Evaluate pieces of distinct sequences, at most micro_batch tokens in all, in one llama_decode.

        Gives for each piece its last token's logits, shape (n_vocab,), or None where not wanted. llama.cpp
        evaluates pieces of equal length in neighbouring sequences together if they are in ascending order.
        Raises DecodeError; the sequences' content is undefined then.
        """
        ends = self._batch.fill(pieces)
        status = llama_cpp.llama_decode(self._handle, self._batch.struct)
        if status != 0:
            raise DecodeError(status)
        return [
            self._logits(end) if piece.want_logits else None for piece, end in zip(pieces, ends, strict=True)
        ]

    def _logits(self, index: int) -> NDArray[np.float32]:
        row = llama_cpp.llama_get_logits_ith(self._handle, index)
        return np.ctypeslib.as_array(row, shape=(self._n_vocab,)).copy()

    def copy(self, source: int, target: int) -> None:
        """Make the target sequence a copy of the whole source."""
        self.clear(target)
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def cut(self, sequence: int, position: int) -> None:
        """Forget a sequence's tokens from a position on; other than 0 only where can_cut_tail."""
        if not llama_cpp.llama_memory_seq_rm(self._memory, sequence, position or -1, -1):
            raise ValueError(f"this memory can't be cut at {position}")

    def clear(self, sequence: int) -> None:
        """Empty one sequence."""
        self.cut(sequence, 0)

    def clear_all(self) -> None:
        """Empty all sequences."""
        llama_cpp.llama_memory_clear(self._memory, _BUFFERS_TOO)

    def state_bytes(self, sequence: int) -> int:
        """Bytes that a saved copy of one sequence would have."""
        return int(llama_cpp.llama_state_seq_get_size(self._handle, sequence))

    def request_abort(self) -> None:
        """Let a running decode end early, with DecodeError; any thread may call it. CPU backends only."""
        _abort_requested.set()
        self._abort_text[0] = b"!"

    def allow_decodes(self) -> None:
        """Take request_abort back."""
        self._abort_text[0] = b"\0"
        _abort_requested.clear()

    def close(self) -> None:
        """Free the context."""
        llama_cpp.llama_free(self._handle)

    def _try_to_cut(self) -> bool:
        """Whether a tail can be cut off, found by doing it: no list of architectures stays right."""
        self.decode([Piece(0, 0, (0, 0), want_logits=False)])
        can_cut = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 1, -1))
        can_cut = can_cut and llama_cpp.llama_memory_seq_pos_max(self._memory, 0) == 0
        self.clear_all()
        return can_cut
