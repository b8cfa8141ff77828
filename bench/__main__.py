"""`make bench`: measure, then write bench/results.json and the table of docs/benchmark.md.

python -m bench [--only fresh,short,shared,callers,behind,overhead,start]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import facts, report
from bench.measure_fresh import measure_long, measure_short
from bench.measure_serving import measure_behind, measure_callers, measure_overhead, measure_start
from bench.measure_shared import measure_shared
from bench.peers import llama_server, peers_python
from bench.rows import GROUPS, Measured
from tools.setup import MODEL_FILE, MODELS, ROOT, SetupError

RESULTS: Final = ROOT / "bench" / "results.json"
DOCUMENT: Final = ROOT / "docs" / "benchmark.md"
_MEASURES: Final[Mapping[str, Callable[[Path, Path, Callable[[str], None]], list[Measured]]]] = {
    "fresh": measure_long,
    "short": measure_short,
    "shared": measure_shared,
    "callers": measure_callers,
    "behind": measure_behind,
    "overhead": measure_overhead,
    "start": measure_start,
}
_WITH_PEERS: Final = frozenset({"short", "shared"})


def _groups(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {unknown[0]!r}: choose from {','.join(GROUPS)}")
    return [name for name in GROUPS if name in chosen]


def write(measured: Sequence[Measured], run: Mapping[str, str]) -> None:
    """Merge into both files. Raises ValueError if the document has lost its markers."""
    results = report.merge(report.read_results(RESULTS), measured, run)
    document = report.replace_table(DOCUMENT.read_text(encoding="utf-8"), report.table(results))
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    DOCUMENT.write_text(document, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Measure the chosen parts; gives the exit code: 1 when a target is not met."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", type=_groups, default=list(GROUPS), help="parts, with commas between")
    chosen: list[str] = parser.parse_args(arguments).only
    run = facts.gather(arguments)
    begun_s = time.monotonic()

    def say(text: str) -> None:
        print(f"bench: {time.monotonic() - begun_s:5.0f} s: {text}", flush=True)

    try:
        if _WITH_PEERS & set(chosen):
            peers_python()
            llama_server()
    except SetupError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    missed = 0
    for name in chosen:
        say(f"{name} begins")
        with tempfile.TemporaryDirectory() as folder:
            measured = _MEASURES[name](Path(folder), MODELS / MODEL_FILE, say)
        write(measured, run)
        for one in measured:
            missed += one.verdict == "not met"
            value = f"{report.shown(one.value)} {one.row.unit}"
            say(f"{one.row_id}, {one.mode}: {value}: {one.verdict}; {one.note}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
