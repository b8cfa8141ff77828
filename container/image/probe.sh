#!/bin/sh
# First step of the build, run in the base image: what it has. Writes FOLDER/python (path of its newest
# Python >= 3.11, empty if there is none), FOLDER/version (such as 3.12) and FOLDER/libraries (sha256sum).
set -eu
folder=$1
libraries=/opt/llama.cpp/bin
if [ ! -e "$libraries/libllama.so" ]; then
    echo "error: BASE_IMAGE_WITHOUT_LIBLLAMA: the base image has no $libraries/libllama.so; set the build argument BASE_IMAGE to AWS's llama.cpp container" >&2
    exit 1
fi
mkdir -p "$folder"
: > "$folder/python"
: > "$folder/version"
sha256sum "$libraries"/lib*.so > "$folder/libraries"
for name in python3.14 python3.13 python3.12 python3.11 python3; do
    path=$(command -v "$name" || true)
    [ -n "$path" ] || continue
    # Only a Python that has what the server imports from the standard library counts.
    version=$("$path" -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
import asyncio, ctypes, hashlib, ssl, zlib
print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    echo "$path" > "$folder/python"
    echo "$version" > "$folder/version"
    echo "probe: the base image has Python $version ($path)"
    exit 0
done
echo "probe: the base image has no Python >= 3.11: the interpreter comes from PYTHON_IMAGE"
