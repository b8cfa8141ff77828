"""The GPU benchmark: build, write the models, check, measure (docs/gpu-benchmark.md). Standard library only.

    bench/gpu/run.sh [--out results.json] [--cpu] [--tiny] ...

Exit code 0: all parts ended well; 1: some part failed, and the result file names it; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.gpu import build, carried
from bench.gpu.machine import gpu_facts, machine_facts
from bench.gpu.measures import Effort, Meter
from bench.gpu.report import Report
from bench.gpu.server import Server, running
from bench.gpu.toolkit import card_architecture

LENGTHS_TOKENS: Final = (150, 600, 1500, 4000)
LIBRARY_VARIABLE: Final = "LLAMA_CPP_LIB_PATH"

# What each part may take; the whole run's limit comes on top.
_BUILD_S: Final = 340.0
_WRITE_S: Final = 120.0
_PROBE_S: Final = 90.0
_START_S: Final = 90.0
_RESERVE_S: Final = 20.0
_MEASURES: Final = 4 * len(LENGTHS_TOKENS)

_SETTINGS: Final = {
    "SEMIF_BATCHING": "throughput",
    "SEMIF_MAX_TOKENS": "6144",
    "SEMIF_MAX_REQUEST_TOKENS": "131072",
    "SEMIF_MAX_BODY_BYTES": "4194304",  # 21 times a state of 4,000 words
}


class BenchError(Exception):
    """A check did not hold, or a program of the benchmark failed."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line. cpu: no GPU is used. tiny: the small shape. quick: few repetitions."""

    work: Path
    out: Path
    cpu: bool
    tiny: bool
    quick: bool
    own_packages: bool
    limit_s: float
    jobs: int


