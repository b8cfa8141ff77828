"""Writes a random-weight model in the types of Q4_K_M: blocks are drawn as they lie in the file.

    python -m bench.gpu.writer OUT.gguf [--tiny]

A quantized block of random bytes is valid whatever the bytes are; only its scale must be chosen, so that
products keep their size and activations stay finite. That makes the 2.6 GB of the 4B shape in seconds, where
quantizing normal values would take minutes.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, LlamaFileType
from numpy.typing import NDArray

from bench.gpu.shape import QWEN35_4B, TINY, ModelPlan, known_words, merges_of_words, type_in_q4_k_m
from tools.random_hybrid import (
    ARCHITECTURE,
    CHAT_TEMPLATE,
    Shape,
    add_parameters,
    add_vocabulary,
    byte_vocabulary,
    put_tensors,
)

_QUANTIZATION_VERSION: Final = 2
_BLOCK_VALUES: Final = 256

# A value of Q4_K is d·s·q − m·t with s, t in 0…63 and q in 0…15, all uniform here: m = 7.5 d makes its mean
# zero, and its standard deviation is then 258.3 d. One of Q6_K is d·s·q with s in −128…127 and q in −32…31:
# 1365 d.
_Q4_K_MINIMUM: Final = 7.5
_Q4_K_DEVIATION: Final = 258.3
_Q6_K_DEVIATION: Final = 1365.0


class RandomBlocks:
    """A sink of tensors that notes what each needs, and writes them one by one afterwards."""

    def __init__(self, writer: GGUFWriter, shape: Shape, seed: int) -> None:
        self._writer = writer
        self._shape = shape
        self._random = np.random.Generator(np.random.SFC64(seed))
        self._draws: list[Callable[[], NDArray[Any]]] = []

    def matrix(self, name: str, rows: int, columns: int, scale: float | None = None) -> None:
        """See TensorSink."""
        deviation = scale or columns**-0.5
        kind = type_in_q4_k_m(name, self._shape)
        if kind is GGMLQuantizationType.F32:
            self._float(
                name, (rows, columns), lambda: deviation * self._random.standard_normal((rows, columns))
            )
            return
        block_bytes = GGML_QUANT_SIZES[kind][1]
        row_bytes = columns // _BLOCK_VALUES * block_bytes
        draw = q4_k_blocks if kind is GGMLQuantizationType.Q4_K else q6_k_blocks
        blocks = rows * columns // _BLOCK_VALUES
        self._writer.add_tensor_info(name, (rows, row_bytes), np.dtype(np.uint8), rows * row_bytes, kind)
        self._draws.append(lambda: draw(self._random, blocks, deviation))

    def gain(self, name: str, size: int) -> None:
        """See TensorSink."""
        self._float(name, (size,), lambda: 1.0 + 0.05 * self._random.standard_normal(size))

    def bias(self, name: str, size: int) -> None:
        """See TensorSink."""
        self._float(name, (size,), lambda: 0.1 * self._random.standard_normal(size))

    def decay(self, name: str, size: int) -> None:
        """See TensorSink."""
        self._float(name, (size,), lambda: -np.exp(self._random.uniform(-4.0, -1.0, size)))

    def write(self) -> None:
        """Draw and write every tensor, in order."""
        for draw in self._draws:
            self._writer.write_tensor_data(draw())

    def _float(self, name: str, shape: tuple[int, ...], draw: Callable[[], NDArray[np.float64]]) -> None:
        n_bytes = 4 * int(np.prod(shape))
        self._writer.add_tensor_info(name, shape, np.dtype(np.float32), n_bytes)
        self._draws.append(lambda: draw().astype(np.float32))


def q4_k_blocks(random: np.random.Generator, blocks: int, deviation: float) -> NDArray[np.uint8]:
    """Random Q4_K blocks, shape (blocks, 144), whose values have this standard deviation and mean zero."""
    data = _bytes(random, blocks, GGML_QUANT_SIZES[GGMLQuantizationType.Q4_K][1])
    unit = deviation / _Q4_K_DEVIATION
    data[:, :4] = np.array([unit, _Q4_K_MINIMUM * unit], np.float16).view(np.uint8)
    return data


def q6_k_blocks(random: np.random.Generator, blocks: int, deviation: float) -> NDArray[np.uint8]:
    """Random Q6_K blocks, shape (blocks, 210), whose values have this standard deviation and mean zero."""
    data = _bytes(random, blocks, GGML_QUANT_SIZES[GGMLQuantizationType.Q6_K][1])
    data[:, -2:] = np.array([deviation / _Q6_K_DEVIATION], np.float16).view(np.uint8)
    return data


def _bytes(random: np.random.Generator, blocks: int, block_bytes: int) -> NDArray[np.uint8]:
    words = random.integers(0, 2**64, -(-blocks * block_bytes // 8), np.uint64)
    return words.view(np.uint8)[: blocks * block_bytes].reshape(blocks, block_bytes)


def write_model(path: Path, plan: ModelPlan, *, seed: int = 0) -> Path:
    """Write a model and return its path. The same seed writes the same bytes."""
    vocabulary = byte_vocabulary(merges_of_words(known_words()), plan.n_vocab)
    writer = GGUFWriter(path, ARCHITECTURE)
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(_QUANTIZATION_VERSION)
    add_parameters(writer, plan.shape, name=plan.name, context_tokens=plan.context_tokens)
    add_vocabulary(writer, vocabulary, pre_tokenizer=ARCHITECTURE, chat_template=CHAT_TEMPLATE)
    blocks = RandomBlocks(writer, plan.shape, seed)
    put_tensors(blocks, plan.shape, plan.n_vocab)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    blocks.write()
    writer.close()
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a random-weight model in the types of Q4_K_M.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="the small shape instead of Qwen3.5-4B's")
    chosen = parser.parse_args(arguments)
    begun_s = time.monotonic()
    path = write_model(chosen.out, TINY if chosen.tiny else QWEN35_4B)
    print(f"{path}: {path.stat().st_size:,} bytes in {time.monotonic() - begun_s:.1f} s")


if __name__ == "__main__":
    main()
