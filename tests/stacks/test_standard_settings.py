"""Settings of endpoints that run AWS's containers as they are, and what their containers are told."""

from typing import Any

import pytest

from localaws.llama_cpp_container.entry_point import plan
from stacks.container_settings import ContainerSettings, read_container
from stacks.container_variables import MAX_BYTES, MAX_VALUE_BYTES, MAX_VARIABLES
from stacks.dlc import DIGESTS, Flavour
from stacks.images import ImageSettings, ecr_image
from stacks.mapping_reader import MappingReader, SettingsError
from stacks.model_settings import ReadyModel
from stacks.standard_settings import (
    HubFile,
    LlamaCppEngine,
    StandardEngine,
    StandardEngineName,
    container_environment,
    engine_notes,
    read_standard_engine,
    stock_image,
)

GGUF = "/opt/ml/model/Model-Q4_K_M.gguf"
OWN_IMAGE = ecr_image(f"763104351884.dkr.ecr.eu-central-1.amazonaws.com/vllm@sha256:{'e' * 64}")
CPU, GPU = ("ml.c6i.2xlarge",), ("ml.g6e.xlarge", "ml.g5.xlarge")


def read(
    value: dict[str, Any],
    engine: StandardEngineName = "llama-cpp",
    *,
    pool: tuple[str, ...] = CPU,
    image: ImageSettings | None = None,
    region: str = "eu-central-1",
) -> StandardEngine:
    flavour: Flavour | None = None if image else ("cuda" if pool == GPU else "cpu")
    reader = MappingReader(value, "e")
    return read_standard_engine(reader, engine, pool=pool, image=image, flavour=flavour, region=region)


def refused(value: dict[str, Any], engine: StandardEngineName = "llama-cpp", **how: Any) -> SettingsError:
    with pytest.raises(SettingsError) as error:
        read(value, engine, **how)
    return error.value


def variables(value: dict[str, Any], **how: Any) -> dict[str, str]:
    return container_environment(read(value, **how), GGUF)


def test_the_container_is_told_the_models_file_and_its_context() -> None:
    assert variables({}) == {
        "SM_LLAMA_CPP_MODEL": GGUF,
        "SM_LLAMA_CPP_CTX_SIZE": "8192",
        "SM_LLAMA_CPP_PARALLEL": "1",
    }


def test_all_settings() -> None:
    settings = {
        "context_tokens": 16_384,
        "parallel": 4,
        "gpu_layers": 20,
        "threads": 8,
        "environment": {"SM_LLAMA_CPP_FLASH_ATTN": "on", "GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1"},
    }
    assert variables(settings, pool=GPU) == {
        "SM_LLAMA_CPP_MODEL": GGUF,
        "SM_LLAMA_CPP_CTX_SIZE": "16384",
        "SM_LLAMA_CPP_PARALLEL": "4",
        "SM_LLAMA_CPP_N_GPU_LAYERS": "20",
        "SM_LLAMA_CPP_THREADS": "8",
        "SM_LLAMA_CPP_FLASH_ATTN": "on",
        "GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1",
    }


def test_the_containers_entry_point_makes_llama_servers_flags_of_them() -> None:
    settings = {"context_tokens": 2048, "threads": 8, "environment": {"SM_LLAMA_CPP_NO_WARMUP": "true"}}
    planned = plan(variables(settings, pool=GPU))
    assert planned.port == 8080
    assert " ".join(planned.flags) == (
        f"--model {GGUF} --ctx-size 2048 --parallel 1 --n-gpu-layers 999 --threads 8 --no-warmup"
    )


def test_all_layers_go_to_a_gpu_and_none_to_a_cpu() -> None:
    assert variables({}, pool=GPU)["SM_LLAMA_CPP_N_GPU_LAYERS"] == "999"
    assert variables({"gpu_layers": -1}, pool=GPU)["SM_LLAMA_CPP_N_GPU_LAYERS"] == "999"
    assert "SM_LLAMA_CPP_N_GPU_LAYERS" not in variables({"gpu_layers": 0}, pool=GPU)
    assert refused({"gpu_layers": -1}).path == "e.gpu_layers"


