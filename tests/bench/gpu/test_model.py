"""The random-weight model: its types, its blocks and its vocabulary."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

from bench.gpu.shape import QWEN35_4B, TINY, known_words, merges_of_words, type_in_q4_k_m
from bench.gpu.writer import q4_k_blocks, q6_k_blocks, write_model
from tools.random_hybrid import byte_vocabulary

Q4_K, Q6_K, F32 = GGMLQuantizationType.Q4_K, GGMLQuantizationType.Q6_K, GGMLQuantizationType.F32


@pytest.mark.parametrize(("draw", "kind"), [(q4_k_blocks, Q4_K), (q6_k_blocks, Q6_K)])
@pytest.mark.parametrize("columns", [256, 9216])
def test_random_blocks_have_the_wanted_spread(
    draw: Callable[[np.random.Generator, int, float], NDArray[np.uint8]],
    kind: GGMLQuantizationType,
    columns: int,
) -> None:
    blocks = draw(np.random.Generator(np.random.SFC64(1)), 4096, columns**-0.5)
    values = dequantize(blocks, kind)

    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(columns**-0.5, rel=0.03)
    assert abs(values.mean()) < 0.02 * values.std()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("token_embd.weight", Q6_K),
        ("output_norm.weight", F32),
        ("blk.0.ssm_a", F32),
        ("blk.0.ssm_conv1d.weight", F32),
        ("blk.0.ssm_out.weight", Q4_K),
        ("blk.0.attn_qkv.weight", Q6_K),
        ("blk.3.ffn_down.weight", Q6_K),
        ("blk.4.ffn_down.weight", Q4_K),
        ("blk.6.attn_qkv.weight", Q6_K),
        ("blk.7.attn_v.weight", Q4_K),
        ("blk.7.attn_q.weight", Q4_K),
        ("blk.28.ffn_down.weight", Q6_K),
    ],
)
def test_types_are_those_of_the_quantizer(name: str, kind: GGMLQuantizationType) -> None:
    assert type_in_q4_k_m(name, QWEN35_4B.shape) is kind


def test_the_shape_is_the_published_one() -> None:
    shape = QWEN35_4B.shape

    assert [layer for layer in range(shape.layers) if shape.is_attention(layer)] == list(range(3, 32, 4))
    assert (shape.inner, shape.convolved) == (4096, 8192)
    assert 2 * sum(shape.rope_sections) == shape.head_size // 4


def test_the_file_holds_what_was_planned(tmp_path: Path) -> None:
    reader = GGUFReader(write_model(tmp_path / "tiny.gguf", TINY))

    kinds = {tensor.name: tensor.tensor_type for tensor in reader.tensors}
    assert kinds == {name: type_in_q4_k_m(name, TINY.shape) for name in kinds}
    assert "output.weight" not in kinds
    embedding = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    assert list(embedding.shape) == [TINY.shape.embedding, TINY.n_vocab]
    for tensor in reader.tensors:
        assert np.isfinite(dequantize(tensor.data, tensor.tensor_type)).all(), tensor.name


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    paths = [write_model(tmp_path / f"{index}.gguf", TINY, seed=seed) for index, seed in enumerate((0, 0, 1))]
    first, second, other = (path.read_bytes() for path in paths)

    assert first == second != other


def test_words_grow_from_their_left_end() -> None:
    merges = list(merges_of_words({"ab", "abc"}))

    assert merges.index(("Ġ", "a")) < merges.index(("Ġa", "b")) < merges.index(("Ġab", "c"))
    assert merges.index(("Ġab", "c")) < merges.index(("a", "b"))
    assert len(merges) == len(set(merges))


def test_the_vocabulary_is_padded_and_never_cut() -> None:
    merges = list(merges_of_words(known_words()))
    vocabulary = byte_vocabulary(merges, TINY.n_vocab)

    assert len(vocabulary.tokens) == len(set(vocabulary.tokens)) == TINY.n_vocab
    assert "Ġsomething" in vocabulary.tokens
    with pytest.raises(ValueError, match="don't fit a vocabulary of 300"):
        byte_vocabulary(merges, 300)
