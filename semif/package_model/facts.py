"""What the manifest says about a model, read from the GGUF's header; nothing is guessed. Pure."""

import hashlib
from dataclasses import dataclass
from itertools import product
from string import ascii_uppercase
from typing import Any, Final

from semif.package_model.gguf_file import GgufFile

# The server's own numbers; a test compares them with container/semif_server.
SLOTS: Final = tuple("ABCDEFGHIJKLMNOP")
MAX_OPTIONS: Final = 255
SEQUENCES: Final = 3
MICRO_BATCH_TOKENS: Final = 512
DEFAULT_MAX_TOKENS: Final = 4096
CONTEXT_PAD_TOKENS: Final = 256

F16_BYTES, F32_BYTES = 2, 4
PROCESS_BYTES: Final = 256 << 20
CUDA_BYTES: Final = 512 << 20
FORMULA: Final = (
    "least_ram_bytes = weights + kv + recurrent + compute + process;"
    " least_vram_bytes = weights + kv + recurrent + compute + cuda;"
    " kv = sequences * context_tokens * 2 B * sum over attention layers of kv_heads * (key + value length);"
    " recurrent = sequences * 4 B * sum over recurrent layers of"
    " (conv_kernel - 1) * (inner + 2 * groups * state) + state * inner;"
    " compute = 4 B * 512 tokens * (vocabulary + 4 * feed_forward + 16 * embedding)"
)

# llama.cpp's llama_ftype; what is missing here is shown by its number.
_FILE_TYPES: Final = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0",
    37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip


@dataclass(frozen=True)
class SourceFile:
    """One file that was fetched. `revision` is "" where the source has none."""

    address: str
    revision: str
    size_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """As in the manifest."""
        revision = {"revision": self.revision} if self.revision else {}
        return {"uri": self.address, **revision, "bytes": self.size_bytes, "sha256": self.sha256}


def model_facts(gguf: GgufFile) -> dict[str, Any]:
    """The manifest's member `model`; a fact that the file does not give is null."""
    template = gguf.text("tokenizer.chat_template")
    file_type = gguf.number("general.file_type")
    return {
        "name": gguf.text("general.name"),
        "architecture": gguf.architecture,
        "quantization": None if file_type is None else _FILE_TYPES.get(file_type, f"file_type {file_type}"),
        "parameters": sum(tensor.weights for tensor in gguf.tensors),
        "context_tokens": gguf.parameter("context_length"),
        "vocabulary_tokens": gguf.n_tokens,
        "tokenizer_model": gguf.text("tokenizer.ggml.model"),
        "tokenizer_pre": gguf.text("tokenizer.ggml.pre"),
        "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
        "options_in_one_step": options_in_one_step(gguf),
    }


def options_in_one_step(gguf: GgufFile) -> int | None:
    """How many options one decode decides among, or None if the server will refuse this model.

    The server wants a chat template, and each slot to be one token; beyond the slots it takes all capitals
    and pairs of capitals that are one token. Letters are never merged with the control tokens or line breaks
    that templates end in, so a token of its own is what it takes.
    """
    if gguf.text("tokenizer.chat_template") is None or not gguf.tokens.issuperset(SLOTS):
        return None
    pairs = map("".join, product(ascii_uppercase, repeat=2))
    return min(MAX_OPTIONS, len(gguf.tokens.intersection((*ascii_uppercase, *pairs))))


def memory_facts(gguf: GgufFile) -> dict[str, Any]:
    """The manifest's member `memory`: bytes at the server's default settings, and how they are counted."""
    trained = gguf.parameter("context_length") or DEFAULT_MAX_TOKENS
    context = -(-min(DEFAULT_MAX_TOKENS, trained) // CONTEXT_PAD_TOKENS) * CONTEXT_PAD_TOKENS
    weights = gguf.size_bytes - gguf.data_start
    kv_row, recurrent = _layers(gguf)
    embedding = gguf.parameter("embedding_length") or 0
    feed_forward = _each(gguf, "feed_forward_length")
    parts = {
        "weights_bytes": weights,
        "kv_bytes": SEQUENCES * context * F16_BYTES * kv_row,
        "recurrent_bytes": SEQUENCES * F32_BYTES * recurrent,
        "compute_bytes": F32_BYTES * MICRO_BATCH_TOKENS
        * (gguf.n_tokens + 4 * max(feed_forward, default=0) + 16 * embedding),
    }  # fmt: skip
    total = sum(parts.values())
    return {
        "least_ram_bytes": total + PROCESS_BYTES,
        "least_vram_bytes": total + CUDA_BYTES,
        **parts,
        "process_bytes": PROCESS_BYTES,
        "cuda_bytes": CUDA_BYTES,
        "context_tokens": context,
        "sequences": SEQUENCES,
        "formula": FORMULA,
    }


def _layers(gguf: GgufFile) -> tuple[int, int]:
    """Values of one token in the KV cache over all layers, and values of one sequence's recurrent state."""
    layers = gguf.parameter("block_count") or 0
    embedding = gguf.parameter("embedding_length") or 0
    heads = _each(gguf, "attention.head_count")
    kv_heads = _each(gguf, "attention.head_count_kv") or heads
    head_size = embedding // max(1, max(heads, default=1))
    width = (gguf.parameter("attention.key_length") or head_size) + (
        gguf.parameter("attention.value_length") or head_size
    )
    inner, state = gguf.parameter("ssm.inner_size") or 0, gguf.parameter("ssm.state_size") or 0
    groups, kernel = gguf.parameter("ssm.group_count") or 0, gguf.parameter("ssm.conv_kernel") or 1
    per_recurrent = (kernel - 1) * (inner + 2 * groups * state) + state * inner
    interval = gguf.parameter("full_attention_interval") or 0
    kv_row = recurrent = 0
    for layer in range(layers):
        n_heads = kv_heads[layer] if layer < len(kv_heads) else max(kv_heads, default=0)
        if (interval and (layer + 1) % interval) or (inner and not n_heads):
            recurrent += per_recurrent
        else:
            kv_row += n_heads * width
    return kv_row, recurrent


def _each(gguf: GgufFile, name: str) -> list[int]:
    """A parameter that is one number for all layers, or an array with one for each."""
    value = gguf.values.get(f"{gguf.architecture}.{name}")
    if isinstance(value, tuple):
        return [int(item) for item in value if isinstance(item, int)]
    return [value] * (gguf.parameter("block_count") or 1) if isinstance(value, int) else []
