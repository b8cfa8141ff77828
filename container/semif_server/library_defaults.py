"""Whether the bindings fit the library: the structs that it returns by value, field by field.

The bindings declare these structs as one release of llama.cpp has them. On another release a field may lie
elsewhere; nothing fails then, but parameters mean something else. The image's build asks the same.
"""

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from semif_server import bindings
from semif_server.errors import LibraryError

_SHOWN: Final = 3

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


def check_defaults(low_level: Any) -> None:
    """Raise LibraryError, which names both versions, if any default is not the documented one."""
    wrong = compare_defaults(low_level)
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise mismatch(low_level, "; ".join(wrong[:_SHOWN]) + more)


def mismatch(low_level: Any, found: str) -> LibraryError:
    """The refusal to serve with bindings that were made for another release of the library."""
    return LibraryError(
        "llama_library_mismatch",
        f"llama-cpp-python {bindings.package_version()} does not fit"
        f" {bindings.library_path(low_level).name} of {bindings.library_version(low_level)}: {found}. Use the"
        " bindings of the library's own release.",
    )
