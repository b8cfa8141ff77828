"""Who is decoded next. Pure: no thread, no clock, no llama.cpp.

Shortest remaining first: the request with the fewest tokens still to decode goes on, so a short decision
waits for one chunk of a long one and not for all of it. A request ages by one token for each token that is
decoded for others since its own last chunk, so a long one is never starved.

exact: a step is one chunk of one row. throughput: a step holds chunks of several rows, up to max_step_tokens,
those of similar length first. No two rows of a step share what they are about to decode: the second finds it
in the cache one step later.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from semif_server.engine.plan import Row
from semif_server.engine.prefix_cache import Copy, Cut, PrefixCache
from semif_server.engine.prepare import PreparedRequest
from semif_server.engine.task import DecisionOutcome, RequestOutcome

Batching = Literal["exact", "throughput"]


@dataclass(slots=True, eq=False)
class RowRun:
    """One row on its way. decoded_tokens: for this row, repetitions included."""

    row: Row
    decision: int
    logits: NDArray[np.float32] | None = None
    decoded_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    finished_s: float = 0.0
    progress: bytes | None = None


@dataclass(slots=True, eq=False)
class RequestRun:
    """One request on its way. number: order of arrival. served_at: token count of all at its last chunk."""

    number: int
    request: PreparedRequest
    deadline_s: float
    rows: list[RowRun]
    served_at: int
    started_s: float | None = None
    claims: set[bytes] = field(default_factory=set)

    @property
    def undone(self) -> Iterator[RowRun]:
        """Its rows without an answer, in order."""
        return (run for run in self.rows if run.logits is None)

    def outcome(self) -> RequestOutcome:
        """What was computed, once no row is undone."""
        grouped: list[list[RowRun]] = [[] for _ in self.request.decisions]
        for run in self.rows:
            grouped[run.decision].append(run)
        return RequestOutcome(tuple(_decision_outcome(runs) for runs in grouped), self.started_s or 0.0)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One chunk of a row, decoded into a sequence."""

    owner: RequestRun
    run: RowRun
    sequence: int
    chunk: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """The chunk's tokens."""
        chunk = self.run.row.chunks[self.chunk]
        return self.run.row.tokens[chunk.start : chunk.stop]

    @property
    def position(self) -> int:
        """Of the chunk's first token."""
        return self.run.row.chunks[self.chunk].start

    @property
    def is_last(self) -> bool:
        """Whether the row's logits come out of it."""
        return self.chunk == len(self.run.row.chunks) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One llama_decode: the operations before it, in order, and its chunks by ascending sequence."""

    operations: tuple[Copy | Cut, ...]
    assignments: tuple[Assignment, ...]

    @property
    def tokens(self) -> int:
        """How many tokens it decodes."""
        return sum(len(one.tokens) for one in self.assignments)


class Scheduler:
    """All requests that were admitted and are not answered."""

    def __init__(self, cache: PrefixCache, *, batching: Batching, max_step_tokens: int) -> None:
        self._cache = cache
        self._batching = batching
        self._max_step_tokens = max_step_tokens
        self._numbers = count()
        self._requests: dict[int, RequestRun] = {}
        self._decoded_tokens = 0
        self._pending: list[Copy] = []  # keep a new prefix before anything else is done

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def requests(self) -> tuple[RequestRun, ...]:
        """In order of arrival."""
        return tuple(self._requests.values())

    def add(self, request: PreparedRequest, deadline_s: float) -> RequestRun:
        """Take a request in. deadline_s: whatever clock the caller reads; only kept."""
        rows = [RowRun(row, index) for index, one in enumerate(request.decisions) for row in one.rows]
        run = RequestRun(next(self._numbers), request, deadline_s, rows, self._decoded_tokens)
        self._requests[run.number] = run
        return run

    def remove(self, run: RequestRun) -> None:
        """Forget a request; what was decoded of it stays in the cache while it can."""
        if self._requests.pop(run.number, None) is not None:
            self._claim(run, set())

    def remaining_tokens(self, request: PreparedRequest) -> int:
        """Tokens that a request would decode, given what is cached now."""
        return self._remaining([row for one in request.decisions for row in one.rows])

    def tokens_ahead(self, own_tokens: int) -> int:
        """Tokens that are decoded before a request of own_tokens is done, if nothing else arrives."""
        remaining = [self._remaining_of(run) for run in self._requests.values()]
        shorter = sum(one for one in remaining if one <= own_tokens)
        return shorter + max(
            (min(one, self._max_step_tokens) for one in remaining if one > own_tokens), default=0
        )

    def queued_tokens(self) -> int:
        """Tokens still to decode for all requests."""
        return sum(self._remaining_of(run) for run in self._requests.values())

    def next_step(self) -> Step | None:
        """What to decode now; None if nothing is to do. Call committed or failed before the next."""
        ranked = sorted(self._requests.values(), key=self._rank)
        if not ranked:
            return None
        operations: list[Copy | Cut] = [*self._pending]
        self._pending.clear()
        first = self._first_assignment(ranked, operations)
        assignments = [first]
        if self._batching == "throughput":
            assignments += self._fill(ranked, first, operations)
        assignments.sort(key=lambda one: one.sequence)
        return Step(tuple(operations), tuple(assignments))

    def committed(
        self, step: Step, logits: list[NDArray[np.float32] | None], *, elapsed_s: float, now_s: float
    ) -> list[RequestRun]:
        """Enter that a step was decoded; gives the requests that are done, which are removed."""
        self._decoded_tokens += step.tokens
        for one, row_logits in zip(step.assignments, logits, strict=True):
            share_s = elapsed_s * len(one.tokens) / step.tokens
            self._enter(one, row_logits, share_s, now_s)
        # Whoever was removed meanwhile must not claim anything any more.
        touched = {
            one.owner.number: one.owner for one in step.assignments if one.owner.number in self._requests
        }
        for owner in touched.values():
            owner.served_at = self._decoded_tokens
            if owner.started_s is None:
                owner.started_s = now_s - elapsed_s
            self._claim(owner, _claims_of(owner))
        done = [owner for owner in touched.values() if next(owner.undone, None) is None]
        for owner in done:
            self.remove(owner)
        return done

    def reset(self) -> None:
        """Enter that all sequences were emptied and the head was decoded anew."""
        self._pending.clear()
        self._cache.reset()

    def failed(self, step: Step) -> tuple[int, ...]:
        """Enter that a step was not decoded; gives the sequences that must be emptied."""
        sequences = tuple(one.sequence for one in step.assignments)
        for sequence in sequences:
            self._cache.forget(sequence)
        return sequences

    def _enter(
        self, one: Assignment, logits: NDArray[np.float32] | None, share_s: float, now_s: float
    ) -> None:
        run = one.run
        copy = self._cache.advance(one.sequence, run.row)
        if copy is not None:
            self._pending.append(copy)
        run.decoded_tokens += len(one.tokens)
        if run.row.chunks[one.chunk].stop <= run.row.durable_end:
            run.prefill_s += share_s
        else:
            run.decode_s += share_s
        run.progress = run.row.keys[one.chunk]
        if one.is_last:
            run.logits, run.finished_s = logits, now_s

    def _first_assignment(self, ranked: list[RequestRun], operations: list[Copy | Cut]) -> Assignment:
        for owner in ranked:
            if (placed := self._assign(owner, next(owner.undone), set(), operations)) is not None:
                return placed
            # Everything is claimed. A request that is at least twice as long gives way to this one.
            longest = max(ranked, key=self._remaining_of)
            if self._remaining_of(longest) >= 2 * self._remaining_of(owner):
                self._claim(longest, set())
                if (placed := self._assign(owner, next(owner.undone), set(), operations)) is not None:
                    return placed
        for owner in ranked:
            self._claim(owner, set())
        placed = self._assign(ranked[0], next(ranked[0].undone), set(), operations)
        if placed is None:
            raise RuntimeError("no sequence can be placed although none is claimed")
        return placed

    def _fill(
        self, ranked: list[RequestRun], first: Assignment, operations: list[Copy | Cut]
    ) -> list[Assignment]:
        """More chunks for the first one's decode: of similar length first, then by rank."""
        room = self._max_step_tokens - len(first.tokens)
        keys = {first.run.row.keys[first.chunk]}
        busy = {first.sequence}
        candidates: list[tuple[int, int, RequestRun, RowRun]] = []
        for owner in ranked:
            for run in owner.undone:
                if run is not first.run:
                    chunk = run.row.chunks[self._cache.boundaries(run.row)]
                    candidates.append(
                        (abs(chunk.stop - chunk.start - len(first.tokens)), len(candidates), owner, run)
                    )
        added = []
        for _, _, owner, run in sorted(candidates, key=lambda one: one[:2]):
            chunk_index = self._cache.boundaries(run.row)
            chunk = run.row.chunks[chunk_index]
            key = run.row.keys[chunk_index]
            if key in keys or chunk.stop - chunk.start > room:
                continue
            placed = self._assign(owner, run, busy, operations)
            if placed is None:
                break
            keys.add(run.row.keys[placed.chunk])
            busy.add(placed.sequence)
            room -= len(placed.tokens)
            added.append(placed)
        return added

    def _assign(
        self, owner: RequestRun, run: RowRun, busy: set[int], operations: list[Copy | Cut]
    ) -> Assignment | None:
        placement = self._cache.place(run.row, busy=busy, own=owner.claims)
        if placement is None:
            return None
        operations.extend(placement.operations)
        return Assignment(owner, run, placement.sequence, placement.boundaries)

    def _rank(self, run: RequestRun) -> tuple[int, int]:
        aged_tokens = self._decoded_tokens - run.served_at
        return self._remaining_of(run) - aged_tokens, run.number

    def _remaining_of(self, run: RequestRun) -> int:
        return self._remaining([one.row for one in run.undone])

    def _remaining(self, rows: list[Row]) -> int:
        if not rows:
            return 0
        first = len(rows[0].tokens) - self._cache.cached_tokens(rows[0])
        return first + sum(len(row.tokens) - row.own_start for row in rows[1:])

    def _claim(self, run: RequestRun, claims: set[bytes]) -> None:
        self._cache.claims.subtract(run.claims)
        self._cache.claims.update(claims)
        run.claims = claims


def _claims_of(owner: RequestRun) -> set[bytes]:
    """The prefixes that an unfinished request goes on from: progress of its rows, and what they share."""
    claims: set[bytes] = set()
    for run in owner.undone:
        if run.progress is not None:
            claims.add(run.progress)
    held = {run.progress for run in owner.rows} - {None}
    if held:
        for run in owner.undone:
            claims.update(_shared_key(run.row))
    return claims


def _shared_key(row: Row) -> tuple[bytes, ...]:
    """The key of the part that a row shares with others of its request, if that has a boundary."""
    return tuple(
        key
        for chunk, key in zip(row.chunks, row.keys, strict=True)
        if chunk.stop == row.own_start and row.own_start in {row.durable_end, row.chunks[-1].start}
    )


def _decision_outcome(runs: list[RowRun]) -> DecisionOutcome:
    prompt = runs[0]
    logits = tuple(run.logits for run in runs if run.logits is not None)
    return DecisionOutcome(
        logits=logits,
        cached_tokens=max(0, len(prompt.row.tokens) - prompt.decoded_tokens),
        prefill_s=sum(run.prefill_s for run in runs),
        decode_s=sum(run.decode_s for run in runs),
        finished_s=max(run.finished_s for run in runs),
    )
