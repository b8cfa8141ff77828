"""Write a random-weight GGUF of architecture qwen35, under 1 MiB: the production model's memory in small.

Qwen3.5 mixes gated delta-net layers (a recurrent state) with full-attention layers (a KV cache), and
llama.cpp treats such a hybrid memory differently from a plain one. This file has three delta-net layers
and one attention layer over a byte-level vocabulary, so tests meet that memory in milliseconds. Its
answers mean nothing. The same seed writes the same bytes.

    python -m tools.make_tiny_hybrid OUT.gguf [--seed 0] [--context-tokens 4096]
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGUFWriter, TokenType
from numpy.typing import NDArray

ARCHITECTURE: Final = "qwen35"

# ChatML with Qwen3.5's habit: unless thinking is switched off, the prompt ends inside an open <think>.
CHAT_TEMPLATE: Final = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n<think>\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}
{{- '\\n</think>\\n\\n' -}}
{%- endif -%}
{%- endif -%}
"""

_CONTROL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MARKER_TOKENS: Final = ("<think>", "</think>")
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


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network. Every attention_interval-th layer is full attention, the others are delta-net."""

    layers: int = 4
    attention_interval: int = 4
    embedding: int = 64
    feed_forward: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 32
    state_size: int = 16
    key_groups: int = 2
    value_heads: int = 4
    convolution: int = 4

    @property
    def inner(self) -> int:
        """Width of a delta-net layer's values."""
        return self.state_size * self.value_heads

    @property
    def convolved(self) -> int:
        """Width of what a delta-net layer convolves: queries, keys and values."""
        return 2 * self.state_size * self.key_groups + self.inner


class _Tensors:
    """Random tensors, drawn in a fixed order. Shapes are numpy's, the reverse of ggml's."""

    def __init__(self, writer: GGUFWriter, seed: int) -> None:
        self._writer = writer
        self._random = np.random.default_rng(seed)

    def matrix(self, name: str, rows: int, columns: int, scale: float | None = None) -> None:
        """Normal values, scaled so that products keep their size."""
        values = self._random.standard_normal((rows, columns)) * (scale or columns**-0.5)
        self._add(name, values)

    def gain(self, name: str, size: int) -> None:
        """A normalization's weights, near one."""
        self._add(name, 1.0 + 0.05 * self._random.standard_normal(size))

    def bias(self, name: str, size: int) -> None:
        """Small values around zero."""
        self._add(name, 0.1 * self._random.standard_normal(size))

    def decay(self, name: str, size: int) -> None:
        """Negative and small: the recurrent state forgets slowly, so early tokens still matter late."""
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
    shape = Shape()
    writer = GGUFWriter(path, ARCHITECTURE)
    _add_parameters(writer, shape, context_tokens)
    vocabulary_size = _add_vocabulary(writer, pre_tokenizer)
    tensors = _Tensors(writer, seed)
    tensors.matrix("token_embd.weight", vocabulary_size, shape.embedding, scale=1.0)
    tensors.matrix("output.weight", vocabulary_size, shape.embedding)
    tensors.gain("output_norm.weight", shape.embedding)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        tensors.gain(prefix + "attn_norm.weight", shape.embedding)
        if (layer + 1) % shape.attention_interval == 0:
            _add_attention(tensors, prefix, shape)
        else:
            _add_delta_net(tensors, prefix, shape)
        tensors.gain(prefix + "post_attention_norm.weight", shape.embedding)
        tensors.matrix(prefix + "ffn_gate.weight", shape.feed_forward, shape.embedding)
        tensors.matrix(prefix + "ffn_up.weight", shape.feed_forward, shape.embedding)
        tensors.matrix(prefix + "ffn_down.weight", shape.embedding, shape.feed_forward)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_parameters(writer: GGUFWriter, shape: Shape, context_tokens: int) -> None:
    writer.add_name("Tiny random hybrid")
    writer.add_context_length(context_tokens)
    writer.add_block_count(shape.layers)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000_000.0)
    # Half of each head is rotated; the sections are pairs of dimensions and sum to half of that.
    writer.add_rope_dimension_count(shape.head_size // 2)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_ssm_conv_kernel(shape.convolution)
    writer.add_ssm_state_size(shape.state_size)
    writer.add_ssm_group_count(shape.key_groups)
    writer.add_ssm_time_step_rank(shape.value_heads)
    writer.add_ssm_inner_size(shape.inner)
    writer.add_uint32(f"{ARCHITECTURE}.full_attention_interval", shape.attention_interval)


def _add_vocabulary(writer: GGUFWriter, pre_tokenizer: str) -> int:
    tokens = _byte_tokens()
    kinds = [TokenType.NORMAL] * len(tokens)
    for left, right in _MERGES:
        tokens.append(left + right)
        kinds.append(TokenType.NORMAL)
    for token in _CONTROL_TOKENS:
        tokens.append(token)
        kinds.append(TokenType.CONTROL)
    for token in _MARKER_TOKENS:
        tokens.append(token)
        kinds.append(TokenType.USER_DEFINED)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges([f"{left} {right}" for left, right in _MERGES])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def _byte_tokens() -> list[str]:
    """GPT-2's spelling of the 256 bytes: printable ones as they are, the others as characters from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(256, 512))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


def _add_attention(tensors: _Tensors, prefix: str, shape: Shape) -> None:
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    tensors.matrix(prefix + "attn_q.weight", 2 * queries, shape.embedding)  # queries and their output gate
    tensors.matrix(prefix + "attn_k.weight", keys, shape.embedding)
    tensors.matrix(prefix + "attn_v.weight", keys, shape.embedding)
    tensors.matrix(prefix + "attn_output.weight", shape.embedding, queries)
    tensors.gain(prefix + "attn_q_norm.weight", shape.head_size)
    tensors.gain(prefix + "attn_k_norm.weight", shape.head_size)


def _add_delta_net(tensors: _Tensors, prefix: str, shape: Shape) -> None:
    tensors.matrix(prefix + "attn_qkv.weight", shape.convolved, shape.embedding)
    tensors.matrix(prefix + "attn_gate.weight", shape.inner, shape.embedding)
    tensors.matrix(prefix + "ssm_conv1d.weight", shape.convolved, shape.convolution, scale=0.5)
    tensors.bias(prefix + "ssm_dt.bias", shape.value_heads)
    tensors.decay(prefix + "ssm_a", shape.value_heads)
    tensors.matrix(prefix + "ssm_beta.weight", shape.value_heads, shape.embedding)
    tensors.matrix(prefix + "ssm_alpha.weight", shape.value_heads, shape.embedding)
    tensors.gain(prefix + "ssm_norm.weight", shape.state_size)
    tensors.matrix(prefix + "ssm_out.weight", shape.embedding, shape.inner)


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
