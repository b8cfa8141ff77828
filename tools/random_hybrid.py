"""The parts of a random-weight model of architecture qwen35: its shape, its vocabulary, its tensors' names.

Qwen3.5 mixes gated delta-net layers (a recurrent state) with full-attention layers (a KV cache). What is here
says which tensors such a model has and how its file describes it; a sink decides what values are written, and
in which type. Used by tools.make_tiny_hybrid and by the GPU benchmark.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from gguf import GGUFWriter, TokenType

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

_END_OF_TURN: Final = "<|im_end|>"
_PADDING: Final = "<|endoftext|>"
_CONTROL_TOKENS: Final = (_PADDING, "<|im_start|>", _END_OF_TURN)
_MARKER_TOKENS: Final = ("<think>", "</think>")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network. Every attention_interval-th layer is full attention, the others are delta-net.

    rope_sections: pairs of rotated dimensions for each of four position kinds; twice their sum is rotated.
    tied: whether the output is the token embedding again.
    """

    layers: int = 4
    attention_interval: int = 4
    embedding: int = 64
    feed_forward: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 32
    rope_sections: tuple[int, int, int, int] = (3, 3, 2, 0)
    state_size: int = 16
    key_groups: int = 2
    value_heads: int = 4
    convolution: int = 4
    tied: bool = False

    @property
    def inner(self) -> int:
        """Width of a delta-net layer's values."""
        return self.state_size * self.value_heads

    @property
    def convolved(self) -> int:
        """Width of what a delta-net layer convolves: queries, keys and values."""
        return 2 * self.state_size * self.key_groups + self.inner

    def is_attention(self, layer: int) -> bool:
        """Whether a layer is a full-attention layer."""
        return (layer + 1) % self.attention_interval == 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A byte-pair vocabulary: tokens as GPT-2 spells them, their kinds, and merges, strongest first."""

    tokens: tuple[str, ...]
    kinds: tuple[TokenType, ...]
    merges: tuple[tuple[str, str], ...]


class TensorSink(Protocol):
    """Takes a model's tensors in the order of the file. Shapes are numpy's, the reverse of ggml's."""

    def matrix(self, name: str, rows: int, columns: int, scale: float | None = None) -> None:
        """Values of standard deviation scale; by default 1/√columns, so that products keep their size."""

    def gain(self, name: str, size: int) -> None:
        """A normalization's weights, near one."""

    def bias(self, name: str, size: int) -> None:
        """Small values around zero."""

    def decay(self, name: str, size: int) -> None:
        """Negative and small: the recurrent state forgets slowly, so early tokens still matter late."""


def byte_vocabulary(merges: Iterable[tuple[str, str]], size: int | None = None) -> Vocabulary:
    """The 256 bytes, a token for each merge's result, ChatML's tokens, and padding up to size if given."""
    tokens = dict.fromkeys(_byte_tokens(), TokenType.NORMAL)
    merges = tuple(merges)
    tokens |= dict.fromkeys((left + right for left, right in merges), TokenType.NORMAL)
    tokens |= dict.fromkeys(_CONTROL_TOKENS, TokenType.CONTROL)
    tokens |= dict.fromkeys(_MARKER_TOKENS, TokenType.USER_DEFINED)
    if size is not None and len(tokens) > size:
        raise ValueError(f"{len(tokens)} tokens don't fit a vocabulary of {size}")
    tokens |= {f"<|unused_{index}|>": TokenType.UNUSED for index in range(len(tokens), size or 0)}
    return Vocabulary(tuple(tokens), tuple(tokens.values()), merges)


