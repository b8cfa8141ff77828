"""The GPU benchmark end to end, at the small shape and on the CPU (docs/gpu-benchmark.md)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from bench.gpu.run import LENGTHS_TOKENS, LIBRARY_VARIABLE, parse

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = Path(llama_cpp.__path__[0]) / "lib"


def bench(work: Path, *arguments: str, library: Path = LIBRARY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "bench" / "gpu" / "run.sh", "--work", work, "--out", work / "gpu.json", *arguments],
        env={**os.environ, "PYTHON": sys.executable, LIBRARY_VARIABLE: str(library)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    work = tmp_path_factory.mktemp("gpu")
    done = bench(work, "--tiny", "--cpu", "--quick", "--own-packages")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads((work / "gpu.json").read_text())
    return document


def test_all_parts_end_well(result: dict[str, Any]) -> None:
    outcomes = {part["part"]: part["outcome"] for part in result["parts"]}

    assert outcomes.pop("layers on the GPU") == "skipped"
    assert set(outcomes.values()) == {"ok"}
    assert (result["complete"], result["failed"]) == (True, [])


def test_every_length_has_every_measure(result: dict[str, Any]) -> None:
    rows = [(row["wanted_tokens"], row["measure"]) for row in result["measures"]]

    assert rows == [
        (tokens, measure) for tokens in LENGTHS_TOKENS for measure in ("fresh", "later", "shared", "callers")
    ]


def test_prompts_have_the_wanted_length(result: dict[str, Any]) -> None:
    for row in result["measures"]:
        questions = row.get("questions", 1)
        assert row["input_tokens"] / questions == pytest.approx(row["wanted_tokens"], rel=0.1)


def test_only_new_tokens_are_counted(result: dict[str, Any]) -> None:
    head_tokens = result["facts"]["ready"]["head_tokens"]
    rows = {(row["wanted_tokens"], row["measure"]): row for row in result["measures"]}

    for tokens in LENGTHS_TOKENS:
        fresh, later = rows[tokens, "fresh"], rows[tokens, "later"]
        assert fresh["input_tokens"] - fresh["new_tokens"] == head_tokens
        if tokens > LENGTHS_TOKENS[0]:
            # The state is cached then, whole.
            assert later["new_tokens"] < 100 < fresh["new_tokens"]
    assert all(row["refused"] == 0 for row in result["measures"] if row["measure"] == "callers")


def test_the_result_stands_beside_the_published_figures(result: dict[str, Any]) -> None:
    assert (result["published"]["p50_s"], result["published"]["p95_s"]) == (0.352, 0.599)
    assert result["facts"]["agreement"]["within"]
    assert result["facts"]["ready"]["batching"] == "throughput"


def test_a_part_that_fails_is_named(tmp_path: Path) -> None:
    done = bench(tmp_path, "--tiny", "--cpu", "--quick", "--own-packages", library=tmp_path)
    document = json.loads((tmp_path / "gpu.json").read_text())

    assert done.returncode == 1
    assert (document["complete"], document["failed"]) == (True, ["build"])
    assert "LIBRARY_MISSING" in next(part["error"] for part in document["parts"] if part["part"] == "build")


def test_results_go_where_the_environment_says(tmp_path: Path) -> None:
    assert parse([], {"OUT": str(tmp_path)}).out == tmp_path / "gpu.json"
    assert parse([], {}).out == ROOT / "build" / "gpu-bench" / "gpu.json"
