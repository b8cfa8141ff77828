"""What the GPU benchmark says about a machine, a log and an archive it has not met here."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from bench.gpu import carried, machine, toolkit
from bench.gpu.compare import TOLERANCE, compare
from bench.gpu.measures import percentile
from bench.gpu.prepare import PrepareError, check_source, is_kept, is_used, write_packages
from bench.gpu.probe import said_of_offloading
from bench.gpu.report import Report

LOG = """\
load_tensors: offloading output layer to GPU
load_tensors: offloaded 33/33 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   497.31 MiB
load_tensors:        CUDA0 model buffer size =  2570.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB
llama_memory_recurrent:      CUDA0 RS buffer size =    50.25 MiB
llama_context:      CUDA0 compute buffer size =   505.00 MiB
"""


def test_the_log_says_where_layers_and_buffers_are() -> None:
    said = said_of_offloading(LOG.splitlines())

    assert (said["layers_on_gpu"], said["layers"]) == (33, 33)
    assert said["buffers_mib"]["model"] == {"CPU_Mapped": 497.31, "CUDA0": 2570.0}
    assert said["buffers_mib"]["RS"] == {"CUDA0": 50.25}


def test_a_silent_log_is_no_offloading() -> None:
    assert said_of_offloading([]) == {"layers_on_gpu": 0, "layers": None, "buffers_mib": {}}


@pytest.mark.parametrize(
    ("shift", "within"), [(0.0, True), (0.9 * TOLERANCE, True), (1.1 * TOLERANCE, False), (np.nan, False)]
)
def test_logits_agree_within_the_tolerance(shift: float, within: bool) -> None:
    expected = np.array([[0.0, 1.0, 3.0]], np.float32)
    found = expected.copy()
    found[0, 0] += shift

    assert compare(expected, found)["within"] is within


def test_a_flip_of_near_equals_is_within() -> None:
    expected = np.array([[1.0, 1.01, 0.0]], np.float32)
    result = compare(expected, np.array([[1.01, 1.0, 0.0]], np.float32))

    assert (result["argmax_flips"], result["argmax_flips_beyond_tolerance"], result["within"]) == (1, 0, True)


@pytest.mark.parametrize(
    ("said", "architecture"),
    [("9.0", "90-real"), ("8.9\n8.9", "89-real"), ("12.0", "120a-real"), ("", "native"), ("[N/A]", "native")],
)
def test_the_card_names_its_architecture(
    said: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolkit, "answer_of", lambda *_command: said)

    assert toolkit.card_architecture() == architecture


@pytest.fixture
def packaged_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler alone under its root, and cuBLAS among Python's packages."""
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("")
    for name in (
        "include/cublas_v2.h",
        "include/cuda_runtime.h",
        "lib/libcublas.so.13",
        "lib/libcublasLt.so.13",
    ):
        file = tmp_path / "site" / "nvidia" / "cu13" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    answers = {"-c": str(tmp_path / "site"), "--version": "Cuda compilation tools, release 13.0, V13.0.88"}
    monkeypatch.setenv("CUDACXX", str(nvcc))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(toolkit, "answer_of", lambda *command: answers.get(str(command[1]), ""))
    monkeypatch.setattr(toolkit, "_DRIVER_FOLDERS", (str(tmp_path / "driver"),))
    return tmp_path


def test_cublas_is_found_among_packages(packaged_cuda: Path) -> None:
    found = toolkit.find_toolkit(packaged_cuda / "work")

    library = packaged_cuda / "site" / "nvidia" / "cu13" / "lib"
    assert found.version == "13.0.88"
    assert f"-DCUDA_cublas_LIBRARY={library / 'libcublas.so.13'}" in found.flags
    assert f"-DCUDA_cublasLt_LIBRARY={library / 'libcublasLt.so.13'}" in found.flags
    # Only cuBLAS: the folder's runtime headers may be another version's.
    assert [path.name for path in (packaged_cuda / "work" / "cublas").iterdir()] == ["cublas_v2.h"]
    assert "-DGGML_CUDA_NO_VMM=ON" in found.flags


def test_the_drivers_library_is_linked_where_there_is_no_stub(packaged_cuda: Path) -> None:
    driver = packaged_cuda / "driver" / "libcuda.so.1"
    driver.parent.mkdir()
    driver.write_text("")

    flags = toolkit.find_toolkit(packaged_cuda / "work").flags

    assert f"-DCUDA_cuda_driver_LIBRARY={driver}" in flags
    assert "-DGGML_CUDA_NO_VMM=ON" not in flags


