"""Write a tiny Llama checkpoint as a hub would have it: config, tokenizer, random weights as safetensors.

    python tiny_checkpoint.py FOLDER

Runs in the tools' environment: sentencepiece makes the tokenizer, because llama.cpp's converter knows
byte-pair tokenizers by a checksum of their own that no made-up one has.
"""

import json
import sys
from pathlib import Path

import numpy as np

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS = 2, 256, 512, 4, 2
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def write_tokenizer(folder: Path) -> int:
    """Write tokenizer.model, with all letters and a byte for all else; returns the vocabulary's size."""
    import sentencepiece  # type: ignore[import-not-found]  # noqa: PLC0415 - in the tools' environment only

    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;{}[]\"'_-"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([letters, *letters, "the cat sat on the mat", "a decision is made"] * 20),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=384,
        byte_fallback=True,
        character_coverage=1.0,
        user_defined_symbols=["<|im_start|>", "<|im_end|>"],
        hard_vocab_limit=False,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    (folder / "tokenizer.vocab").unlink()
    return int(sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model")).vocab_size())


def write_weights(path: Path, vocabulary: int) -> None:
    """Write random 16-bit weights in the safetensors format: a length, a JSON header, the bytes."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    shapes["lm_head.weight"] = (vocabulary, WIDTH)
    keys = WIDTH * KV_HEADS // HEADS
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (WIDTH,),
            prefix + "post_attention_layernorm.weight": (WIDTH,),
            prefix + "self_attn.q_proj.weight": (WIDTH, WIDTH),
            prefix + "self_attn.k_proj.weight": (keys, WIDTH),
            prefix + "self_attn.v_proj.weight": (keys, WIDTH),
            prefix + "self_attn.o_proj.weight": (WIDTH, WIDTH),
            prefix + "mlp.gate_proj.weight": (FEED_FORWARD, WIDTH),
            prefix + "mlp.up_proj.weight": (FEED_FORWARD, WIDTH),
            prefix + "mlp.down_proj.weight": (WIDTH, FEED_FORWARD),
        }
    header: dict[str, object] = {}
    bodies: list[bytes] = []
    place = 0
    for name, shape in shapes.items():
        values = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * shape[1] ** -0.5
        body = values.astype(np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [place, place + len(body)]}
        bodies.append(body)
        place += len(body)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(bodies))


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(folder)
    write_weights(folder / "model.safetensors", vocabulary)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "vocab_size": vocabulary,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = {"tokenizer_class": "LlamaTokenizer", "chat_template": CHAT_TEMPLATE, "add_bos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
