"""What a model's memory takes, asked of llama.cpp."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from semif_server import llama
from semif_server.bindings import MissingFunction
from semif_server.llama_memory import devices, free_gpu_bytes, measure_memory
from semif_server.memory_budget import CELL_PAD_TOKENS, MemoryCost
from tests.container.test_memory_budget import QWEN_4B
from tools.make_tiny_hybrid import write_tiny_hybrid
from tools.random_hybrid import Shape

# With each cell llama.cpp saves a position, which sequences hold it, and places in an image if it knows any.
BOOKS_BYTES_PER_CELL = 24


def measured(path: Path) -> tuple[MemoryCost, bool]:
    model = llama.LlamaModel(path)
    context = model.new_context(sequences=1, sequence_tokens=CELL_PAD_TOKENS, threads=1)
    try:
        return measure_memory(context), context.can_cut_tail
    finally:
        context.close()
        model.close()


def test_attention_takes_cells_alone_and_can_cut_a_tail(smollm2_gguf: Path) -> None:
    cost, can_cut_tail = measured(smollm2_gguf)
    # 30 layers, 3 heads of 64, keys and values in F16.
    assert 0 < cost.cell_bytes - 30 * 3 * 64 * 2 * 2 <= BOOKS_BYTES_PER_CELL
    assert 0 <= cost.state_bytes < 4096
    assert can_cut_tail


def test_a_hybrid_takes_a_state_too_and_can_not_cut_a_tail(tiny_hybrid_gguf: Path) -> None:
    cost, can_cut_tail = measured(tiny_hybrid_gguf)
    shape = Shape()
    state_bytes = 3 * (shape.inner * shape.state_size + 3 * shape.convolved) * 4
    # The attention layer alone: 2 heads of 32, keys and values in F16.
    assert 0 < cost.cell_bytes - 2 * 32 * 2 * 2 <= BOOKS_BYTES_PER_CELL
    assert state_bytes <= cost.state_bytes < state_bytes + 4096
    assert not can_cut_tail


def test_layers_as_qwen_4b_has_them_measure_as_its_numbers_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block of four layers, an eighth of the model, with little but the memory's sizes true to it."""
    shape = Shape(head_size=256, kv_heads=4, state_size=128, key_groups=16, value_heads=32)
    monkeypatch.setattr("tools.make_tiny_hybrid.Shape", lambda: shape)
    cost, _ = measured(write_tiny_hybrid(tmp_path / "block.gguf"))
    assert 0 < 8 * cost.cell_bytes - QWEN_4B.cell_bytes <= 8 * BOOKS_BYTES_PER_CELL
    assert QWEN_4B.state_bytes <= 8 * cost.state_bytes < QWEN_4B.state_bytes * 1.001


def test_the_context_is_empty_afterwards(tiny_hybrid_gguf: Path) -> None:
    model = llama.LlamaModel(tiny_hybrid_gguf)
    context = model.new_context(sequences=1, sequence_tokens=CELL_PAD_TOKENS, threads=1)
    empty_bytes = context.state_bytes(0)
    measure_memory(context)
    assert context.state_bytes(0) == empty_bytes
    context.close()
    model.close()


def test_this_machine_computes_on_a_cpu_alone() -> None:
    assert any(device.startswith("CPU: ") for device in devices())
    assert free_gpu_bytes() is None


CPU, GPU, INTEGRATED = 0, 1, 2


def library(*kinds: int) -> Any:
    """ggml's device functions over devices of these kinds, of which the nth has n GB free."""

    def memory(device: int, free: Any, whole: Any) -> None:
        ctypes.cast(free, ctypes.POINTER(ctypes.c_size_t))[0] = (device + 1) * 10**9
        ctypes.cast(whole, ctypes.POINTER(ctypes.c_size_t))[0] = 100 * 10**9

    functions: dict[str, Callable[..., Any]] = {
        "count": lambda: len(kinds),
        "get": lambda index: index,
        "type": kinds.__getitem__,
        "name": lambda index: b"D%d" % index,
        "description": lambda index: b"a device" if index else None,
        "memory": memory,
    }
    return SimpleNamespace(**{f"ggml_backend_dev_{name}": Function(call) for name, call in functions.items()})


class Function:
    """A function that takes attributes, as those of ctypes do."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def put_library(monkeypatch: pytest.MonkeyPatch, one: Any) -> None:
    monkeypatch.setattr(llama, "llama_cpp", SimpleNamespace(_lib=one))


def test_the_free_memory_of_all_gpus_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    put_library(monkeypatch, library(GPU, GPU, CPU, INTEGRATED))
    assert free_gpu_bytes() == (1 + 2 + 4) * 10**9
    assert devices() == ["D0: ?", "D1: a device", "D2: a device", "D3: a device"]


def test_a_library_without_device_functions_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = library(GPU)
    one.ggml_backend_dev_memory = MissingFunction("ggml_backend_dev_memory")
    put_library(monkeypatch, one)
    assert free_gpu_bytes() is None
    assert devices() == []
