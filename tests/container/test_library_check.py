"""The proof, before serving, that the library does what the bindings believe."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from semif_server import llama
from semif_server.errors import LibraryError
from semif_server.library_check import check_decode, check_vocabulary
from semif_server.library_defaults import DEFAULTS, check_defaults
from semif_server.llama_batch import Piece
from tests.container.serving import Serving
from tests.container.test_model_files import refused

BOTH_VERSIONS = (
    r"^llama_library_mismatch: llama-cpp-python 0\.3\.36 does not fit libllama\S+ of ggml 0\.\S+ .*: "
)


def moved_by_one_field() -> Any:
    """The model parameters as the library gives them, read by bindings that lack one field."""
    whole: Any = llama_cpp.llama_model_params
    fields = [field for field in whole._fields_ if field[0] != "lazy_mode"]
    struct: Any = type("moved", (ctypes.Structure,), {"_fields_": fields})()
    ctypes.memmove(
        ctypes.addressof(struct), bytes(llama_cpp.llama_model_default_params()), ctypes.sizeof(struct)
    )
    return struct


def test_the_bindings_of_this_library_fit() -> None:
    check_defaults(llama.llama_cpp)


def test_structs_of_another_release_are_refused_with_both_versions() -> None:
    functions = {name: getattr(llama_cpp, name) for name in DEFAULTS}
    other = SimpleNamespace(
        **functions | {"llama_model_default_params": moved_by_one_field}, _lib=llama.llama_cpp._lib
    )
    with pytest.raises(LibraryError, match=BOTH_VERSIONS) as caught:
        check_defaults(other)
    assert caught.value.code == "llama_library_mismatch"
    assert "llama_model_default_params." in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_refuses_to_start_on_such_a_library(
    tiny_hybrid_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama.llama_cpp, "llama_model_default_params", moved_by_one_field)
    assert refused(tiny_hybrid_gguf).startswith(
        "llama_library_mismatch: llama-cpp-python 0.3.36 does not fit"
    )


def test_a_loaded_model_passes(hybrid: Serving) -> None:
    check_vocabulary(hybrid.vocabulary)


class Context:
    """Gives the same logits at every decode, or raises."""

    def __init__(self, answer: NDArray[np.float32] | Exception | None) -> None:
        self.answer = answer
        self.is_clear = False

    def decode(self, pieces: list[Piece]) -> list[NDArray[np.float32] | None]:
        self.is_clear = False
        assert [len(piece.tokens) for piece in pieces] == [1]
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer]

    def clear_all(self) -> None:
        self.is_clear = True


def logits(*values: float) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)


def test_finite_logits_that_differ_pass() -> None:
    context = Context(logits(1.0, -2.0, 0.5))
    check_decode(context, 3)
    assert context.is_clear


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (logits(1.0, float("nan"), 0.5), "only 2 of a decode's 3 logits are finite"),
        (logits(1.0, float("inf"), float("-inf")), "only 1 of a decode's 3 logits are finite"),
        (logits(0.0, 0.0, 0.0), "all logits of a decode are 0.0"),
        (logits(1.0, 2.0), "a decode gave 2 logits, not 3"),
        (None, "a decode gave no logits, not 3"),
        (llama.DecodeError(-3), "a decode of one token failed: llama_decode answered -3"),
        (ValueError("NULL pointer access"), "a decode of one token failed: NULL pointer access"),
    ],
)
def test_a_decode_that_is_none_is_refused(answer: Any, found: str) -> None:
    context = Context(answer)
    with pytest.raises(LibraryError, match=BOTH_VERSIONS) as caught:
        check_decode(context, 3)
    assert found in str(caught.value)
    assert context.is_clear


@pytest.mark.parametrize(
    ("n_tokens", "ids", "found"),
    [
        (0, [1], "the vocabulary has 0 tokens"),
        (-7, [1], "the vocabulary has -7 tokens"),
        (2**31 - 1, [1], "the vocabulary has 2147483647 tokens"),
        (10, [3, 10], r"the text A has the tokens \[3, 10\] in a vocabulary of 10"),
        (10, [-1], r"the text A has the tokens \[-1\] in a vocabulary of 10"),
        (10, [], r"the text A has the tokens \[\] in a vocabulary of 10"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(n_tokens: int, ids: list[int], found: str) -> None:
    tokenize: Callable[..., list[int]] = lambda _text, *, parse_special: ids  # noqa: E731
    with pytest.raises(LibraryError, match=BOTH_VERSIONS + found):
        check_vocabulary(SimpleNamespace(n_tokens=n_tokens, tokenize=tokenize))
