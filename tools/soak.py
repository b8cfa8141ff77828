"""Long runs against the real server: no answer of another request, no fault, no growth.

    python -m tools.soak [--mixed 20000] [--fuzzed 10000] [--throughput 5000] [--model 300] [--seed 1]

mixed, throughput: random requests over marker decisions on the tiny hybrid model, with clients that leave and
bodies that are wrong; every answer is compared with the decision's fresh one, to the bit in exact mode.
fuzzed: bodies that no client should send. model: mixed requests on SmolLM2-135M. 0 leaves a part out.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.make_tiny_hybrid import write_tiny_hybrid
from tools.server_process import ServerProcess
from tools.soak_cases import Decision, RequestMix, make_decisions
from tools.soak_run import Figures, SoakError, fresh_results, run_fuzz, run_mix

MODEL: Final = Path(__file__).parents[1] / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MAX_GROWTH: Final = 0.02
_MARKERS: Final = 150
CONTEXT_TOKENS: Final = 8192
_MODEL_MARKERS: Final = 24
_FEWEST_SEQUENCES: Final = 3
_FUZZED_VALID: Final = {
    "decisions": [
        {
            "id": f"{number}",
            "state": {"text": "a state", "list": [1, 2.5, None, True]},
            "question": "Which one?",
            "options": [{"id": "a", "description": "one"}, {"id": "b", "description": "two"}],
        }
        for number in range(2)
    ]
}


@contextmanager
def _server(folder: Path, gguf: Path, **settings: str) -> Iterator[ServerProcess]:
    server = ServerProcess(folder / "server.log", SEMIF_GGUF_PATH=str(gguf), **settings)
    try:
        yield server
    finally:
        server.stop()


def soak_mixed(gguf: Path, requests: int, seed: int, *, batching: str, sequences: int) -> Figures:
    """Mixed requests on the tiny hybrid."""
    decisions = make_decisions(seed, _MARKERS, max_state_chars=400, max_options=30)
    return _soak_mix(
        gguf, requests, RequestMix(seed, decisions), decisions, batching=batching, sequences=sequences
    )


def soak_model(requests: int, seed: int, *, markers: int = _MODEL_MARKERS) -> Figures:
    """Mixed requests on the 135M model."""
    decisions = make_decisions(seed, markers, max_state_chars=400, max_options=8)
    mix = RequestMix(seed, decisions, longest_stay_s=0.5)
    return _soak_mix(MODEL, requests, mix, decisions, batching="exact", sequences=5)


def _soak_mix(
    gguf: Path,
    requests: int,
    mix: RequestMix,
    decisions: Sequence[Decision],
    *,
    batching: str,
    sequences: int,
) -> Figures:
    common = {"SEMIF_MAX_REQUEST_TOKENS": "65536", "SEMIF_DEADLINE_S": "600", "SEMIF_MAX_TOKENS": "8192"}
    with tempfile.TemporaryDirectory() as folder:
        with _server(Path(folder), gguf, SEMIF_SEQUENCES=str(_FEWEST_SEQUENCES), **common) as server:
            fresh = fresh_results(server, decisions)
        settings = {"SEMIF_BATCHING": batching, "SEMIF_SEQUENCES": str(sequences), **common}
        with _server(Path(folder), gguf, **settings) as server:
            return run_mix(server, mix, fresh, requests, exact=batching == "exact")


def soak_fuzzed(gguf: Path, requests: int, seed: int) -> Figures:
    """Fuzzed bodies on the tiny hybrid."""
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder), gguf) as server:
        return run_fuzz(server, _FUZZED_VALID, requests, seed)


def _report(name: str, run: Callable[[], Figures]) -> bool:
    begun_s = time.monotonic()
    try:
        figures = run()
    except SoakError as error:
        print(f"{name}: FAILED after {time.monotonic() - begun_s:.0f} s: {error}", flush=True)
        return False
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(figures.statuses.items()))
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(figures.kinds.items()))
    grown = figures.growth > MAX_GROWTH
    facts = [
        f"{figures.requests} requests in {time.monotonic() - begun_s:.0f} s",
        f"{figures.compared} answers compared, 0 mix-ups",
        f"statuses {statuses}",
        *([kinds] if kinds else []),
        f"memory {figures.growth:+.2%}{' TOO MUCH' if grown else ''}",
    ]
    print(f"{name}: {'; '.join(facts)}", flush=True)
    return not grown


def main() -> int:
    """Command line; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    for name, count in (("mixed", 20_000), ("fuzzed", 10_000), ("throughput", 5000), ("model", 300)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tiny = write_tiny_hybrid(Path(folder) / "tiny-hybrid.gguf", context_tokens=CONTEXT_TOKENS)
        parts: dict[str, Callable[[], Figures]] = {
            "mixed": lambda: soak_mixed(tiny, given.mixed, given.seed, batching="exact", sequences=6),
            "fuzzed": lambda: soak_fuzzed(tiny, given.fuzzed, given.seed),
            "throughput": lambda: soak_mixed(
                tiny, given.throughput, given.seed, batching="throughput", sequences=9
            ),
            "model": lambda: soak_model(given.model, given.seed),
        }
        passed = [_report(name, run) for name, run in parts.items() if vars(given)[name]]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
