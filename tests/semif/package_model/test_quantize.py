"""Quantizing by llama.cpp's own function, in a process of its own. Conversion: test_convert.py."""

import json
import sys
from pathlib import Path

import pytest
from gguf import GGUFReader, GGUFWriter
from mypy_boto3_s3 import S3Client

from semif.archive import FileRange, described
from semif.errors import ServiceError, UsageError
from semif.package_model.convert import Tools, make_gguf
from semif.package_model.gguf_file import read_gguf
from semif.package_model.package import package
from semif.package_model.recipe import Recipe, UriSource
from semif_server.llama import LlamaModel
from tests.semif.package_model.conftest import JobOf, keys, read

TOOLS = Tools(sys.executable)


def job_that_makes(job: JobOf, said: list[str], tools: Tools = TOOLS) -> JobOf:
    def make(**changes: object):  # type: ignore[no-untyped-def]
        return job(
            make=lambda acquired, recipe, work: make_gguf(acquired, recipe, work, tools, said.append),
            **changes,
        )

    return make


@pytest.mark.parametrize("quantize", ["Q8_0", "Q4_K_M", "Q5_K_M"])
def test_a_gguf_is_quantized_and_loads(
    job: JobOf, s3: S3Client, wide: Path, tmp_path: Path, quantize: str
) -> None:
    recipe = Recipe(UriSource(str(wide)), f"wide-{quantize}.gguf", None, quantize)
    address = package(recipe, job_that_makes(job, [])())
    assert address.endswith(f"/models/{recipe.id}/")
    manifest = json.loads(read(s3, f"models/{recipe.id}/model-manifest.json"))
    assert manifest["model"]["quantization"] == quantize
    assert manifest["model"]["options_in_one_step"] == 26
    made = tmp_path / recipe.file
    made.write_bytes(read(s3, f"models/{recipe.id}/{recipe.file}"))
    kinds = {tensor.tensor_type.name for tensor in GGUFReader(made).tensors}
    assert {quantize.removesuffix("_M")} <= kinds
    LlamaModel(made).close()
    assert wide.exists()
    assert not list((tmp_path / "work").rglob("*.gguf"))


def test_the_same_source_quantizes_to_the_same_bytes(wide: Path, tmp_path: Path) -> None:
    from semif.package_model.acquire import Acquired  # noqa: PLC0415

    recipe = Recipe(UriSource(str(wide)), "w.gguf", None, "Q8_0")
    made = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        made.append(make_gguf(Acquired((wide,), (), owned=False), recipe, tmp_path / name, TOOLS, print))
    one, other = (described(path.name, [FileRange(path, 0, path.stat().st_size)]).sha256 for path in made)
    assert one == other


def test_a_file_that_llama_cpp_refuses(job: JobOf, s3: S3Client, tiny: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes().replace(b"qwen35", b"qwen00"))
    recipe = Recipe(UriSource(str(broken)), "q.gguf", None, "Q8_0")
    with pytest.raises(ServiceError, match="unknown model architecture") as raised:
        package(recipe, job_that_makes(job, [])())
    assert raised.value.code == "quantization_failed"
    assert keys(s3) == []


def test_tools_that_are_not_there(job: JobOf, wide: Path, tmp_path: Path) -> None:
    recipe = Recipe(UriSource(str(wide)), "q.gguf", None, "Q8_0")
    with pytest.raises(UsageError, match="no program") as raised:
        package(recipe, job_that_makes(job, [], Tools("/nowhere/python"))())
    assert raised.value.code == "no_tools_python"
    empty = tmp_path / "python"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    empty.chmod(0o755)
    with pytest.raises(UsageError, match="llama_cpp") as raised:
        package(recipe, job_that_makes(job, [], Tools(str(empty)))())
    assert raised.value.code == "no_converter"
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    (tmp_path / "checkpoint" / "model.safetensors").write_bytes(b"x")
    recipe = Recipe(UriSource(str(tmp_path / "checkpoint")), "q.gguf", None, "F16")
    with pytest.raises(UsageError, match=r"convert_hf_to_gguf\.py is not at hand"):
        package(recipe, job_that_makes(job, [])())


def test_a_folder_without_a_checkpoint(job: JobOf, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no checkpoint"):
        package(Recipe(UriSource(str(tmp_path / "empty")), "q.gguf", None, "F16"), job_that_makes(job, [])())


@pytest.fixture(scope="session")
def wide(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer Llama with rows of 256 weights, which K-quants need."""
    import numpy as np  # noqa: PLC0415

    path = tmp_path_factory.mktemp("wide") / "wide.gguf"
    source = GGUFReader(tiny)
    tokens = source.fields["tokenizer.ggml.tokens"].contents()
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_block_count(1)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(512)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(64)
    writer.add_file_type(0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(source.fields["tokenizer.ggml.token_type"].contents())
    writer.add_token_merges(source.fields["tokenizer.ggml.merges"].contents())
    writer.add_chat_template("{{ messages[0].content }}")
    random = np.random.default_rng(0)
    shapes = {"token_embd.weight": (len(tokens), 256), "output.weight": (len(tokens), 256)}
    shapes |= {f"blk.0.attn_{name}.weight": (256, 256) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate.weight": (512, 256), "blk.0.ffn_up.weight": (512, 256)}
    shapes["blk.0.ffn_down.weight"] = (256, 512)
    for name, shape in shapes.items():
        writer.add_tensor(name, (random.standard_normal(shape) / 16).astype(np.float32))
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, np.ones(256, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_gguf(path).architecture == "llama"
    return path
