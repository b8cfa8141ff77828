"""What one process of the self-test does: exercise the library through the bindings and print what it found.

    probes.py defaults | scores        prints one JSON object

Each probe runs in a process of its own, because bindings that don't fit can end the process they run in.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
MODEL: Final = HERE / "tiny-hybrid.gguf"
EXPECTED: Final = HERE / "expected.json"

TEXTS: Final = (
    ("<|im_start|>user\nIs the lamp on?<|im_end|>\n<|im_start|>assistant\n", True),
    ('{"state": "Grüße, 漢字 and <|im_end|> as text."}', False),
)
CONTINUATION: Final = "The answer"

# Defaults that llama.h and llama.cpp's source state and that the releases of both images share. The library
# returns these structs by value, so a field that moved reads as a neighbour's value.
_NOTHING: Final = (None, 0)
_MODEL_DEFAULTS: Final[Mapping[str, Sequence[object]]] = {
    "devices": _NOTHING,
    "tensor_buft_overrides": _NOTHING,
    "n_gpu_layers": (-1, 999, 0),
    "split_mode": (1,),  # LLAMA_SPLIT_MODE_LAYER
    "main_gpu": (0,),
    "tensor_split": _NOTHING,
    "progress_callback": _NOTHING,
    "progress_callback_user_data": _NOTHING,
    "kv_overrides": _NOTHING,
    "vocab_only": (False,),
    "check_tensors": (False,),
    "use_extra_bufts": (True,),
    "no_host": (False,),
    "no_alloc": (False,),
}
_CONTEXT_DEFAULTS: Final[Mapping[str, Sequence[object]]] = {
    "n_ctx": (512,),
    "n_batch": (2048,),
    "n_ubatch": (512,),
    "n_seq_max": (1,),
    "n_threads": (4,),  # GGML_DEFAULT_N_THREADS
    "n_threads_batch": (4,),
    "rope_scaling_type": (-1,),
    "pooling_type": (-1,),
    "attention_type": (-1,),
    "flash_attn_type": (-1,),
    "rope_freq_base": (0.0,),
    "rope_freq_scale": (0.0,),
    "yarn_ext_factor": (-1.0,),
    "yarn_orig_ctx": (0,),
    "defrag_thold": (-1.0,),
    "cb_eval": _NOTHING,
    "cb_eval_user_data": _NOTHING,
    "type_k": (1,),  # GGML_TYPE_F16
    "type_v": (1,),
    "abort_callback": _NOTHING,
    "abort_callback_data": _NOTHING,
    "embeddings": (False,),
    "offload_kqv": (True,),
    "no_perf": (True,),
    "op_offload": (True,),
    "kv_unified": (False,),
    "samplers": _NOTHING,
    "n_samplers": (0,),
}
DEFAULTS: Final = {
    "llama_model_default_params": _MODEL_DEFAULTS,
    "llama_context_default_params": _CONTEXT_DEFAULTS,
    "llama_sampler_chain_default_params": {"no_perf": (True,)},
}


def raw_value(struct: ctypes.Structure, name: str, kind: Any) -> object:
    """A field as a number: pointers and callbacks by address, a boolean by its byte (2 or more is none)."""
    place = getattr(type(struct), name)
    data = ctypes.string_at(ctypes.addressof(struct) + place.offset, place.size)
    if kind in {ctypes.c_float, ctypes.c_double}:
        return kind.from_buffer_copy(data).value
    signed = kind in {ctypes.c_int, ctypes.c_int32, ctypes.c_int64}
    return int.from_bytes(data, sys.byteorder, signed=signed)


def compare_defaults(low_level: Any) -> list[str]:
    """Each field whose default is not the documented one, such as `X.main_gpu is 1, not 0`."""
    wrong = []
    for function, expected in DEFAULTS.items():
        struct = getattr(low_level, function)()
        fields = dict(struct._fields_)
        for name, allowed in expected.items():
            if name not in fields:
                wrong.append(f"{function} has no field {name}")
                continue
            value = raw_value(struct, name, fields[name])
            if value not in allowed:
                wrong.append(f"{function}.{name} is {value!r}, not {allowed[-1]!r}")
        booleans = [name for name, kind in fields.items() if kind is ctypes.c_bool and name not in expected]
        for name in booleans:
            value = raw_value(struct, name, ctypes.c_bool)
            if value not in {0, 1}:
                wrong.append(f"{function}.{name} is {value!r}, which is no boolean")
    return wrong


def defaults() -> dict[str, object]:
    """The layout of the structs that the library returns by value."""
    from semif_server.bindings import load_bindings, missing_functions  # noqa: PLC0415  only this process loads it

    wrong = compare_defaults(load_bindings())
    return {"wrong": wrong, "checked": sum(map(len, DEFAULTS.values())), "missing": sorted(missing_functions)}


def scores() -> dict[str, object]:
    """Tokens and logits of the tiny hybrid model, by the server's own code."""
    from semif_server.llama import LlamaModel  # noqa: PLC0415  only this process loads it

    model = LlamaModel(MODEL)
    vocabulary = model.vocabulary
    tokens = [vocabulary.tokenize(text, parse_special=special) for text, special in TEXTS]
    context = model.new_context(max_tokens=256, threads=1)
    first = context.decode(0, 0, tokens[0], want_logits=True)
    context.copy(0, 1)
    more = vocabulary.tokenize(CONTINUATION, parse_special=False)
    second = context.decode(1, len(tokens[0]), more, want_logits=True)
    if first is None or second is None:
        raise RuntimeError("no logits came where they were asked for")
    logits = [[round(float(value), 5) for value in row] for row in (first, second)]
    context.close()
    model.close()
    return {"tokens": tokens, "logits": logits}


if __name__ == "__main__":
    json.dump({"defaults": defaults, "scores": scores}[sys.argv[1]](), sys.stdout)
