"""Files that are no usable model: a clear message and a non-zero exit, whatever is wrong with them."""

import functools
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest

from semif_server.errors import StartError
from tests.container.process import run_to_exit
from tests.container.serving import PASSWORD_RESET, Serving
from tools.make_tiny_hybrid import write_tiny_hybrid
from tools.random_hybrid import ARCHITECTURE


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(StartError) as caught:
        Serving(path, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def empty(data: bytearray) -> None:
    data.clear()


def cut_in_the_tensors(data: bytearray) -> None:
    del data[-100_000:]


def cut_in_the_header(data: bytearray) -> None:
    del data[2_000:]


def another_format(data: bytearray) -> None:
    data[:4] = b"PK\x03\x04"


def future_version(data: bytearray) -> None:
    data[4:8] = struct.pack("<I", 99)


def absurd_counts(data: bytearray) -> None:
    data[8:24] = b"\xff" * 16


def garbage_in_the_metadata(data: bytearray) -> None:
    data[24:500] = bytes(range(256))[:238] * 2


def another_architecture(data: bytearray) -> None:
    assert data.count(ARCHITECTURE.encode()) > 1
    data[:] = data.replace(ARCHITECTURE.encode(), b"nosuch")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (empty, "is empty: upload the model again"),
        (another_format, "is no GGUF file"),
        (cut_in_the_tensors, "llama.cpp can't load"),
        (cut_in_the_header, "llama.cpp can't load"),
        (future_version, "llama.cpp can't load"),
        (absurd_counts, "llama.cpp can't load"),
        (garbage_in_the_metadata, "llama.cpp can't load"),
        (another_architecture, "unknown model architecture: 'nosuch'"),
    ],
)
def test_a_damaged_file_refuses_the_start(
    tiny_hybrid_gguf: Path, tmp_path: Path, damage: Callable[[bytearray], None], message: str
) -> None:
    data = bytearray(tiny_hybrid_gguf.read_bytes())
    damage(data)
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    said = refused(path)
    assert message in said
    assert str(path) in said


def test_a_process_with_a_damaged_file_says_so_and_exits(tiny_hybrid_gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny_hybrid_gguf.read_bytes()[:-100_000])
    ended = run_to_exit(SEMIF_GGUF_PATH=str(path))
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"semif_server: llama.cpp can't load {path}: ")
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_split_model_is_served_like_the_whole_one(
    hybrid: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tools.make_tiny_hybrid.GGUFWriter", functools.partial(gguf.GGUFWriter, split_max_tensors=20)
    )
    write_tiny_hybrid(tmp_path / "split.gguf")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"split-{index:05d}-of-00003.gguf" for index in (1, 2, 3)]
    first = tmp_path / names[0]
    split = Serving(first)
    try:
        result = split.decide({"decision": PASSWORD_RESET})["result"]
    finally:
        split.close()
    assert len(split.archive.shards) == 3
    sha256 = hashlib.sha256(first.read_bytes()).hexdigest()
    assert result["model"]["gguf"] == {"file": names[0], "sha256": sha256}
    whole = hybrid.decide({"decision": PASSWORD_RESET})["result"]
    assert result["option_logits"] == whole["option_logits"]
    (tmp_path / names[2]).unlink()
    assert f"{names[2]} is missing" in refused(first)


def test_a_gpu_that_is_not_there_refuses_the_start(tiny_hybrid_gguf: Path) -> None:
    said = refused(tiny_hybrid_gguf, n_gpu_layers=-1)
    assert "SEMIF_N_GPU_LAYERS=-1: llama.cpp has no GPU backend with a device here" in said


def test_a_context_beyond_the_trained_one_refuses_the_start(tmp_path: Path) -> None:
    path = write_tiny_hybrid(tmp_path / "short.gguf", context_tokens=1024)
    said = refused(path, max_tokens=2048)
    assert "SEMIF_MAX_TOKENS=2048: the model was trained on 1024 tokens" in said


def test_a_model_without_a_chat_template_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf.GGUFWriter, "add_chat_template", lambda *_: None)
    assert "The model has no chat template" in refused(write_tiny_hybrid(tmp_path / "base.gguf"))


def test_a_template_without_a_system_turn_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tools.make_tiny_hybrid.CHAT_TEMPLATE", "{{ raise_exception('System role not supported') }}"
    )
    line = refused(write_tiny_hybrid(tmp_path / "other.gguf"))
    assert "refuses a system turn and a user turn: System role not supported" in line


def test_the_tiny_hybrid_is_small_and_the_same_for_the_same_seed(tmp_path: Path) -> None:
    paths = [write_tiny_hybrid(tmp_path / f"{index}.gguf", seed=seed) for index, seed in enumerate((0, 0, 1))]
    assert paths[0].stat().st_size < 1_048_576
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()
