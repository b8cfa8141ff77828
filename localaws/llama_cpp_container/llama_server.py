"""llama-server, by the library xllamacpp.

``python -m localaws.llama_cpp_container.llama_server --port 8081 --model FILE …``
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from localaws.llama_cpp_container.flags import FlagError, Options, parse
from localaws.llama_cpp_container.hub_download import DownloadError, download

_FLASH_ATTENTION = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
_REASONING = {"none": "NONE", "auto": "AUTO", "deepseek": "DEEPSEEK", "deepseek-legacy": "DEEPSEEK_LEGACY"}


def common_params(options: Options, library: Any) -> Any:
    """Return xllamacpp's CommonParams with every option applied."""
    params = library.CommonParams()
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    for name, value in options.fields.items():
        match name:
            case "alias":
                params.model_alias = set(value.split(","))
            case "api_key":
                params.api_keys = value.split(",")
            case "flash_attn":
                kinds = library.llama_flash_attn_type
                params.flash_attn_type = kinds[f"LLAMA_FLASH_ATTN_TYPE_{_FLASH_ATTENTION[value]}"]
            case "cache_type_k" | "cache_type_v":
                setattr(params, name, library.ggml_type[f"GGML_TYPE_{value.upper()}"])
            case "reasoning_format":
                formats = library.common_reasoning_format
                params.reasoning_format = formats[f"COMMON_REASONING_FORMAT_{_REASONING[value]}"]
            case "no_mmap" | "mlock":
                mode = "NONE" if name == "no_mmap" else "MMAP_MLOCK"
                params.load_mode = library.llama_load_mode[f"LLAMA_LOAD_MODE_{mode}"]
            case "timeout":
                params.timeout_read = params.timeout_write = value
            case "verbose":
                params.verbosity = 10
            case _:
                part, _, last = name.rpartition(".")
                setattr(getattr(params, part) if part else params, last, value)
    return params


def main(arguments: list[str]) -> int:
    """Serve until a signal; an error is said on standard error and gives exit code 1."""
    try:
        options = parse(arguments)
        fields = dict(options.fields)
        if options.hf_repo:
            name = options.hf_file or ""
            if not name:
                raise FlagError(
                    "--hf-repo without --hf-file: the local AWS does not guess a repository's file"
                )
            cache = Path(os.environ.get("LLAMA_CACHE") or Path.home() / ".cache" / "llama.cpp")
            target = Path(fields.get("model.path") or cache / Path(name).name)
            fields["model.path"] = str(download(options.hf_repo, name, target))
        if not fields.get("model.path"):
            raise FlagError("error: no model: --model or --hf-repo must say which")
    except (FlagError, DownloadError) as error:
        print(error, file=sys.stderr)
        return 1
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - wrong flags are told without it

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    params = common_params(Options(options.host, options.port, fields=fields), xllamacpp)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"main: server is listening on {server.listening_address}", file=sys.stderr, flush=True)
    while True:
        # The server lives as long as this reference; its threads do the work.
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
