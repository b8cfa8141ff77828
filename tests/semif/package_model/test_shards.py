"""Shards: a plan within its bounds, and a set that llama.cpp loads as the same model."""

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from gguf import GGUFReader
from hypothesis import given
from hypothesis import strategies as st

from semif.archive import FileRange, described
from semif.errors import UsageError
from semif.package_model.gguf_file import read_gguf
from semif.package_model.shards import plan_groups, shard_name, shards
from semif_server.llama import LlamaModel
from semif_server.llama_batch import Piece

ROOT = Path(__file__).parents[3]
SMOLLM2 = ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def write_shards(path: Path, shard_bytes: int, folder: Path) -> list[Path]:
    folder.mkdir()
    pieces = shards(read_gguf(path), shard_bytes)
    written = []
    for index, parts in enumerate(pieces):
        target = folder / shard_name(path.name, index, len(pieces))
        with target.open("wb") as file:
            for chunk in described(target.name, parts).chunks():
                file.write(chunk)
        written.append(target)
    return written


def logits(path: Path) -> bytes:
    """The bits that the model gives for a prompt."""
    model = LlamaModel(path)
    try:
        context = model.new_context(sequences=2, sequence_tokens=256, threads=2)
        try:
            tokens = model.vocabulary.tokenize("The door is open. Is it?", parse_special=False)
            (row,) = context.decode([Piece(0, 0, tokens, want_logits=True)])
            assert row is not None
            return row.tobytes()
        finally:
            context.close()
    finally:
        model.close()


@pytest.mark.parametrize(("model", "shard_bytes"), [("tiny", 200_000), ("smollm2", 40_000_000)])
def test_llama_cpp_loads_the_set_as_the_same_model(
    model: str, shard_bytes: int, tiny: Path, tmp_path: Path
) -> None:
    path = tiny if model == "tiny" else SMOLLM2
    written = write_shards(path, shard_bytes, tmp_path / "set")
    assert len(written) >= 3
    assert max(file.stat().st_size for file in written) <= shard_bytes
    assert logits(written[0]) == logits(path)


def test_each_shard_is_a_whole_gguf_for_other_tools(tiny: Path, tmp_path: Path) -> None:
    written = write_shards(tiny, 300_000, tmp_path / "set")
    whole = {tensor.name: tensor.data.tobytes() for tensor in GGUFReader(tiny).tensors}
    readers = [GGUFReader(file) for file in written]
    found = {tensor.name: tensor.data.tobytes() for reader in readers for tensor in reader.tensors}
    assert found == whole
    for index, reader in enumerate(readers):
        assert reader.fields["split.no"].contents() == index
        assert reader.fields["split.count"].contents() == len(readers)
        assert reader.fields["split.tensors.count"].contents() == len(whole)
    assert "tokenizer.ggml.tokens" in readers[0].fields
    assert "tokenizer.ggml.tokens" not in readers[1].fields


def test_a_small_enough_model_stays_one_file(tiny: Path) -> None:
    assert shards(read_gguf(tiny), 10_000_000) == [(FileRange(tiny, 0, tiny.stat().st_size),)]


def test_a_shard_is_not_cut_again(tiny: Path, tmp_path: Path) -> None:
    first = write_shards(tiny, 300_000, tmp_path / "set")[0]
    with pytest.raises(UsageError, match="one of several shards"):
        shards(read_gguf(first), 100_000)


SIZES = st.lists(st.integers(0, 5000), min_size=1, max_size=40)


@given(sizes=SIZES, limit=st.integers(300, 6000), first=st.integers(0, 8000), row=st.integers(0, 100))
def test_a_plan_keeps_order_and_bounds(sizes: list[int], limit: int, first: int, row: int) -> None:
    later = 200
    starts = plan_groups(sizes, [row] * len(sizes), first_bytes=first, later_bytes=later, limit=limit)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    for begin, end in pairwise([*starts, len(sizes)]):
        used = (later if begin else first) + sum(sizes[begin:end]) + row * (end - begin)
        assert used <= limit or end == begin + 1
        if end < len(sizes):
            assert used + sizes[end] + row > limit


@pytest.mark.parametrize("cut", [3, 10, 24, 100, 5000, 8000])
def test_a_truncated_header_is_refused(tiny: Path, tmp_path: Path, cut: int) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[:cut])
    with pytest.raises(UsageError, match="is no whole GGUF"):
        read_gguf(broken)


@given(place=st.integers(0, 8700), value=st.integers(0, 255))
def test_a_damaged_header_is_read_or_refused(tiny: Path, place: int, value: int) -> None:
    data = bytearray(tiny.read_bytes()[:9000])
    data[place] = value
    broken = tiny.with_name("damaged.gguf")
    broken.write_bytes(data)
    with suppress(UsageError):
        assert read_gguf(broken).size_bytes == len(data)
