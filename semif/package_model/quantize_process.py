"""Quantize one GGUF by llama.cpp's own function, in a process of its own (an assert in it kills that).

    python quantize_process.py SOURCE.gguf RESULT.gguf Q4_K_M

It imports nothing of this project, so that it runs in the tools' environment.
"""

import sys

import llama_cpp


def main(source: str, result: str, name: str) -> int:
    """Quantize; returns the exit code."""
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    parameters.max_buf_size = 1 << 30
    return int(llama_cpp.llama_model_quantize(source.encode(), result.encode(), parameters))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
