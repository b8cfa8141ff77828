"""Loading llama-cpp-python on a library that may not be its own."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import llama_cpp
import pytest

from semif_server.bindings import TolerantLibrary, library_version, load_plugins
from semif_server.errors import LibraryError
from tests.container.process import environment, run_to_exit

PACKAGE = Path(llama_cpp.__path__[0])
LACKING = """
from semif_server import bindings, llama
from semif_server.errors import LibraryError
assert bindings.missing_functions == {"llama_function_of_tomorrow"}, bindings.missing_functions
assert llama.llama_cpp.llama_max_devices() > 0
try:
    llama.llama_cpp.llama_function_of_tomorrow(1)
except LibraryError as error:
    print(error)
"""


def test_a_function_that_the_library_lacks_raises_when_it_is_called(tmp_path: Path) -> None:
    copy = tmp_path / "llama_cpp"
    copy.mkdir()
    for name in ("__init__.py", "_ctypes_extensions.py"):
        shutil.copy(PACKAGE / name, copy / name)
    declared = (
        '\n\n@ctypes_function("llama_function_of_tomorrow", [ctypes.c_int], ctypes.c_int)\n'
        "def llama_function_of_tomorrow(value, /): ...\n"
    )
    (copy / "llama_cpp.py").write_text((PACKAGE / "llama_cpp.py").read_text() + declared)
    variables = environment(LLAMA_CPP_LIB_PATH=str(PACKAGE / "lib"))
    variables["PYTHONPATH"] = f"{tmp_path}:{variables['PYTHONPATH']}"

    ended = subprocess.run(
        [sys.executable, "-c", LACKING], env=variables, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        "llama_function_missing: this libllama has no function llama_function_of_tomorrow, which llama_cpp"
        " 0.3.36 declares: use the bindings of the library's own release.\n"
    )


def test_a_library_that_is_not_llama_cpp_has_only_stubs() -> None:
    library = TolerantLibrary(None)  # this process

    with pytest.raises(LibraryError) as raised:
        library.llama_no_such_function()
    assert raised.value.code == "llama_function_missing"
    assert library.getpid() > 0
    assert not hasattr(library, "__wrapped__")


def test_a_folder_without_the_library_refuses_the_start(tmp_path: Path, tiny_hybrid_gguf: Path) -> None:
    ended = run_to_exit(LLAMA_CPP_LIB_PATH=str(tmp_path), SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"semif_server: llama_library_not_loaded: {tmp_path}: ")
    assert "Set LLAMA_CPP_LIB_PATH" in ended.stderr


def test_a_file_that_is_no_library_refuses_the_start(tmp_path: Path, tiny_hybrid_gguf: Path) -> None:
    (tmp_path / "libllama.so").write_text("no library")

    ended = run_to_exit(LLAMA_CPP_LIB_PATH=str(tmp_path), SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))

    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "llama_library_not_loaded" in ended.stderr


class Function:
    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *arguments: object) -> int:
        self.calls.append(arguments)
        return self.answer


@pytest.mark.parametrize(("backends", "calls"), [(0, [(b"/opt/llama.cpp/bin",)]), (2, [])])
def test_backends_beside_the_library_are_loaded_where_it_has_none_inside(
    backends: int, calls: list[tuple[bytes]]
) -> None:
    load = Function(0)
    library = SimpleNamespace(
        _name="/opt/llama.cpp/bin/libllama.so",
        ggml_backend_reg_count=Function(backends),
        ggml_backend_load_all_from_path=load,
    )

    load_plugins(SimpleNamespace(_lib=library))

    assert load.calls == calls


def test_the_library_says_its_release() -> None:
    assert library_version(llama_cpp.llama_cpp).startswith("ggml 0.")