def test_a_machine_without_cublas_is_told(packaged_cuda: Path) -> None:
    (packaged_cuda / "site" / "nvidia" / "cu13" / "include" / "cublas_v2.h").unlink()

    with pytest.raises(toolkit.ToolkitError, match="CUBLAS_MISSING"):
        toolkit.find_toolkit(packaged_cuda / "work")


def test_cards_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "answer_of", lambda *_command: "NVIDIA L40S, 580.1, 46068 MiB")

    assert machine.gpu_facts() == [
        {"name": "NVIDIA L40S", "driver_version": "580.1", "memory.total": "46068 MiB"}
    ]


def test_percentiles_are_values_that_occurred() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], percent) for percent in (50, 95, 100)] == [2.0, 4.0, 4.0]
    assert percentile([5.0], 95) == 5.0


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("CMakeLists.txt", True),
        ("src/llama.cpp", True),
        ("ggml/src/ggml.c", True),
        ("ggml/src/ggml-cuda/mmq.cu", True),
        ("ggml/src/ggml-cpu/arch/x86/quants.c", True),
        ("ggml/src/ggml-vulkan/ggml-vulkan.cpp", False),
        ("vendor/miniaudio/CMakeLists.txt", True),
        ("vendor/miniaudio/miniaudio.h", False),
        ("tools/server/server.cpp", False),
        ("models/ggml-vocab-bert-bge.gguf", False),
    ],
)
def test_of_the_source_the_libraries_are_kept(name: str, kept: bool) -> None:
    assert is_kept(name) is kept


def test_tests_and_headers_of_packages_stay_behind() -> None:
    assert is_used(Path("numpy/_core/multiarray.py"))
    assert not is_used(Path("numpy/_core/tests/test_array.py"))
    assert not is_used(Path("numpy/_core/include/numpy/arrayobject.h"))


def test_another_source_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "llama_cpp_python-0.3.36.tar.gz"
    source.write_bytes(b"not it")

    with pytest.raises(PrepareError, match="SOURCE_NOT_PINNED"):
        check_source(source)


def test_only_this_pythons_packages_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / carried.folder_for(minor) for minor in carried.PYTHON_MINORS]
    for folder in folders:
        folder.mkdir()
        (folder / "module.py").write_text(f"NAME = {folder.name!r}\n")
    packages, source = tmp_path / "packages.tar.xz", tmp_path / "source.tar.xz"
    write_packages(folders, packages)
    with tarfile.open(source, "w:xz") as files:
        files.add(folders[0] / "module.py", f"{carried.BINDINGS}/llama_cpp/__init__.py")
    monkeypatch.setattr(carried, "PACKAGES_ARCHIVE", packages)
    monkeypatch.setattr(carried, "SOURCE_ARCHIVE", source)
    monkeypatch.setattr(carried, "_minor", lambda: 12)

    bindings, unpacked = carried.unpack_packages(tmp_path / "work")

    assert (unpacked / "module.py").read_text() == "NAME = 'cp312'\n"
    assert (bindings / "llama_cpp" / "__init__.py").is_file()
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["bindings", "cp312"]


def test_what_was_not_carried_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "PACKAGES_ARCHIVE", tmp_path / "missing")

    with pytest.raises(carried.CarriedError, match=r"NOT_PREPARED.*prepare\.sh"):
        carried.unpack_packages(tmp_path)


def test_a_report_is_whole_at_any_time(tmp_path: Path) -> None:
    report = Report(tmp_path / "out" / "r.json", command=["x"], limit_s=60)

    def fail() -> None:
        raise ValueError("why")

    assert report.run("first", lambda: 7) == 7
    assert report.run("second", fail) is None
    assert report.failed == ["second"]
    assert '"complete": false' in (tmp_path / "out" / "r.json").read_text()
    assert report.finish() == 1
    assert '"complete": true' in (tmp_path / "out" / "r.json").read_text()


def test_no_part_begins_after_the_end(tmp_path: Path) -> None:
    report = Report(tmp_path / "r.json", command=["x"], limit_s=0)

    assert report.run("late", lambda: 7) is None
    assert "OUT_OF_TIME" in report.parts[0]["error"]
