"""llama-server's flags, read as strictly as llama-server does: a wrong one ends it before it listens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class FlagError(ValueError):
    """A flag that llama-server refuses. The text is what it says."""


def _whole(text: str) -> int:
    return int(text, 10)


def _any_text(text: str) -> str:
    return text


def _layers(text: str) -> int:
    return {"auto": -1, "all": -2}[text] if text in {"auto", "all"} else _whole(text)


def _choice(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{text!r} is none of {', '.join(allowed)}")
        return text

    return read


def _object(text: str) -> dict[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - what a flag's reader raises
    return {key: json.dumps(value) for key, value in found.items()}


Setting = tuple[str, Callable[[str], Any]]
_KV_TYPES = _choice("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")

# Names on the right are fields of xllamacpp's CommonParams, a dot leading into a part of it.
VALUES: Mapping[str, Setting] = {
    "host": ("host", _any_text),
    "port": ("port", _whole),
    "model": ("model.path", _any_text),
    "hf-repo": ("hf_repo", _any_text),
    "hf-file": ("hf_file", _any_text),
    "alias": ("alias", _any_text),
    "api-key": ("api_key", _any_text),
    "ctx-size": ("n_ctx", _whole),
    "parallel": ("n_parallel", _whole),
    "threads": ("cpuparams.n_threads", _whole),
    "threads-batch": ("cpuparams_batch.n_threads", _whole),
    "threads-http": ("n_threads_http", _whole),
    "batch-size": ("n_batch", _whole),
    "ubatch-size": ("n_ubatch", _whole),
    "n-gpu-layers": ("n_gpu_layers", _layers),
    "gpu-layers": ("n_gpu_layers", _layers),
    "main-gpu": ("main_gpu", _whole),
    "n-predict": ("n_predict", _whole),
    "predict": ("n_predict", _whole),
    "keep": ("n_keep", _whole),
    "cache-reuse": ("n_cache_reuse", _whole),
    "cache-ram": ("cache_ram_mib", _whole),
    "flash-attn": ("flash_attn", _choice("on", "off", "auto")),
    "cache-type-k": ("cache_type_k", _KV_TYPES),
    "cache-type-v": ("cache_type_v", _KV_TYPES),
    "chat-template": ("chat_template", _any_text),
    "chat-template-kwargs": ("default_template_kwargs", _object),
    "reasoning-format": ("reasoning_format", _choice("none", "auto", "deepseek", "deepseek-legacy")),
    "reasoning-budget": ("sampling.reasoning_budget_tokens", _whole),
    "temp": ("sampling.temp", float),
    "temperature": ("sampling.temp", float),
    "top-k": ("sampling.top_k", _whole),
    "top-p": ("sampling.top_p", float),
    "min-p": ("sampling.min_p", float),
    "seed": ("sampling.seed", _whole),
    "timeout": ("timeout", _whole),
    "rope-freq-base": ("rope_freq_base", float),
    "rope-freq-scale": ("rope_freq_scale", float),
}
BARE: Mapping[str, tuple[str, bool]] = {
    "jinja": ("use_jinja", True),
    "no-jinja": ("use_jinja", False),
    "cont-batching": ("cont_batching", True),
    "no-cont-batching": ("cont_batching", False),
    "kv-unified": ("kv_unified", True),
    "no-kv-unified": ("kv_unified", False),
    "context-shift": ("ctx_shift", True),
    "no-context-shift": ("ctx_shift", False),
    "cache-prompt": ("cache_prompt", True),
    "no-cache-prompt": ("cache_prompt", False),
    "warmup": ("warmup", True),
    "no-warmup": ("warmup", False),
    "metrics": ("endpoint_metrics", True),
    "props": ("endpoint_props", True),
    "slots": ("endpoint_slots", True),
    "no-slots": ("endpoint_slots", False),
    "ui": ("ui", True),
    "no-ui": ("ui", False),
    "webui": ("ui", True),
    "no-webui": ("ui", False),
    "swa-full": ("swa_full", True),
    "no-mmap": ("no_mmap", True),
    "mlock": ("mlock", True),
    "offline": ("offline", True),
    "no-perf": ("no_perf", True),
    "verbose": ("verbose", True),
}


@dataclass(frozen=True, slots=True)
class Options:
    """llama-server's command line: its address, and the fields of CommonParams that it sets."""

    host: str
    port: int
    hf_repo: str | None = None
    hf_file: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


def parse(arguments: Sequence[str]) -> Options:
    """Read llama-server's command line; of a flag given twice the last wins, as in llama-server.

    Raises:
        FlagError: an unknown flag, one without its value, or a value that cannot be read.
    """
    found: dict[str, Any] = {"host": "127.0.0.1", "port": 8080}
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        name = flag.removeprefix("--")
        if not flag.startswith("--") or (name not in VALUES and name not in BARE):
            raise FlagError(
                f"error: invalid argument: {flag}\n"
                f"(the local AWS knows --{', --'.join(sorted([*VALUES, *BARE]))})"
            )
        if name in BARE:
            key, switched = BARE[name]
            found[key] = switched
            continue
        key, read = VALUES[name]
        # A bare flag before another one has lost its value, which a false, true or empty variable does.
        if not rest or rest[0].startswith("--"):
            raise FlagError(f"error while handling argument {flag!r}: expected value for argument")
        text = rest.pop(0)
        try:
            found[key] = read(text)
        except ValueError as error:
            raise FlagError(f"error while handling argument {flag!r}: {text!r}: {error}") from error
    if found["host"] not in {"127.0.0.1", "localhost"}:
        raise FlagError(f"couldn't bind to {found['host']}: the local AWS listens on 127.0.0.1 alone")
    # llama-server's own default: four slots that share one context.
    if found.get("n_parallel", -1) < 0:
        found |= {"n_parallel": 4, "kv_unified": found.get("kv_unified", True)}
    own = {key: found.pop(key, None) for key in ("host", "port", "hf_repo", "hf_file")}
    return Options(**own, fields=found)