def test_a_download_at_start_names_no_model_file() -> None:
    engine = read({"download_at_start": {"repository": "owner/Model-GGUF", "file": "Model-Q4.gguf"}})
    assert isinstance(engine, LlamaCppEngine)
    assert engine.download_at_start == HubFile("owner/Model-GGUF", "Model-Q4.gguf")
    told = container_environment(engine, None)
    assert told["SM_LLAMA_CPP_HF_REPO"] == "owner/Model-GGUF"
    assert told["SM_LLAMA_CPP_HF_FILE"] == "Model-Q4.gguf"
    assert "SM_LLAMA_CPP_MODEL" not in told
    (note,) = engine_notes(engine, "e")
    assert note.level == "warning"
    assert "NO network isolation" in note.text
    assert engine_notes(read({}), "e") == ()


def test_a_download_is_not_held_against_the_environments_model() -> None:
    too_large = ReadyModel("s3://b/m/", "m.gguf", "ab" * 32, size_bytes=900 * 2**30)
    hub = {"download_at_start": {"repository": "owner/Model-GGUF", "file": "Model-Q4.gguf"}}

    def read_on_gpu(value: dict[str, Any]) -> ContainerSettings:
        reader = MappingReader(value, "e")
        return read_container(
            reader, engine="llama-cpp", pool=GPU, region="eu-central-1", default_model=too_large
        )[0]

    assert read_on_gpu(hub).fetches_model
    with pytest.raises(SettingsError, match=r"^e\.pool: a model of 900"):
        read_on_gpu({})


@pytest.mark.parametrize(
    "name",
    [
        "SM_LLAMA_CPP_API_KEY",
        "SM_LLAMA_CPP_API_KEY_FILE",
        "sm_llama_cpp_api_key",
        "LLAMA_API_KEY",
        "SM_LLAMA_CPP_APIKEY",
        "SM_LLAMA_CPP_HOST",
        "LLAMA_ARG_HOST",
        "SM_LLAMA_CPP_PORT",
        "LLAMA_CPP_UPSTREAM_PORT",
        "LLAMA_ARG_PORT",
        "SM_LLAMA_CPP_SSL_KEY_FILE",
        "SM_LLAMA_CPP_API_PREFIX",
        "SM_LLAMA_CPP_HF_TOKEN",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "SM_LLAMA_CPP_MODEL",
        "SM_LLAMA_CPP_MODEL_DIR",
        "SM_LLAMA_CPP_HF_REPO",
        "SM_LLAMA_CPP_CTX_SIZE",
        "SM_LLAMA_CPP_PARALLEL",
        "SM_LLAMA_CPP_GPU_LAYERS",
        "SM_LLAMA_CPP_N_GPU_LAYERS",
        "SM_LLAMA_CPP_THREADS",
        "SM-LLAMA-CPP-X",
        "1X",
        "",
    ],
)
def test_variables_on_which_the_container_breaks_are_refused(name: str) -> None:
    assert refused({"environment": {name: "x"}}).path == f"e.environment.{name}"


@pytest.mark.parametrize("name", ["SM_LLAMA_CPP_THREADS_BATCH", "SM_LLAMA_CPP_MODEL_DRAFT", "HF_HOME"])
def test_other_variables_are_the_users_affair(name: str) -> None:
    assert variables({"environment": {name: "8"}})[name] == "8"


@pytest.mark.parametrize(
    "value", ["a\nb", "a\r", "\u2028", "a\0b", 8, True, None, "x" * (MAX_VALUE_BYTES + 1)]
)
def test_values_that_the_container_or_sagemaker_cannot_read_are_refused(value: object) -> None:
    assert refused({"environment": {"SM_LLAMA_CPP_ALIAS": value}}).path.startswith("e.environment")


