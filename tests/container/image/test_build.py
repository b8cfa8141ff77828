"""Child images, built for real on stand-ins of AWS's container."""

import hashlib
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.container.image.conftest import Built, build, tag_of
from tests.container.serving import PASSWORD_RESET
from tests.standins.images import StandIns
from tests.standins.running import DOCKER_MANIFEST, running, serve_command
from tests.standins.storage import ImageError, digest_of

SAGEMAKER = {"AWS_REGION": "us-east-1", "SAGEMAKER_SAFE_PORT_RANGE": "8081-8999"}
MAX_ADDED_BYTES = 80_000_000


@pytest.fixture
def model_folder(tmp_path: Path, tiny_hybrid_gguf: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(tiny_hybrid_gguf.read_bytes())
    return folder


def components(image: Built) -> dict[str, Any]:
    bom = json.loads((image.root / "opt/semif/sbom.cdx.json").read_bytes())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    return {component["name"]: component for component in bom["components"]}


def test_the_build_ends_with_the_self_test(gpu_image: Built) -> None:
    [said] = [line for line in gpu_image.log.splitlines() if line.startswith("selftest: ")]

    assert "llama-cpp-python 0.3.36 and libllama.so" in said
    assert re.search(r"of ggml \d+\.\d+\.\d+ \(commit 0c1e570", said)


def test_the_image_has_the_form_and_the_size_that_are_asked_for(gpu_image: Built) -> None:
    assert gpu_image.saved.manifest["mediaType"] == DOCKER_MANIFEST
    # Not even compressed.
    assert gpu_image.saved.added_bytes(gpu_image.base)[0] <= MAX_ADDED_BYTES


def test_nothing_but_opt_semif_is_added(gpu_image: Built) -> None:
    known = set(gpu_image.base.config["rootfs"]["diff_ids"])
    layers = zip(gpu_image.saved.layers(), gpu_image.saved.config["rootfs"]["diff_ids"], strict=True)
    added: dict[str, int] = {}
    for path, diff_id in layers:
        if diff_id not in known:
            with tarfile.open(path) as archive:
                added |= {file.name.strip("/"): file.size for file in archive if not file.isdir()}

    # buildah leaves an empty file where it mounted the machine's own during a step.
    for stub in ("etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/pip.conf"):
        assert added.pop(stub, 0) == 0
    assert [name for name in added if not name.startswith("opt/semif/")] == []
    packages = {path.name for path in (gpu_image.root / "opt/semif/site").iterdir()}
    assert {"llama_cpp", "numpy", "fastapi"} <= packages
    assert not packages & {"torch", "transformers", "pip", "cyclonedx", "scikit_build_core", "diskcache"}
    assert not (gpu_image.root / "opt/semif/python").exists()


def test_all_bytecode_is_there_so_that_a_read_only_root_costs_no_time(gpu_image: Built) -> None:
    without = [
        source
        for source in (gpu_image.root / "opt/semif").rglob("*.py")
        if not list((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc"))
    ]

    assert without == []


def test_the_bill_of_materials_names_the_base_the_library_and_the_packages(
    gpu_image: Built, stand_in_images: StandIns
) -> None:
    found = components(gpu_image)

    name, digest = stand_in_images.base.split("@")
    assert found[name]["version"] == digest
    libllama = (gpu_image.root / "opt/llama.cpp/bin/libllama.so").read_bytes()
    assert found["libllama.so"]["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(libllama).hexdigest()}
    ]
    assert found["llama_cpp_python"]["version"] == "0.3.36"
    assert found["numpy"]["purl"].startswith("pkg:pypi/numpy@2.")
    assert "python" not in found


def test_layers_on_a_gpu_without_a_cuda_backend_refuse_the_start(
    gpu_image: Built, model_folder: Path
) -> None:
    command = serve_command(
        gpu_image.saved,
        gpu_image.root,
        model=model_folder,
        environment={**SAGEMAKER, "SEMIF_N_GPU_LAYERS": "-1"},
    )
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 2
    assert "SEMIF_N_GPU_LAYERS=-1: llama.cpp has no GPU backend with a device here" in ended.stderr
    assert "use the GPU image" in ended.stderr


def test_a_base_without_python_gets_its_interpreter_and_decides_read_only(
    image_with_interpreter: Built, model_folder: Path
) -> None:
    image = image_with_interpreter
    assert "probe: the base image has no Python >= 3.11" in image.log
    assert components(image)["python"]["description"].startswith("copied from standin.invalid/python@sha256:")

    with running(image.saved, image.root, model=model_folder, environment=SAGEMAKER) as server:
        server.wait_for_ping()
        status, answer = server.request("/invocations", {"decision": PASSWORD_RESET})
        ready = next(json.loads(line) for line in server.output.read_text().splitlines() if '"ready"' in line)

    assert (status, answer["result"]["option_ids"]) == (200, ["account_access", "billing"])
    assert ready["llama_cpp_python"] == "0.3.36"
    assert ready["llama_cpp"].startswith("ggml ")
    assert ready["libllama"].startswith("/opt/llama.cpp/bin/libllama.so")
    assert server.process.returncode == 0


def test_bindings_of_another_release_fail_the_build_and_both_versions_are_named(
    stand_in_images: StandIns,
) -> None:
    """The CPU pin fits AWS's CPU container; the stand-in's libllama is younger and its structs differ."""
    with pytest.raises(ImageError) as failed:
        build("mismatch", "Dockerfile", stand_in_images.base, stand_in_images.python)

    [said] = [line for line in str(failed.value).splitlines() if line.startswith("error: ")]
    assert "IMAGE_SELFTEST_FAILED: llama-cpp-python 0.3.35 and libllama.so" in said
    assert "of ggml " in said
    assert "llama_model_default_params.main_gpu is 1, not 0" in said
    assert "BINDINGS" in said
    with pytest.raises(ImageError):
        digest_of(tag_of("mismatch"))
