"""The sides of a comparison, all of them running at once and asked in turns."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.child import LineChild
from bench.peers import llama_server, peers_python
from bench.rows import MODES, Mode
from bench.servers import CalloServer, SemifServer
from bench.workload import one_decision, words_for
from tools.setup import ROOT


@dataclass(frozen=True)
class Sides:
    """This server in both modes, raw llama.cpp, and the peers that were asked for."""

    semif: Mapping[Mode, SemifServer]
    raw: LineChild
    fastjev: LineChild | None
    callo: CalloServer | None

    def words_for_new_tokens(self, tokens: int) -> int:
        """How many words of state give a decision so many tokens behind the head."""

        def count(words: int) -> int:
            request = {"op": "encode", "decisions": [one_decision(10_000, words).as_semif()]}
            counts = self.raw.ask(request)
            return int(counts["state"] + counts["tail"])

        return words_for(tokens, count)


@contextmanager
def sides(
    folder: Path, gguf: Path, *, peers: bool, settings: Mapping[str, str] | None = None
) -> Iterator[Sides]:
    """Start them, and end them at the end. settings: SEMIF_* variables of this server."""
    with ExitStack() as stack:
        path = f"{ROOT / 'container'}:{ROOT}"
        raw_command: list[str | Path] = [sys.executable, "-m", "bench.raw_child", gguf]
        raw = stack.enter_context(LineChild(raw_command, folder / "raw.log", PYTHONPATH=path))
        semif = {
            mode: stack.enter_context(SemifServer(folder, gguf, mode, **(settings or {}))) for mode in MODES
        }
        fastjev = callo = None
        if peers:
            python = peers_python()
            command = [python, ROOT / "bench" / "fastjev_child.py", gguf]
            fastjev = stack.enter_context(LineChild(command, folder / "fastjev.log"))
            callo = stack.enter_context(CalloServer(folder, gguf, python, llama_server()))
        yield Sides(semif, raw, fastjev, callo)


def interleaved(
    measures: Mapping[str, Callable[[int], Any]], repetitions: int, say: Callable[[str], None]
) -> dict[str, list[Any]]:
    """Call every measure once per repetition, each time beginning with another one.

    A measure is given the number of the repetition. Drift of the machine so meets all sides alike.
    """
    names = list(measures)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for repetition in range(repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(measures[name](repetition))
        say(f"repetition {repetition + 1} of {repetitions}")
    return found
