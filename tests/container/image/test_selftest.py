"""The self-test of the image build: its data, and what it calls a mismatch."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llama_cpp
import pytest

from image.selftest import selftest
from semif_server import library_defaults
from tests.container.image.conftest import CONTAINER
from tools.make_tiny_hybrid import write_tiny_hybrid

FOLDER = CONTAINER / "image" / "selftest"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(FOLDER, tmp_path / "selftest")


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    library = Path(llama_cpp.__path__[0]) / "lib"
    return subprocess.run(
        [sys.executable, folder / "selftest.py"],
        env={**os.environ, "PYTHONPATH": str(CONTAINER), "LLAMA_CPP_LIB_PATH": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_committed_model_is_what_the_tool_writes(tmp_path: Path) -> None:
    written = write_tiny_hybrid(tmp_path / "tiny.gguf")

    assert written.read_bytes() == (FOLDER / "tiny-hybrid.gguf").read_bytes()


def test_the_bindings_of_the_library_pass(copy: Path) -> None:
    ended = run(copy)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("selftest: llama-cpp-python 0.3.36 and libllama.so")


def test_other_logits_are_a_mismatch(copy: Path) -> None:
    expected = json.loads((copy / "expected.json").read_text())
    expected["logits"][1][7] += 0.1
    (copy / "expected.json").write_text(json.dumps(expected))

    ended = run(copy)

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: IMAGE_SELFTEST_FAILED: llama-cpp-python 0.3.36 and libllama.so")
    assert "the tiny model's logits, decode 2: value 7 is" in ended.stderr


def test_a_crash_is_a_mismatch(copy: Path) -> None:
    (copy / "probes.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")

    ended = run(copy)

    assert ended.returncode == 1
    assert "do not fit: the probe `defaults` was ended by SIGSEGV; give the build argument" in ended.stderr


def test_a_field_that_moved_is_named() -> None:
    whole: Any = llama_cpp.llama_model_params
    fields = [field for field in whole._fields_ if field[0] != "lazy_mode"]
    moved = type("moved", (ctypes.Structure,), {"_fields_": fields})

    def defaults() -> Any:
        struct: Any = moved()
        true = bytes(llama_cpp.llama_model_default_params())
        ctypes.memmove(ctypes.addressof(struct), true, ctypes.sizeof(moved))
        return struct

    library = SimpleNamespace(**{name: getattr(llama_cpp, name) for name in library_defaults.DEFAULTS})
    assert library_defaults.compare_defaults(library) == []
    library.llama_model_default_params = defaults
    assert "llama_model_default_params.main_gpu is 1, not 0" in library_defaults.compare_defaults(library)


def test_no_number_is_close_to_nan() -> None:
    with pytest.raises(selftest.MismatchError, match="value 1 is nan"):
        selftest.compare_logits("x", [0.0, float("nan")], [0.0, 0.0])
