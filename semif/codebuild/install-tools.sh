#!/bin/sh
# Install llama.cpp's tools into a folder: install-tools.sh FOLDER
# FOLDER/bin/python is then what --tools-python names, FOLDER/llama.cpp what --llama-cpp names.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=$1
python3 -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --require-hashes -r "$here/requirements-convert.txt"
# The bindings are built from source with the build tools just installed, and the converter lies beside them.
export PATH="$(CDPATH= cd -- "$folder/bin" && pwd):$PATH" CMAKE_ARGS="-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF"
pip download --no-deps --no-build-isolation --no-binary :all: --require-hashes \
  -r "$here/requirements-quantize.txt" -d "$folder/source"
pip install --no-deps --no-build-isolation "$folder"/source/llama_cpp_python-*.tar.gz
tar -xzf "$folder"/source/llama_cpp_python-*.tar.gz -C "$folder/source"
mv "$folder"/source/llama_cpp_python-*/vendor/llama.cpp "$folder/llama.cpp"
rm -r "$folder/source"
