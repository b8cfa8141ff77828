"""What a model's memory takes and what room there is for it, found by asking llama.cpp: no formula per
architecture stays right."""

import ctypes
from typing import Any, Final, Protocol

from semif_server import llama
from semif_server.bindings import MissingFunction
from semif_server.llama_batch import Piece
from semif_server.memory_budget import MemoryCost

_GPU_TYPES: Final = (1, 2)  # enum ggml_backend_dev_type: GPU, IGPU


class MeasurableContext(Protocol):
    """What is needed of a context to measure its memory."""

    def decode(self, pieces: list[Piece]) -> object:
        """Evaluate pieces."""

    def state_bytes(self, sequence: int) -> int:
        """Bytes that a saved copy of one sequence would have."""

    def clear_all(self) -> None:
        """Empty all sequences."""


def measure_memory(context: MeasurableContext) -> MemoryCost:
    """What one cell and one sequence take, from the sizes of a sequence of one and of two tokens.

    A saved sequence has all that the memory holds of it, and some bytes more per cell and per sequence, so
    this is a little too much (12 of 23,052 bytes for SmolLM2-135M's cell). The context is empty afterwards.
    """
    sizes = []
    for n_tokens in (1, 2):
        context.clear_all()
        context.decode([Piece(0, 0, (0,) * n_tokens, want_logits=False)])
        sizes.append(context.state_bytes(0))
    context.clear_all()
    cell_bytes = sizes[1] - sizes[0]
    return MemoryCost(cell_bytes, sizes[0] - cell_bytes)


def devices() -> list[str]:
    """What llama.cpp can compute on, such as `CPU: Intel(R) …`; empty where the library can't say."""
    library = _device_library()
    if library is None:
        return []
    found = []
    for index in range(library.ggml_backend_dev_count()):
        device = library.ggml_backend_dev_get(index)
        texts = (library.ggml_backend_dev_name(device), library.ggml_backend_dev_description(device))
        found.append(": ".join((text or b"?").decode("utf-8", "replace") for text in texts))
    return found


def free_gpu_bytes() -> int | None:
    """Memory that is free on all GPUs together, now; None where llama.cpp has no GPU, or can't say."""
    library = _device_library()
    if library is None:
        return None
    free_bytes = None
    for index in range(library.ggml_backend_dev_count()):
        device = library.ggml_backend_dev_get(index)
        if library.ggml_backend_dev_type(device) in _GPU_TYPES:
            free, whole = ctypes.c_size_t(), ctypes.c_size_t()
            library.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(whole))
            free_bytes = (free_bytes or 0) + free.value
    return free_bytes


def _device_library() -> Any:
    """The library with ggml's device functions declared, which the bindings don't; None if it lacks one."""
    library = llama.llama_cpp._lib
    size = ctypes.POINTER(ctypes.c_size_t)
    for name, result, *arguments in (
        ("count", ctypes.c_size_t),
        ("get", ctypes.c_void_p, ctypes.c_size_t),
        ("type", ctypes.c_int, ctypes.c_void_p),
        ("name", ctypes.c_char_p, ctypes.c_void_p),
        ("description", ctypes.c_char_p, ctypes.c_void_p),
        ("memory", None, ctypes.c_void_p, size, size),
    ):
        function = getattr(library, f"ggml_backend_dev_{name}")
        if isinstance(function, MissingFunction):
            return None
        function.restype, function.argtypes = result, arguments
    return library
