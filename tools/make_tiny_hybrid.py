"""Write a random-weight GGUF of architecture qwen35, under 1 MiB: the production model's memory in small.

Qwen3.5 mixes gated delta-net layers (a recurrent state) with full-attention layers (a KV cache), and
llama.cpp treats such a hybrid memory differently from a plain one. This file has three delta-net layers
and one attention layer over a byte-level vocabulary, so tests meet that memory in milliseconds. Its
answers mean nothing. The same seed writes the same bytes.

    python -m tools.make_tiny_hybrid OUT.gguf [--seed 0] [--context-tokens 4096]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGUFWriter
from numpy.typing import NDArray

from tools.random_hybrid import (
    ARCHITECTURE,
    CHAT_TEMPLATE,
    Shape,
    add_parameters,
    add_vocabulary,
    byte_vocabulary,
    put_tensors,
)

_MERGES: Final = (
    ("e", "r"),
    ("i", "n"),
    ("Ġ", "t"),
    ("o", "n"),
    ("a", "t"),
    ("e", "s"),
    ('"', ":"),
    (".", '"'),
)


class _FloatTensors:
    """Random tensors of 32-bit floats, drawn in a fixed order."""

    def __init__(self, writer: GGUFWriter, seed: int) -> None:
        self._writer = writer
        self._random = np.random.default_rng(seed)

    def matrix(self, name: str, rows: int, columns: int, scale: float | None = None) -> None:
        values = self._random.standard_normal((rows, columns)) * (scale or columns**-0.5)
        self._add(name, values)

    def gain(self, name: str, size: int) -> None:
        self._add(name, 1.0 + 0.05 * self._random.standard_normal(size))

    def bias(self, name: str, size: int) -> None:
        self._add(name, 0.1 * self._random.standard_normal(size))

    def decay(self, name: str, size: int) -> None:
        self._add(name, -np.exp(self._random.uniform(-4.0, -1.0, size)))

    def _add(self, name: str, values: NDArray[np.float64]) -> None:
        self._writer.add_tensor(name, values.astype(np.float32))


def write_tiny_hybrid(
    path: Path, *, seed: int = 0, context_tokens: int = 4096, pre_tokenizer: str = ARCHITECTURE
) -> Path:
    """Write the model to path and return it.

    context_tokens: the trained context that it claims. pre_tokenizer: how text is split before its merges, by
    llama.cpp's name (tokenizer.ggml.pre).
    """
    shape, vocabulary = Shape(), byte_vocabulary(_MERGES)
    writer = GGUFWriter(path, ARCHITECTURE)
    add_parameters(writer, shape, name="Tiny random hybrid", context_tokens=context_tokens)
    add_vocabulary(writer, vocabulary, pre_tokenizer=pre_tokenizer, chat_template=CHAT_TEMPLATE)
    put_tensors(_FloatTensors(writer, seed), shape, len(vocabulary.tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a tiny random-weight hybrid GGUF (qwen35).")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context-tokens", type=int, default=4096)
    chosen = parser.parse_args(arguments)
    path = write_tiny_hybrid(chosen.out, seed=chosen.seed, context_tokens=chosen.context_tokens)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