class Bench:
    """One run. Each part gives its result to the next; a part that fails ends what needs it, no more."""

    def __init__(self, options: Options, report: Report) -> None:
        self._options = options
        self._report = report
        self._environment: dict[str, str] = {}
        self._threads = len(os.sched_getaffinity(0))

    def run(self) -> int:
        """All parts; the exit code."""
        report = self._report
        report.facts = {**machine_facts(), "models": {}, "settings": self._settings()}
        folders = report.run("packages", self._packages)
        if folders is None:
            return report.finish()
        self._environment = {"PYTHONPATH": carried.search_path(*folders), "OMP_WAIT_POLICY": "passive"}
        with ExitStack() as cleanup:
            # The disk is idle while the compilers run.
            writer = self._start_writer()
            cleanup.callback(_end, writer)
            if report.run("build", self._build) is None:
                return report.finish()
            model = report.run("model", lambda: self._written(writer))
            report.run("agreement", self._agreement)
            if model is not None:
                self._with_model(model)
        return report.finish()

    def _with_model(self, model: Path) -> None:
        if self._options.cpu:
            self._report.skip("layers on the GPU", "--cpu")
        else:
            self._report.run("layers on the GPU", lambda: self._offloaded(model))
        self._report.run("serving", lambda: self._serve(model))

    def _packages(self) -> list[Path]:
        if self._options.own_packages:
            return []
        return carried.unpack_packages(self._options.work)

    def _build(self) -> Path:
        given = os.environ.get(LIBRARY_VARIABLE)
        if given:
            library = Path(given)
            if not (library / build.LIBRARY).is_file():
                raise BenchError(f"LIBRARY_MISSING: {LIBRARY_VARIABLE}={given} has no {build.LIBRARY}")
            self._report.facts["build"] = f"none: {LIBRARY_VARIABLE}={given}"
        else:
            built = build.build_library(
                carried.unpack_source(self._options.work),
                self._options.work / ("build-cpu" if self._options.cpu else "build-cuda"),
                architecture=None if self._options.cpu else card_architecture(),
                jobs=self._options.jobs,
                limit_s=min(_BUILD_S, self._report.remaining_s()),
            )
            library = built.library_folder
            self._report.facts["build"] = {
                "flags": built.flags,
                "configure_s": built.configure_s,
                "compile_s": built.compile_s,
                "jobs": self._options.jobs,
            }
        self._environment[LIBRARY_VARIABLE] = str(library)
        return library

    def _start_writer(self) -> subprocess.Popen[str]:
        self._options.work.mkdir(parents=True, exist_ok=True)
        command = ["-m", "bench.gpu.writer", str(self._model_path)]
        return subprocess.Popen(
            [sys.executable, *command, *(["--tiny"] if self._options.tiny else [])],
            env={**os.environ, **self._environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def _model_path(self) -> Path:
        return self._options.work / ("tiny-q4_k_m.gguf" if self._options.tiny else "qwen3.5-4b-q4_k_m.gguf")

    def _written(self, writer: subprocess.Popen[str]) -> Path:
        said, _ = writer.communicate(timeout=min(_WRITE_S, self._report.remaining_s()))
        if writer.returncode != 0:
            raise BenchError(f"MODEL_NOT_WRITTEN: {said[-2000:]}")
        self._report.facts["models"]["measured"] = said.strip()
        return self._model_path

    def _agreement(self) -> dict[str, Any]:
        """The tiny hybrid's logits on CPU and GPU; with --cpu, with and without flash attention."""
        work = self._options.work
        model = work / "tiny-hybrid.gguf"
        self._program("tools.make_tiny_hybrid", str(model))
        other = ["--no-flash-attention"] if self._options.cpu else ["--gpu-layers", "-1"]
        expected, found = work / "expected.npy", work / "found.npy"
        self._probe(model, expected, "--gpu-layers", "0")
        facts = self._probe(model, found, *other)
        if not self._options.cpu and facts["layers_on_gpu"] == 0:
            raise BenchError("NOT_ON_GPU: the tiny hybrid was not loaded onto the GPU")
        result = self._program("bench.gpu.compare", str(expected), str(found))
        self._report.facts["agreement"] = {"second_run": other, **result}
        if not result["within"]:
            raise BenchError(
                f"LOGITS_DIFFER: by {result['largest_difference']}, tolerance {result['tolerance']}"
            )
        return result

    def _offloaded(self, model: Path) -> dict[str, Any]:
        """All layers are on the GPU, and so are the caches of both kinds."""
        facts = self._probe(model, self._options.work / "model.npy", "--gpu-layers", "-1")
        self._report.facts["layers_on_gpu"] = facts
        if not facts["finite"]:
            raise BenchError("LOGITS_NOT_FINITE: the model computes values that are no numbers")
        if not facts["layers"] or facts["layers_on_gpu"] != facts["layers"]:
            raise BenchError(f"LAYERS_ON_CPU: {facts['layers_on_gpu']} of {facts['layers']} are on the GPU")
        for kind in ("KV", "RS"):
            on_cpu = [device for device in facts["buffers_mib"].get(kind, {}) if device.startswith("CPU")]
            if on_cpu:
                raise BenchError(f"CACHE_ON_CPU: buffers of kind {kind} lie in {on_cpu}")
        return facts

    def _serve(self, model: Path) -> bool:
        log = self._options.work / "server.log"
        start_s = min(_START_S, self._report.remaining_s())
        with running(model, log, self._environment, self._settings(), start_s=start_s) as server:
            self._report.facts["ready"] = dict(server.ready)
            gpu_layers = server.ready.get("gpu_layers")
            if not self._options.cpu and gpu_layers in (0, None):
                raise BenchError(f"SERVER_ON_CPU: the start-up line says gpu_layers={gpu_layers}")
            for tokens in LENGTHS_TOKENS:
                self._report.run(f"{tokens} tokens", functools.partial(self._measure, server, tokens))
            self._report.facts["gpus_after"] = gpu_facts()
        return True

    def _measure(self, server: Server, tokens: int) -> bool:
        rows = self._report.measures
        meter = Meter(server, tokens=tokens, seed=tokens, effort=self._effort())
        try:
            rows.append(meter.fresh())
            fresh = rows[-1]
            for measure in (meter.later, lambda: meter.shared(fresh["p50_s"]), lambda: meter.callers(fresh)):
                self._report.write()
                rows.append(measure())
                if self._report.remaining_s() <= 0:
                    raise BenchError("OUT_OF_TIME: the measures at this length are not complete")
        finally:
            meter.close()
        return True

    def _effort(self) -> Effort:
        if self._options.quick:
            return Effort(seconds=0.2, least=2, most=4)
        share_s = (self._report.remaining_s() - _RESERVE_S) / _MEASURES
        return Effort(seconds=min(8.0, max(0.5, share_s)), least=3, most=200)

    def _settings(self) -> dict[str, str]:
        return {**_SETTINGS, "SEMIF_N_GPU_LAYERS": "0" if self._options.cpu else "-1"}

    def _probe(self, model: Path, logits: Path, *arguments: str) -> dict[str, Any]:
        threads = ("--threads", str(self._threads))
        return self._program("bench.gpu.probe", str(model), str(logits), *threads, *arguments)

    def _program(self, module: str, *arguments: str) -> dict[str, Any]:
        """Run a module of ours; gives the JSON of its last line, if it is JSON."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=max(1.0, min(_PROBE_S, self._report.remaining_s())),
        )
        if done.returncode != 0:
            raise BenchError(f"PROGRAM_FAILED: {module} ended with {done.returncode}: {done.stderr[-2000:]}")
        last = done.stdout.strip().rpartition("\n")[2]
        result: dict[str, Any] = json.loads(last) if last.startswith("{") else {}
        return result


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """The command line as options. environment: OUT names a folder for the result file."""
    parser = argparse.ArgumentParser(prog="bench/gpu/run.sh", description="The GPU benchmark.")
    work = carried.ROOT / "build" / "gpu-bench"
    out = Path(environment["OUT"]) / "gpu.json" if environment.get("OUT") else work / "gpu.json"
    parser.add_argument("--work", type=Path, default=work, help="folder for the build and the models")
    parser.add_argument("--out", type=Path, default=out, help="the result file")
    parser.add_argument("--cpu", action="store_true", help="use no GPU: proves the benchmark, not the speed")
    parser.add_argument("--tiny", action="store_true", help="measure the small shape")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--own-packages", action="store_true", help="take this Python's own packages")
    parser.add_argument("--limit-s", type=float, default=570.0, help="seconds for the whole run")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at once")
    chosen = parser.parse_args(arguments)
    return Options(**{**vars(chosen), "work": chosen.work.resolve(), "out": chosen.out.resolve()})


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parse(given, os.environ)
    report = Report(options.out, command=["bench/gpu/run.sh", *given], limit_s=options.limit_s)
    code = Bench(options, report).run()
    print(f"bench: {options.out}; failed: {', '.join(report.failed) or 'nothing'}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
