"""Which models the benchmark writes: Qwen3.5-4B's shape as Q4_K_M, and a small one of the same kind."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gguf import GGMLQuantizationType

from bench.gpu.carried import ROOT
from bench.gpu.prompts import texts
from tools.random_hybrid import Shape

_PROFILES: Final = ROOT / "container" / "semif_server" / "profiles"
_WORD: Final = re.compile(r"[A-Za-z]+")
_SPACE: Final = "Ġ"  # GPT-2's spelling of a space
_PUNCTUATION: Final = (_SPACE + '{"', _SPACE + '"', '{"', '":', '",', '."', '."}', '."},', '."}]}')
# Every prompt has these without a space before them. In this order none merges inside another.
_FIXED: Final = ("evidence", "description", "criterion", "options", "letter", "assistant", "system", "user")


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """One model to write. n_vocab: tokens of its vocabulary. context_tokens: the context it claims."""

    name: str
    shape: Shape
    n_vocab: int
    context_tokens: int


# The published configuration of Qwen3.5-4B, without its vision tower and its layer for drafting tokens.
QWEN35_4B: Final = ModelPlan(
    "Qwen3.5-4B's shape with random weights, Q4_K_M",
    Shape(
        layers=32,
        attention_interval=4,
        embedding=2560,
        feed_forward=9216,
        heads=16,
        kv_heads=4,
        head_size=256,
        rope_sections=(11, 11, 10, 0),
        state_size=128,
        key_groups=16,
        value_heads=32,
        convolution=4,
        tied=True,
    ),
    n_vocab=248_320,
    context_tokens=262_144,
)

# As small as the types of Q4_K_M allow: each row is a whole number of blocks of 256 values.
TINY: Final = ModelPlan(
    "Tiny random hybrid, Q4_K_M",
    Shape(
        layers=4,
        attention_interval=4,
        embedding=256,
        feed_forward=256,
        heads=4,
        kv_heads=2,
        head_size=64,
        rope_sections=(6, 6, 4, 0),
        state_size=64,
        key_groups=2,
        value_heads=4,
        convolution=4,
        tied=True,
    ),
    n_vocab=8192,
    context_tokens=16_384,
)


def type_in_q4_k_m(name: str, shape: Shape) -> GGMLQuantizationType:
    """The type that llama.cpp's quantizer gives a tensor of this architecture in the mix Q4_K_M.

    What it holds to be sensitive (values, and the way down from the feed-forward width) gets more bits in the
    first and last eighth of the layers and in every third layer between them.
    """
    if not name.endswith(".weight") or "_norm." in name or "ssm_conv1d" in name:
        return GGMLQuantizationType.F32
    if name == "token_embd.weight" and shape.tied:
        return GGMLQuantizationType.Q6_K
    sensitive = re.fullmatch(r"blk\.(\d+)\.(attn_v|attn_qkv|ffn_down)\.weight", name)
    if sensitive and _gets_more_bits(int(sensitive[1]), shape.layers):
        return GGMLQuantizationType.Q6_K
    return GGMLQuantizationType.Q4_K


def _gets_more_bits(layer: int, layers: int) -> bool:
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def merges_of_words(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Merges that make one token of each word after a space, of most words alone, and of JSON's punctuation.

    Each word grows from its left end. Those that begin with a space are stronger than those that begin with a
    letter, so there a word's inside never merges before its beginning.
    """
    seen = set()
    words = sorted(words)
    for spelled in (*_PUNCTUATION, *(_SPACE + word for word in words), *_FIXED, *words):
        for end in range(1, len(spelled)):
            merge = (spelled[:end], spelled[end])
            if merge not in seen:
                seen.add(merge)
                yield merge


def known_words() -> set[str]:
    """Every word of the server's prompt profiles and of the benchmark's own texts."""
    profiles: list[Path] = sorted(_PROFILES.glob("*.json"))
    strings = [string for path in profiles for string in _strings(json.loads(path.read_text()))]
    return {word for text in (*strings, *texts()) for word in _WORD.findall(text)}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
