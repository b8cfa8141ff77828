"""Stand-ins of llama.LlamaContext that hold llama.cpp's rules, and requests for them."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from semif_server.encoding import EncodedPrompt
from semif_server.engine.plan import prompt_row
from semif_server.engine.prepare import PreparedDecision, PreparedRequest
from semif_server.engine.task import DecisionTask
from semif_server.llama import DecodeError
from semif_server.llama_batch import Piece

HEAD = (1, 2, 3)
MICRO_BATCH = 50
VOCABULARY = 32


class RecordingContext:
    """Keeps the tokens of each sequence and answers with logits that depend on all of them and on their cuts.

    Like llama.cpp, it refuses a position that does not follow, a cut of a memory that has none and a decode
    beyond its batch, copies whole sequences only, and leaves a mess behind a failure.
    """

    micro_batch = MICRO_BATCH

    def __init__(self, *, sequences: int = 4, can_cut_tail: bool = True) -> None:
        self.sequences = sequences
        self.can_cut_tail = can_cut_tail
        self.held: dict[int, list[tuple[int, ...]]] = {}
        self.decoded = 0
        self.decodes: list[list[Piece]] = []
        self.copies = 0
        self.fail_with: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.abort_requested = threading.Event()

    def tokens(self, sequence: int) -> tuple[int, ...]:
        return tuple(token for chunk in self.held.get(sequence, []) for token in chunk)

    def decode(self, pieces: Sequence[Piece]) -> list[NDArray[np.float32] | None]:
        self.entered.set()
        assert self.gate.wait(10)
        assert 0 < sum(len(piece.tokens) for piece in pieces) <= MICRO_BATCH
        numbers = [piece.sequence for piece in pieces]
        assert numbers == sorted(set(numbers)), "distinct and ascending"
        assert set(numbers) < set(range(self.sequences))
        for piece in pieces:
            assert piece.position == len(self.tokens(piece.sequence)), "a gap, or tokens of another request"
            self.held.setdefault(piece.sequence, []).append(tuple(piece.tokens))
        self.decoded += sum(len(piece.tokens) for piece in pieces)
        self.decodes.append(list(pieces))
        if self.abort_requested.is_set():
            raise DecodeError(2)
        if self.fail_with:
            raise self.fail_with.pop(0)
        return [logits_of(self.held[one.sequence]) if one.want_logits else None for one in pieces]

    def copy(self, source: int, target: int) -> None:
        assert source != target
        self.held[target] = list(self.held[source])
        self.copies += 1

    def cut(self, sequence: int, position: int) -> None:
        assert position == 0 or self.can_cut_tail
        kept: list[tuple[int, ...]] = []
        for chunk in self.held.get(sequence, []):
            if sum(map(len, kept)) == position:
                break
            kept.append(chunk)
        assert sum(map(len, kept)) == position, "not a boundary"
        self.held[sequence] = kept

    def clear(self, sequence: int) -> None:
        self.cut(sequence, 0)

    def clear_all(self) -> None:
        self.held.clear()

    def request_abort(self) -> None:
        self.abort_requested.set()

    def allow_decodes(self) -> None:
        self.abort_requested.clear()


def logits_of(chunks: Sequence[tuple[int, ...]]) -> NDArray[np.float32]:
    seed = [number for chunk in chunks for number in (len(chunk), *chunk)]
    return np.random.default_rng(seed).standard_normal(VOCABULARY).astype(np.float32)


def fresh_logits(prepared: PreparedRequest) -> list[list[NDArray[np.float32]]]:
    """What each row of each decision must give, whatever was cached or running."""
    return [
        [logits_of([row.tokens[chunk.start : chunk.stop] for chunk in row.chunks]) for row in one.rows]
        for one in prepared.decisions
    ]


def request(
    *states_and_tails: tuple[tuple[int, ...], tuple[int, ...]],
    head: tuple[int, ...] = HEAD,
    seconds: tuple[int, ...] = (),
) -> PreparedRequest:
    """One decision per state and tail; seconds: the first tokens whose second step is wanted."""
    decisions = []
    for index, (state, tail) in enumerate(states_and_tails):
        prompt = EncodedPrompt(head, state, tail, "sha")
        row = prompt_row(head, state, tail, MICRO_BATCH)
        rows = (row, *(row.with_token(token) for token in seconds))
        codes = tuple((token, token) for token in seconds) or ((4,), (5,))
        task = DecisionTask(str(index), "{}", "q", ("a", "b"), ("x", "y"))
        decisions.append(PreparedDecision(task, prompt, rows, codes))
    return PreparedRequest(tuple(decisions), len(decisions) > 1, 0)
