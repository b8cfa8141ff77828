"""The scheduler and its cache over random histories, on a context that holds llama.cpp's rules."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semif_server.engine.plan import prompt_row
from semif_server.engine.prefix_cache import Copy, PrefixCache
from semif_server.engine.prepare import PreparedRequest
from semif_server.engine.scheduler import Batching, RequestRun, Scheduler, Step
from tests.container.engine.contexts import HEAD, MICRO_BATCH, RecordingContext, fresh_logits, request

STATES = [
    tuple(range(base, base + length)) for base, length in ((100, 70), (300, 120), (600, 230), (900, 10))
]


@dataclass
class Rig:
    """A scheduler on a recording context, as the engine runs it."""

    sequences: int
    can_cut: bool
    batching: Batching
    work: int | None = None
    answered: list[RequestRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context = RecordingContext(sequences=self.sequences, can_cut_tail=self.can_cut)
        others = self.sequences - 1
        work = others if self.batching == "exact" else max(1, others // 2)
        head = prompt_row(HEAD, (), (), MICRO_BATCH)
        self.cache = PrefixCache(head, sequences=self.sequences, work=self.work or work, can_cut=self.can_cut)
        self.scheduler = Scheduler(self.cache, batching=self.batching, max_step_tokens=MICRO_BATCH)
        self.context.held[self.cache.head_sequence] = [HEAD]

    def add(self, prepared: PreparedRequest) -> RequestRun:
        return self.scheduler.add(prepared, 0.0)

    def step(self) -> Step | None:
        step = self.scheduler.next_step()
        if step is not None:
            for operation in step.operations:
                if isinstance(operation, Copy):
                    self.context.copy(operation.source, operation.target)
                else:
                    self.context.cut(operation.sequence, operation.position)
        return step

    def decode(self, step: Step) -> None:
        from semif_server.llama_batch import Piece  # noqa: PLC0415

        pieces = [Piece(one.sequence, one.position, one.tokens, one.is_last) for one in step.assignments]
        logits = self.context.decode(pieces)
        self.answered += self.scheduler.committed(step, logits, elapsed_s=1.0, now_s=1.0)

    def run(self) -> None:
        while (step := self.step()) is not None:
            self.decode(step)
        assert not self.cache.claims.total()
        assert self.context.tokens(self.cache.head_sequence) == HEAD

    def check(self, run: RequestRun) -> None:
        for one, wanted in zip(run.outcome().decisions, fresh_logits(run.request), strict=True):
            assert len(one.logits) == len(wanted)
            assert all(np.array_equal(got, want) for got, want in zip(one.logits, wanted, strict=True))


rigs = st.builds(
    Rig,
    sequences=st.integers(3, 9),
    can_cut=st.booleans(),
    batching=st.sampled_from(["exact", "throughput"]),
)
tails = st.lists(st.integers(10, 12), min_size=1, max_size=3).map(tuple)
requests = st.builds(
    lambda state, tails, seconds: request(*((state, tail) for tail in tails), seconds=tuple(seconds)),
    st.sampled_from(STATES),
    st.lists(tails, min_size=1, max_size=4),
    st.lists(st.integers(20, 23), max_size=3, unique=True),
)


@settings(max_examples=300)
@given(
    rig=rigs,
    history=st.lists(st.one_of(requests, st.sampled_from(["step", "cancel", "abort"])), max_size=40),
    seed=st.integers(0, 99),
)
def test_every_answer_is_its_fresh_one_whatever_happens(
    rig: Rig, history: list[PreparedRequest | str], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  # a history, no secret
    wanted: list[RequestRun] = []
    for event in history:
        if isinstance(event, PreparedRequest):
            wanted.append(rig.add(event))
            continue
        step = rig.step()
        waiting = [run for run in wanted if run not in rig.answered]
        if event == "cancel" and waiting:  # perhaps in the middle of its own decode
            left = chance.choice(waiting)
            rig.scheduler.remove(left)
            wanted.remove(left)
        if step is not None and event == "abort":
            for sequence in rig.scheduler.failed(step):
                rig.context.held[sequence] = []
        elif step is not None:
            rig.decode(step)
    rig.run()
    assert sorted(run.number for run in rig.answered) == sorted(run.number for run in wanted)
    for run in rig.answered:
        rig.check(run)


def test_with_two_sequences_a_cutting_memory_still_answers() -> None:
    rig = Rig(2, can_cut=True, batching="exact")
    runs = [rig.add(request((state, (7,)), (state, (8,)), seconds=(20, 21))) for state in STATES]
    rig.run()
    assert set(map(id, rig.answered)) == set(map(id, runs))
    for run in runs:
        rig.check(run)


@pytest.mark.parametrize("can_cut", [True, False])
@pytest.mark.parametrize("batching", ["exact", "throughput"])
def test_a_state_is_decoded_once_for_all_that_ask_about_it(*, can_cut: bool, batching: Batching) -> None:
    rig = Rig(7, can_cut=can_cut, batching=batching)
    state = STATES[1]
    for number in range(3):
        rig.add(request(*((state, (number, index)) for index in range(4))))
    rig.run()
    assert rig.context.decoded == len(state) + 3 * 4 * 2
    again = rig.add(request((state, (9, 9))))
    rig.run()
    assert rig.context.decoded == len(state) + 3 * 4 * 2 + 2
    assert again.outcome().decisions[0].cached_tokens == len(HEAD) + len(state)


def test_a_cutting_memory_copies_nothing_for_the_questions_of_a_state() -> None:
    rig = Rig(4, can_cut=True, batching="exact")
    rig.add(request(*((STATES[1], (index,)) for index in range(9))))
    rig.run()
    assert rig.context.copies == 1  # the head


def test_a_longer_state_reuses_the_chunks_it_begins_with() -> None:
    rig = Rig(4, can_cut=True, batching="exact")
    rig.add(request((STATES[2], (7,))))
    rig.run()
    before = rig.context.decoded
    other = (*STATES[2][:120], *range(2000, 2100))
    run = rig.add(request((other, (7,))))
    rig.run()
    rig.check(run)
    assert rig.context.decoded - before == len(other) - 2 * MICRO_BATCH + 1  # boundaries of the plan only


@pytest.mark.parametrize(
    ("can_cut", "batching", "sequences"),
    [(False, "exact", 4), (True, "exact", 3), (True, "throughput", 5), (False, "throughput", 5)],
)
def test_the_least_recently_used_state_goes_first(
    *, can_cut: bool, batching: Batching, sequences: int
) -> None:
    rig = Rig(sequences, can_cut=can_cut, batching=batching)  # room for two states
    first, second, third = (tuple(range(base, base + 100)) for base in (3000, 4000, 5000))
    for state in (first, second, first, third):
        rig.add(request((state, (7,))))
        rig.run()
    kept = [rig.scheduler.remaining_tokens(request((state, (8,)))) for state in (first, second, third)]
    assert kept == [1, 101, 1]


def test_a_short_request_waits_for_one_chunk_of_a_long_one() -> None:
    rig = Rig(4, can_cut=True, batching="exact")
    long = rig.add(request((tuple(range(1000, 3000)), (7,))))
    for _ in range(3):
        step = rig.step()
        assert step is not None
        rig.decode(step)
    short = rig.add(request(((), (9,) * 20)))
    step = rig.step()
    assert step is not None
    assert [one.owner for one in step.assignments] == [short]
    rig.decode(step)
    rig.run()
    assert rig.answered == [short, long]
    rig.check(long)


def test_a_long_request_is_not_starved_by_short_ones() -> None:
    rig = Rig(4, can_cut=True, batching="exact")
    long = rig.add(request((tuple(range(1000, 1400)), (7,))))
    for number in range(400):
        rig.add(request(((), (number,) * 20)))
        step = rig.step()
        assert step is not None
        rig.decode(step)
        if long in rig.answered:
            break
    assert long in rig.answered
    assert len(rig.scheduler) < 40


def test_strangers_share_a_decode_of_neighbouring_sequences() -> None:
    rig = Rig(9, can_cut=True, batching="throughput")
    for number in range(4):
        rig.add(request(((), (number,) * 10)))
    step = rig.step()
    assert step is not None
    assert [one.sequence for one in step.assignments] == [0, 1, 2, 3]
    assert step.tokens == 40
    rig.decode(step)
    assert len(rig.answered) == 4


def test_tokens_ahead_are_those_of_shorter_requests_and_one_chunk() -> None:
    rig = Rig(4, can_cut=True, batching="exact")
    rig.add(request(((), (1,) * 30)))
    rig.add(request((STATES[2], (7,))))
    assert rig.scheduler.queued_tokens() == 30 + 231
    assert rig.scheduler.tokens_ahead(40) == 30 + MICRO_BATCH
    assert rig.scheduler.tokens_ahead(20) == MICRO_BATCH
    assert rig.scheduler.tokens_ahead(300) == 261
