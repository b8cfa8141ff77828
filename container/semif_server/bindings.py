"""llama-cpp-python's low-level bindings, on whichever libllama this machine has.

The bindings are plain ctypes: the library's release decides which functions exist, and the bindings look
every one of them up when they are imported. A function that this library lacks becomes a stub here that
raises when it is called; nothing in the bindings' files is changed. Only `llama_cpp.llama_cpp` is loaded,
never the package's high-level API, whose imports an image need not carry.
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from semif_server.errors import LibraryError

LIBRARY_FOLDER_VARIABLE: Final = "LLAMA_CPP_LIB_PATH"
_PACKAGE: Final = "llama_cpp"
_LOW_LEVEL: Final = "llama_cpp.llama_cpp"
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)

missing_functions: set[str] = set()
"""Names that the bindings declare and this library does not have."""


class MissingFunction:
    """Stands for a function that the library lacks. It can be declared; a call raises LibraryError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_arguments: object) -> NoReturn:
        """Refuse the call."""
        raise LibraryError(
            "llama_function_missing",
            f"this libllama has no function {self.name}, which {_PACKAGE} {package_version()} declares:"
            " use the bindings of the library's own release.",
        )


class TolerantLibrary(ctypes.CDLL):
    """A shared library that gives a stub for each function it does not have."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
        missing_functions.add(name)
        stub = MissingFunction(name)
        setattr(self, name, stub)
        return stub


def load_bindings() -> Any:
    """The module llama_cpp.llama_cpp. Raises LibraryError when the library or the bindings can't be used."""
    if _LOW_LEVEL in sys.modules:
        return sys.modules[_LOW_LEVEL]
    spec = _package_spec()
    package = ModuleType(_PACKAGE)
    package.__spec__ = spec
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules[_PACKAGE] = package
    try:
        with _tolerant_loading():
            low_level = importlib.import_module(_LOW_LEVEL)
    except (FileNotFoundError, RuntimeError) as error:
        sys.modules.pop(_PACKAGE, None)
        raise LibraryError(
            "llama_library_not_loaded",
            f"{_library_folder()}: {error}. Set {LIBRARY_FOLDER_VARIABLE} to the folder of a libllama.so"
            " that fits this machine.",
        ) from None
    # For whoever imports the package by its name afterwards: the names that its own __init__ would give.
    vars(package).update({name: value for name, value in vars(low_level).items() if name[:1] != "_"})
    vars(package)["__version__"] = package_version()
    return low_level


def package_version() -> str:
    """The version of llama-cpp-python, as its package states it."""
    origin = _package_spec().origin
    found = _VERSION.search(Path(origin).read_text(encoding="utf-8")) if origin else None
    return found[1] if found else "unknown"


def library_version(low_level: Any) -> str:
    """What the library says of itself: `ggml 0.25.3 (commit 0c1e57098)`, or `unknown`."""
    version, commit = (_text(low_level, name) for name in ("ggml_version", "ggml_commit"))
    if not version:
        return "unknown"
    return f"ggml {version} (commit {commit})" if commit else f"ggml {version}"


def library_path(low_level: Any) -> Path:
    """The file that libllama was loaded from."""
    return Path(low_level._lib._name).resolve()


def _package_spec() -> importlib.machinery.ModuleSpec:
    spec = importlib.machinery.PathFinder.find_spec(_PACKAGE)
    if spec is None:
        raise LibraryError(
            "llama_bindings_missing", "the package llama_cpp is not installed: install llama-cpp-python."
        )
    return spec


def _library_folder() -> Path:
    given = os.environ.get(LIBRARY_FOLDER_VARIABLE)
    locations = _package_spec().submodule_search_locations or ["."]
    return Path(given) if given else Path(locations[0]) / "lib"


@contextmanager
def _tolerant_loading() -> Iterator[None]:
    """While this holds, the bindings get a TolerantLibrary where they load a shared library."""
    extensions: Any = importlib.import_module(f"{_PACKAGE}._ctypes_extensions")
    load = extensions.load_shared_library

    def load_tolerantly(base_name: str, folder: Path) -> TolerantLibrary:
        loaded = load(base_name, folder)
        return TolerantLibrary(loaded._name)

    extensions.load_shared_library = load_tolerantly
    try:
        yield
    finally:
        extensions.load_shared_library = load


def load_plugins(low_level: Any) -> None:
    """Load the backends that lie beside the library as plugins; a build with its backends inside has none.

    llama.cpp itself looks beside the running program, which is Python. What a plugin says while it loads goes
    to llama.cpp's log, so set that before.
    """
    library = low_level._lib
    count = library.ggml_backend_reg_count
    load = library.ggml_backend_load_all_from_path
    if isinstance(count, MissingFunction) or isinstance(load, MissingFunction):
        return
    count.restype = ctypes.c_size_t
    if count() == 0:
        load.argtypes = [ctypes.c_char_p]
        load.restype = None
        load(os.fsencode(library_path(low_level).parent))


def _text(low_level: Any, name: str) -> str:
    try:
        function = getattr(low_level._lib, name)
    except AttributeError:  # a library that was loaded by the package itself
        return ""
    if isinstance(function, MissingFunction):
        return ""
    function.restype = ctypes.c_char_p
    return (function() or b"").decode("utf-8", "replace")
