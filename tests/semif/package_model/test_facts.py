"""What the manifest says of a model, held against the server and the file itself."""

import hashlib
import json
from pathlib import Path

import pytest
from gguf import LlamaFileType

from semif.package_model import facts
from semif.package_model.gguf_file import read_gguf
from semif_server import llama
from semif_server.archive import open_archive
from semif_server.assembly import assemble
from semif_server.codes import MAX_OPTIONS
from semif_server.engine.prefix_cache import FEWEST_SEQUENCES_COPYING, FEWEST_SEQUENCES_CUTTING
from semif_server.profile import load_profile
from semif_server.settings import Settings
from tools.random_hybrid import CHAT_TEMPLATE

ROOT = Path(__file__).parents[3]
SMOLLM2 = ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_the_facts_of_the_tiny_hybrid(tiny: Path) -> None:
    found = facts.model_facts(read_gguf(tiny))
    parameters = found.pop("parameters")
    assert parameters * 4 == pytest.approx(tiny.stat().st_size, rel=0.02)
    assert found == {
        "name": "Tiny random hybrid",
        "architecture": "qwen35",
        "quantization": None,
        "context_tokens": 4096,
        "vocabulary_tokens": 269,
        "tokenizer_model": "gpt2",
        "tokenizer_pre": "qwen35",
        "chat_template_sha256": hashlib.sha256(CHAT_TEMPLATE.encode()).hexdigest(),
        "options_in_one_step": 26,
    }


def test_the_servers_numbers_are_these() -> None:
    assert load_profile(None).slots == facts.SLOTS
    assert MAX_OPTIONS == facts.MAX_OPTIONS
    assert max(FEWEST_SEQUENCES_COPYING, FEWEST_SEQUENCES_CUTTING) == facts.SEQUENCES
    assert llama.MICRO_BATCH_TOKENS == facts.MICRO_BATCH_TOKENS
    assert Settings.model_fields["max_tokens"].default == facts.DEFAULT_MAX_TOKENS


def test_quantizations_have_llama_cpps_names() -> None:
    named = {kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    del named[LlamaFileType.GUESSED]
    known = facts._FILE_TYPES
    assert {number: named[number] for number in named if number in known} == {
        number: name for number, name in known.items() if number in named
    }
    assert set(named) <= set(known)


@pytest.mark.parametrize("model", ["tiny", "smollm2"])
def test_the_server_agrees(model: str, tiny: Path) -> None:
    path = tiny if model == "tiny" else SMOLLM2
    gguf = read_gguf(path)
    assembly = assemble(Settings(gguf_path=path), open_archive(path.parent, path), load_profile(None))
    try:
        found = facts.model_facts(gguf)
        assert found["options_in_one_step"] == assembly.encoder.options_in_one_step
        assert found["context_tokens"] == assembly.model.n_ctx_train
        assert found["vocabulary_tokens"] == assembly.model.vocabulary.n_tokens
        assert found["architecture"] == assembly.model.architecture
        assert facts.memory_facts(gguf)["context_tokens"] == assembly.context.n_ctx_seq
    finally:
        assembly.context.close()
        assembly.model.close()


def test_a_model_without_a_template_or_letters_takes_no_options(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    changed = tmp_path / "changed.gguf"
    changed.write_bytes(data.replace(b"tokenizer.chat_template", b"tokenizer.xhat_template"))
    assert facts.options_in_one_step(read_gguf(changed)) is None
    changed.write_bytes(data.replace(b"\x01\0\0\0\0\0\0\0P", b"\x01\0\0\0\0\0\0\0Q", 1))
    assert facts.options_in_one_step(read_gguf(changed)) is None


def test_memory_is_the_sum_of_its_parts(tiny: Path) -> None:
    for path in (tiny, SMOLLM2):
        found = facts.memory_facts(read_gguf(path))
        parts = ("weights_bytes", "kv_bytes", "recurrent_bytes", "compute_bytes")
        total = sum(found[part] for part in parts)
        assert found["least_ram_bytes"] == total + found["process_bytes"]
        assert found["least_vram_bytes"] == total + found["cuda_bytes"]
        json.dumps(found)
    assert found["recurrent_bytes"] == 0
    # 30 layers, 3 heads of 64 for keys and for values, 16 bits, 3 sequences of 4,096 tokens
    assert found["kv_bytes"] == 30 * 3 * (64 + 64) * 2 * 3 * 4096
    # One attention layer of four; the other three keep a convolution's and a delta-net's state.
    hybrid = facts.memory_facts(read_gguf(tiny))
    assert hybrid["kv_bytes"] == 1 * 2 * (32 + 32) * 2 * 3 * 4096
    assert hybrid["recurrent_bytes"] == 3 * 3 * 4 * (3 * (64 + 2 * 2 * 16) + 16 * 64)
