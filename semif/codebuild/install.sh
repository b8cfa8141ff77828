#!/bin/sh
# Install what packaging needs: the pinned packages, and llama.cpp's tools only if the recipe makes a GGUF.
set -eu
here=semif/codebuild
# Without a pip of its own, which takes longer to install than all else.
python3 -m venv --without-pip .venv
python3 -m pip --python .venv/bin/python install --quiet --disable-pip-version-check --require-hashes -r "$here/requirements.txt"
if .venv/bin/python -c 'import json, os; raise SystemExit(json.loads(os.environ["SEMIF_RECIPE"]).get("quantize") is None)'
then
  echo "installing llama.cpp's converter: about 3 GB, and a build of 7 to 14 minutes"
  sh "$here/install-tools.sh" .tools
fi
