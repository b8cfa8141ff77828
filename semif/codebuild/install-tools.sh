#!/bin/sh
# Install llama.cpp's tools into a folder: install-tools.sh FOLDER
# FOLDER/bin/python is then what --tools-python names, FOLDER/llama.cpp what --llama-cpp names.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=$1
pins="$here/requirements-convert.txt"
pip="$folder/bin/python -m pip --quiet --disable-pip-version-check"
python3 -m venv "$folder"
# The bindings are built from source, with the build tools that are pinned beside them.
sed '/^llama-cpp-python==/,/^[^ ]/{/^llama-cpp-python==/d;/^    /d;}' "$pins" > "$folder/packages.txt"
sed -n '/^llama-cpp-python==/,/^[^ ]/{/^llama-cpp-python==/p;/^    --hash/p;}' "$pins" > "$folder/bindings.txt"
$pip install --require-hashes -r "$folder/packages.txt"
$pip download --no-deps --no-build-isolation --no-binary :all: --require-hashes -r "$folder/bindings.txt" -d "$folder/source"
CMAKE_ARGS="-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" \
  $pip install --no-deps --no-build-isolation --require-hashes --find-links "$folder/source" -r "$folder/bindings.txt"
tar -xzf "$folder"/source/llama_cpp_python-*.tar.gz -C "$folder"
mv "$folder"/llama_cpp_python-*/vendor/llama.cpp "$folder/llama.cpp"
rm -r "$folder"/llama_cpp_python-* "$folder/source"