def test_sagemakers_limits_count_the_deployments_own_variables() -> None:
    own = len(variables({}))
    most = {f"X_{number}": "" for number in range(MAX_VARIABLES - own)}
    assert len(variables({"environment": most})) == MAX_VARIABLES
    assert refused({"environment": most | {"Y": ""}}).path == "e.environment"
    large = {f"X_{number:02}": "x" * (MAX_VALUE_BYTES - 4) for number in range(MAX_BYTES // MAX_VALUE_BYTES)}
    assert refused({"environment": large}).path == "e.environment"
    large.pop("X_00")
    assert set(large) < set(variables({"environment": large}))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"context_tokens": 255}, "context_tokens"),
        ({"context_tokens": 1023, "parallel": 4}, "context_tokens"),
        ({"parallel": 0}, "parallel"),
        ({"threads": 0}, "threads"),
        ({"download_at_start": {"repository": "owner/name"}}, "download_at_start.file"),
        ({"download_at_start": {"repository": "name", "file": "a.gguf"}}, "download_at_start.repository"),
        ({"download_at_start": {"repository": "o/n", "file": "../a.gguf"}}, "download_at_start.file"),
        ({"download_at_start": {"repository": "o/n", "file": "a.gguf", "revision": "main"}},
         "download_at_start.revision"),
    ],
)  # fmt: skip
def test_what_else_is_refused(value: dict[str, Any], path: str) -> None:
    assert refused(value).path == f"e.{path}"


@pytest.mark.parametrize(
    ("region", "flavour", "registry"),
    [
        ("eu-central-1", "cuda", "763104351884.dkr.ecr.eu-central-1.amazonaws.com"),
        ("af-south-1", "cpu", "626614931356.dkr.ecr.af-south-1.amazonaws.com"),
        ("cn-north-1", "cpu", "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_regions_own_container_by_digest(region: str, flavour: Flavour, registry: str) -> None:
    image = stock_image(region, flavour, path="e")
    assert image.uri == f"{registry}/llama-cpp@{DIGESTS[flavour]}"
    assert (image.repository.account, image.repository.region) == (registry[:12], region)


def test_a_region_without_the_container_needs_an_image() -> None:
    assert "e.image.uri" in str(refused({}, region="us-gov-west-1"))
    assert read({}, image=OWN_IMAGE, region="us-gov-west-1").name == "llama-cpp"


@pytest.mark.parametrize(
    ("engine", "tag"),
    [
        ("vllm", "vllm:server-sagemaker-cuda-v1"),
        ("strands-decider", "strands-decider:serve-sagemaker-cuda-v1"),
    ],
)
def test_other_engines_need_an_image_and_the_error_says_which(engine: StandardEngineName, tag: str) -> None:
    error = refused({}, engine, pool=GPU)
    assert error.path == "e.image.uri"
    assert f"763104351884.dkr.ecr.eu-central-1.amazonaws.com/{engine}@sha256:" in str(error)
    assert f"semif dlc latest --tag {tag}" in str(error)


def test_other_engines_take_their_users_variables_and_say_that_they_were_not_run() -> None:
    vllm = read({"environment": {"SM_VLLM_MAX_MODEL_LEN": "8192"}}, "vllm", pool=GPU, image=OWN_IMAGE)
    assert container_environment(vllm, GGUF) == {
        "SM_VLLM_MODEL": "/opt/ml/model",
        "SM_VLLM_MAX_MODEL_LEN": "8192",
    }
    decider = read({"environment": {"X": "1"}}, "strands-decider", pool=GPU, image=OWN_IMAGE)
    assert container_environment(decider, GGUF) == {"X": "1"}
    for engine in (vllm, decider):
        (note,) = engine_notes(engine, "e")
        assert (note.level, "has not run it" in note.text) == ("info", True)
    assert refused({"environment": {"SM_VLLM_API_KEY": "x"}}, "vllm", pool=GPU, image=OWN_IMAGE)


def test_strands_decider_runs_on_gpus_alone() -> None:
    assert refused({}, "strands-decider", image=OWN_IMAGE).path == "e.pool"
