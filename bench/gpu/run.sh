#!/bin/sh
# The GPU benchmark (docs/gpu-benchmark.md): needs no network and nothing installed but a compiler, CMake, CUDA's
# nvcc and Python >= 3.11. Arguments go to bench/gpu/run.py. PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/../.."
for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
    if "$python" -c 'import sys, lzma, ssl; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -m bench.gpu.run "$@"
    fi
done
echo "error: PYTHON_MISSING: no Python >= 3.11 (with lzma) found; set PYTHON to one" >&2
exit 2