def add_parameters(writer: GGUFWriter, shape: Shape, *, name: str, context_tokens: int) -> None:
    """Describe the network in the file's header. context_tokens: the trained context that it claims."""
    writer.add_name(name)
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
    writer.add_rope_dimension_count(2 * sum(shape.rope_sections))
    writer.add_rope_dimension_sections(list(shape.rope_sections))
    writer.add_ssm_conv_kernel(shape.convolution)
    writer.add_ssm_state_size(shape.state_size)
    writer.add_ssm_group_count(shape.key_groups)
    writer.add_ssm_time_step_rank(shape.value_heads)
    writer.add_ssm_inner_size(shape.inner)
    writer.add_uint32(f"{ARCHITECTURE}.full_attention_interval", shape.attention_interval)


def add_vocabulary(
    writer: GGUFWriter, vocabulary: Vocabulary, *, pre_tokenizer: str, chat_template: str
) -> None:
    """Put the vocabulary into the file's header. pre_tokenizer: llama.cpp's name of how text is split."""
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([int(kind) for kind in vocabulary.kinds])
    writer.add_token_merges([f"{left} {right}" for left, right in vocabulary.merges])
    writer.add_eos_token_id(vocabulary.tokens.index(_END_OF_TURN))
    writer.add_pad_token_id(vocabulary.tokens.index(_PADDING))
    writer.add_add_bos_token(value=False)
    writer.add_chat_template(chat_template)


def put_tensors(tensors: TensorSink, shape: Shape, n_vocab: int) -> None:
    """Hand over all tensors of a model."""
    if shape.tied:
        tensors.matrix("token_embd.weight", n_vocab, shape.embedding)
    else:
        tensors.matrix("token_embd.weight", n_vocab, shape.embedding, scale=1.0)
        tensors.matrix("output.weight", n_vocab, shape.embedding)
    tensors.gain("output_norm.weight", shape.embedding)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        tensors.gain(prefix + "attn_norm.weight", shape.embedding)
        if shape.is_attention(layer):
            _put_attention(tensors, prefix, shape)
        else:
            _put_delta_net(tensors, prefix, shape)
        tensors.gain(prefix + "post_attention_norm.weight", shape.embedding)
        tensors.matrix(prefix + "ffn_gate.weight", shape.feed_forward, shape.embedding)
        tensors.matrix(prefix + "ffn_up.weight", shape.feed_forward, shape.embedding)
        tensors.matrix(prefix + "ffn_down.weight", shape.embedding, shape.feed_forward)


def _put_attention(tensors: TensorSink, prefix: str, shape: Shape) -> None:
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    tensors.matrix(prefix + "attn_q.weight", 2 * queries, shape.embedding)  # queries and their output gate
    tensors.matrix(prefix + "attn_k.weight", keys, shape.embedding)
    tensors.matrix(prefix + "attn_v.weight", keys, shape.embedding)
    tensors.matrix(prefix + "attn_output.weight", shape.embedding, queries)
    tensors.gain(prefix + "attn_q_norm.weight", shape.head_size)
    tensors.gain(prefix + "attn_k_norm.weight", shape.head_size)


def _put_delta_net(tensors: TensorSink, prefix: str, shape: Shape) -> None:
    tensors.matrix(prefix + "attn_qkv.weight", shape.convolved, shape.embedding)
    tensors.matrix(prefix + "attn_gate.weight", shape.inner, shape.embedding)
    tensors.matrix(prefix + "ssm_conv1d.weight", shape.convolved, shape.convolution, scale=0.5)
    tensors.bias(prefix + "ssm_dt.bias", shape.value_heads)
    tensors.decay(prefix + "ssm_a", shape.value_heads)
    tensors.matrix(prefix + "ssm_beta.weight", shape.value_heads, shape.embedding)
    tensors.matrix(prefix + "ssm_alpha.weight", shape.value_heads, shape.embedding)
    tensors.gain(prefix + "ssm_norm.weight", shape.state_size)
    tensors.matrix(prefix + "ssm_out.weight", shape.embedding, shape.inner)


def _byte_tokens() -> list[str]:
    """GPT-2's spelling of the 256 bytes: printable ones as they are, the others as characters from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(256, 512))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]
