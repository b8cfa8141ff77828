#!/bin/sh
# Gathers into bench/gpu/carried/ what bench/gpu/run.sh needs on a machine without a network. Arguments go to
# bench/gpu/prepare.py.
set -eu
cd "$(dirname "$0")/../.."
make --no-print-directory setup
exec .venv/bin/python -m bench.gpu.prepare "$@"
