"""Loads a model with llama.cpp itself and tells where it lies and what it computes; a process of its own.

    python -m bench.gpu.probe MODEL.gguf LOGITS.npy [--gpu-layers N] [--no-flash-attention] [--threads N]

Prints one line of JSON: how many layers are on the GPU and how many bytes each device holds, as llama.cpp
says it while it loads, and what kind of logits came out. LOGITS.npy gets the logits of fixed tokens, shape
(tokens, n_vocab).
"""

import argparse
import ctypes
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from semif_server import bindings

_CHUNKS_TOKENS: Final = (64, 24, 8)
_CONTEXT_TOKENS: Final = 512
_USED_TOKENS: Final = 256  # bytes: every vocabulary of ours begins with them
_OFFLOADED: Final = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_BUFFER: Final = re.compile(
    r"(?P<device>\S+) +(?P<what>model|KV|RS|compute|output) buffer size = +(?P<mib>[\d.]+)"
)


def said_of_offloading(lines: Sequence[str]) -> dict[str, Any]:
    """What llama.cpp's log says: layers on the GPU of all, and MiB by kind of buffer and device."""
    found: dict[str, Any] = {"layers_on_gpu": 0, "layers": None, "buffers_mib": {}}
    for line in lines:
        offloaded = _OFFLOADED.search(line)
        if offloaded:
            found["layers_on_gpu"], found["layers"] = int(offloaded[1]), int(offloaded[2])
        buffer = _BUFFER.search(line)
        if buffer:
            devices = found["buffers_mib"].setdefault(buffer["what"], {})
            devices[buffer["device"]] = devices.get(buffer["device"], 0.0) + float(buffer["mib"])
    return found


def fixed_tokens(count: int) -> NDArray[np.int32]:
    """The same tokens everywhere, shape (count,)."""
    return np.random.default_rng(7).integers(0, _USED_TOKENS, count).astype(np.int32)


class Probe:
    """llama.cpp with one model and one context, its log kept."""

    def __init__(self) -> None:
        self._library = bindings.load_bindings()
        self.lines: list[str] = []

        @self._library.llama_log_callback  # type: ignore[untyped-decorator]
        def keep(_level: int, text: bytes, _user_data: object) -> None:
            self.lines.append(text.decode("utf-8", "replace"))

        self._keep = keep  # a collected callback is a crash at the next line
        self._library.llama_log_set(keep, ctypes.c_void_p(0))
        bindings.load_plugins(self._library)
        self._library.llama_backend_init()

    def versions(self) -> dict[str, str]:
        """Of the bindings, the library and what it is built for."""
        system = self._library.llama_print_system_info().decode("utf-8", "replace").strip(" |")
        return {
            "llama_cpp_python": bindings.package_version(),
            "llama_cpp": bindings.library_version(self._library),
            "system_info": system,
        }

    @contextmanager
    def context(self, path: Path, *, gpu_layers: int, flash_attention: bool, threads: int) -> Iterator[Any]:
        """A context of a model while the block runs."""
        library = self._library
        parameters = library.llama_model_default_params()
        parameters.n_gpu_layers = gpu_layers
        model = library.llama_model_load_from_file(str(path).encode(), parameters)
        if not model:
            sys.exit(f"error: MODEL_NOT_LOADED: {''.join(self.lines[-5:])}")
        options = library.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = _CONTEXT_TOKENS
        options.n_threads = options.n_threads_batch = threads
        if not flash_attention:
            options.flash_attn_type = library.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = library.llama_init_from_model(model, options)
        if not context:
            sys.exit(f"error: CONTEXT_NOT_MADE: {''.join(self.lines[-5:])}")
        try:
            yield context
        finally:
            library.llama_free(context)
            library.llama_model_free(model)

    def logits(self, context: Any) -> NDArray[np.float32]:
        """Logits after each of the fixed tokens, evaluated in chunks, shape (tokens, n_vocab)."""
        library = self._library
        n_vocab = library.llama_vocab_n_tokens(
            library.llama_model_get_vocab(library.llama_get_model(context))
        )
        tokens = fixed_tokens(sum(_CHUNKS_TOKENS))
        batch = library.llama_batch_init(max(_CHUNKS_TOKENS), 0, 1)
        rows = []
        start = 0
        for size in _CHUNKS_TOKENS:
            for index in range(size):
                batch.token[index] = int(tokens[start + index])
                batch.pos[index] = start + index
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = 0
                batch.logits[index] = 1
            batch.n_tokens = size
            status = library.llama_decode(context, batch)
            if status != 0:
                sys.exit(f"error: DECODE_FAILED: llama_decode answered {status}: {''.join(self.lines[-5:])}")
            for index in range(size):
                row = library.llama_get_logits_ith(context, index)
                rows.append(np.ctypeslib.as_array(row, shape=(n_vocab,)).copy())
            start += size
        library.llama_batch_free(batch)
        return np.stack(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Where a model lies, and what it computes.")
    parser.add_argument("model", type=Path)
    parser.add_argument("logits", type=Path)
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--no-flash-attention", action="store_true", help="else as llama.cpp chooses")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    probe = Probe()
    with probe.context(
        chosen.model,
        gpu_layers=chosen.gpu_layers,
        flash_attention=not chosen.no_flash_attention,
        threads=chosen.threads,
    ) as context:
        logits = probe.logits(context)
    np.save(chosen.logits, logits)
    facts = {
        "finite": bool(np.isfinite(logits).all()),
        "deviation": round(float(logits.std()), 4),
        **said_of_offloading(probe.lines),
        **probe.versions(),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
