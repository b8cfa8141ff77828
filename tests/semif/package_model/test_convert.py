"""A checkpoint on the hub → converted by llama.cpp's own converter → quantized → an archive.

The converter needs torch and transformers. Where their environment is not there and pip knows no CPU build
of torch, making it would fetch 3 GB: then the test is skipped and says so.
"""

import json
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from mypy_boto3_s3 import S3Client

from localaws.hub import COMMIT, Hub
from semif.errors import SemifError
from semif.package_model.convert import Tools, make_gguf
from semif.package_model.package import package
from semif.package_model.recipe import HubSource, Recipe
from semif_server.encoding import PromptEncoder
from semif_server.llama import LlamaModel
from semif_server.profile import load_profile
from semif_server.template import ChatTemplate
from tests.semif.package_model.conftest import JobOf, keys, read
from tests.semif.package_model.tiny_checkpoint import CHAT_TEMPLATE
from tools import convert_environment
from tools.setup import PYTHON

CHECKPOINT = "tests/tiny-checkpoint"


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest) -> Path:
    if not convert_environment.is_there() and convert_environment.cpu_torch() is None:
        pytest.skip(
            "conversion not proven here: run `python -m tools.convert_environment` (3 GB to fetch) once"
        )
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():  # it says what it costs
        return convert_environment.make()


@pytest.fixture
def tools(environment: Path, tmp_path: Path) -> Tools:
    """The converter in its environment; quantizing, which wants the bindings, runs in this one."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$1" in *quantize_process.py) exec "{PYTHON}" "$@" ;; esac\n'
        f'exec "{environment}/bin/python" "$@"\n'
    )
    python.chmod(0o755)
    return Tools(str(python), environment / "llama.cpp")


def test_a_checkpoint_is_converted_and_quantized(
    *, job: JobOf, hub: Hub, s3: S3Client, environment: Path, tools: Tools, tmp_path: Path
) -> None:
    folder = tmp_path / "hub" / CHECKPOINT
    subprocess.run(
        [f"{environment}/bin/python", Path(__file__).with_name("tiny_checkpoint.py"), folder], check=True
    )
    (folder / "README.md").write_text("not of the checkpoint")
    recipe = Recipe(HubSource(CHECKPOINT, COMMIT), "tiny-Q4_K_M.gguf", None, "Q4_K_M", None, "mit")

    def make(acquired, recipe, work):  # type: ignore[no-untyped-def]
        return make_gguf(acquired, recipe, work, tools, print)

    package(recipe, job(make=make))
    manifest = json.loads(read(s3, f"models/{recipe.id}/model-manifest.json"))
    assert manifest["model"]["quantization"] == "Q4_K_M"
    assert manifest["model"]["context_tokens"] == 4096
    assert {source["uri"].rpartition("/")[2] for source in manifest["sources"]} == {
        "config.json", "model.safetensors", "tokenizer.model", "tokenizer_config.json"
    }  # fmt: skip
    made = tmp_path / recipe.file
    made.write_bytes(read(s3, f"models/{recipe.id}/{recipe.file}"))
    model = LlamaModel(made)
    assert model.chat_template() == CHAT_TEMPLATE
    template = ChatTemplate(CHAT_TEMPLATE, bos_token="<s>", eos_token="</s>")
    encoder = PromptEncoder(model.vocabulary, template, load_profile(None))
    assert manifest["model"]["options_in_one_step"] == encoder.options_in_one_step > 26
    model.close()
    assert not list((tmp_path / "work").rglob("*.*"))

    (folder / "config.json").write_text('{"architectures": ["NobodyKnowsForCausalLM"]}')
    before = keys(s3)
    with pytest.raises(SemifError, match="NobodyKnowsForCausalLM") as raised:
        package(replace(recipe, source=HubSource(CHECKPOINT, "ab" * 20)), job(make=make))
    assert raised.value.code == "conversion_failed"
    assert keys(s3) == before
