"""How far answers of the throughput mode lie from those of the exact mode, on your own decisions.

    python -m tools.measure_batching DECISIONS.jsonl [--gguf FILE] [--at-once 16] [--threads 2]

Each line of the file is a decision as POST /invocations takes it; a further key `gold` (an option's id) is
left out of the request and adds the share of right answers. The same decisions are evaluated one at a time
in exact mode, then many at once in throughput mode. Printed as JSON: the largest |Δlogit| over the vocabulary
and over the options, the largest |Δp|, and how many decisions have another most probable option.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from semif_server.archive import open_archive
from semif_server.assembly import Assembly, assemble
from semif_server.contract.semif import SemifContract
from semif_server.engine.present import present
from semif_server.engine.task import RequestResult
from semif_server.profile import load_profile
from semif_server.settings import Batching, Settings

DEFAULT_GGUF: Final = Path(".models") / "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True, slots=True)
class Answer:
    """One decision's logits behind the prompt, shape (n_vocab,), and what was read from them."""

    logits: NDArray[np.float32]
    option_logits: tuple[float, ...]
    probabilities: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The most probable option's place."""
        return int(np.argmax(self.probabilities))


@contextmanager
def _assembled(gguf: Path, batching: Batching, threads: int) -> Iterator[Assembly]:
    settings = Settings(gguf_path=gguf, batching=batching, threads=threads, deadline_s=3600)
    archive = open_archive(settings.model_dir, gguf)
    assembly = assemble(settings, archive, load_profile(archive.profile))
    assembly.engine.start()
    assembly.engine.open()
    try:
        yield assembly
    finally:
        assembly.close()


def _answers(assembly: Assembly, decisions: Sequence[dict[str, Any]], at_once: int) -> list[Answer]:
    contract = SemifContract(
        max_options=assembly.encoder.max_options, max_decisions=1, prompt_version="", model={}
    )
    answers = []
    for start in range(0, len(decisions), at_once):
        submitted = []
        for one in decisions[start : start + at_once]:
            prepared = assembly.preparer.prepare(contract.read(json.dumps({"decision": one}).encode()))
            submitted.append((prepared, assembly.engine.submit(prepared, time.perf_counter())))
        for prepared, submission in submitted:
            outcome = submission.future.result()
            result: RequestResult = present(prepared, outcome, 0.0)
            [read] = result.results
            answers.append(Answer(outcome.decisions[0].logits[0], read.option_logits, read.probabilities))
    return answers


def compare(exact: Sequence[Answer], other: Sequence[Answer]) -> dict[str, float | int]:
    """The figures of the numeric contract."""
    pairs = list(zip(exact, other, strict=True))

    def largest(differences: Iterator[NDArray[Any]]) -> float:
        return max(float(np.abs(one).max()) for one in differences)

    return {
        "decisions": len(pairs),
        "largest_logit_difference": largest(one.logits - two.logits for one, two in pairs),
        "largest_option_logit_difference": largest(
            np.subtract(one.option_logits, two.option_logits) for one, two in pairs
        ),
        "largest_probability_difference": largest(
            np.subtract(one.probabilities, two.probabilities) for one, two in pairs
        ),
        "other_choices": sum(one.chosen != two.chosen for one, two in pairs),
        "equal_to_the_bit": sum(bool((one.logits == two.logits).all()) for one, two in pairs),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("decisions", type=Path)
    parser.add_argument("--gguf", type=Path, default=DEFAULT_GGUF)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.decisions.read_text(encoding="utf-8").splitlines()]
    gold = [line.pop("gold", None) for line in lines]
    with _assembled(arguments.gguf, "exact", arguments.threads) as assembly:
        exact = _answers(assembly, lines, 1)
    with _assembled(arguments.gguf, "throughput", arguments.threads) as assembly:
        shared = _answers(assembly, lines, arguments.at_once)
    figures: dict[str, float | int] = compare(exact, shared)
    labelled = [index for index, one in enumerate(gold) if one is not None]
    for name, answers in (("exact", exact), ("throughput", shared)) if labelled else ():
        right = sum(lines[i]["options"][answers[i].chosen]["id"] == gold[i] for i in labelled)
        figures[f"right_{name}"] = right / len(labelled)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
