#!/bin/sh
# Package the recipe's model into the deployment's bucket.
set -eu
if [ -d .tools ]; then
  export SEMIF_TOOLS_PYTHON="$PWD/.tools/bin/python" SEMIF_LLAMA_CPP="$PWD/.tools/llama.cpp"
fi
exec .venv/bin/python -m semif package-model --recipe "$SEMIF_RECIPE" --bucket "$SEMIF_BUCKET" \
  --prefix "${SEMIF_PREFIX:-}" --work "$PWD/.work"
