"""The engine's thread, on a context that fails on demand."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import pytest
from numpy.typing import NDArray

from semif_server.encoding import EncodedPrompt
from semif_server.engine.engine import QUEUE_LIMIT_REQUESTS, Engine
from semif_server.engine.plan import plan_chunks
from semif_server.engine.prepare import PreparedDecision, PreparedRequest
from semif_server.engine.task import DecisionTask, RequestResult
from semif_server.errors import Code, UnavailableError

HEAD = (1, 2, 3)
MICRO_BATCH = 50


class RecordingContext:
    """Keeps the tokens of each sequence and answers with logits that depend on all of them.

    Like llama.cpp, it refuses a position that doesn't follow, and leaves a mess behind a failure.
    """

    micro_batch = MICRO_BATCH

    def __init__(self) -> None:
        self.sequences: dict[int, list[int]] = {}
        self.decoded = 0
        self.fail_with: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()

    def decode(
        self, sequence: int, position: int, tokens: tuple[int, ...], *, want_logits: bool
    ) -> NDArray[np.float32] | None:
        assert self.gate.wait(10)
        held = self.sequences.setdefault(sequence, [])
        assert position == len(held), "a gap, or tokens of another request"
        assert 0 < len(tokens) <= MICRO_BATCH
        held += tokens
        self.decoded += len(tokens)
        if self.fail_with:
            raise self.fail_with.pop(0)
        return logits_of(tuple(held)) if want_logits else None

    def copy(self, source: int, target: int) -> None:
        self.sequences[target] = list(self.sequences[source])

    def clear(self, sequence: int) -> None:
        self.sequences.pop(sequence, None)

    def clear_all(self) -> None:
        self.sequences.clear()


def logits_of(tokens: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(tokens).standard_normal(32).astype(np.float32)


def request(
    *states_and_tails: tuple[tuple[int, ...], tuple[int, ...]], head: tuple[int, ...] = HEAD
) -> PreparedRequest:
    decisions = []
    for index, (state, tail) in enumerate(states_and_tails):
        prompt = EncodedPrompt(head, state, tail, "sha")
        plan = plan_chunks(len(head), len(state), len(tail), MICRO_BATCH)
        task = DecisionTask(str(index), "{}", "q", ("a", "b"), ("x", "y"))
        decisions.append(PreparedDecision(task, prompt, prompt.tokens, plan, (4, 5)))
    return PreparedRequest(tuple(decisions), len(decisions) > 1, 0)


def run(engine: Engine, prepared: PreparedRequest) -> RequestResult:
    return engine.submit(prepared, time.perf_counter()).result(10)


def expected(prepared: PreparedRequest) -> list[tuple[float, ...]]:
    return [tuple(logits_of(one.tokens)[[4, 5]].tolist()) for one in prepared.decisions]


def logits(result: RequestResult) -> list[tuple[float, ...]]:
    return [one.option_logits for one in result.results]


LONG, OTHER = tuple(range(100, 220)), tuple(range(300, 420))
SINGLE = request((LONG, (7, 8)))
SHARED = request((LONG, (7,)), (LONG, (8, 9)), (OTHER, (7,)), (LONG, (7, 7)))


@pytest.fixture
def context() -> RecordingContext:
    return RecordingContext()


@pytest.fixture
def engine(context: RecordingContext) -> Iterator[Engine]:
    engine = Engine(context, HEAD)
    engine.start()
    yield engine
    context.gate.set()
    engine.abort()
    assert engine.join(10)


def test_the_head_is_decoded_once_and_copied(engine: Engine, context: RecordingContext) -> None:
    assert context.decoded == len(HEAD)
    for _ in range(2):
        result = run(engine, SINGLE)
        assert logits(result) == expected(SINGLE)
        assert result.timing is None
    assert context.decoded == len(HEAD) + 2 * (len(LONG) + 2)
    assert context.sequences[0] == list(HEAD)


def test_a_shared_state_is_decoded_once(engine: Engine, context: RecordingContext) -> None:
    prepared = request((LONG, (7,)), (LONG, (8, 9)), (LONG, (7, 7)))
    before = context.decoded
    result = run(engine, prepared)
    assert logits(result) == expected(prepared)
    assert context.decoded - before == len(LONG) + 5
    assert [one.cached_tokens for one in result.results] == [3, 123, 123]


def test_a_state_that_is_not_equal_in_tokens_is_not_shared(engine: Engine) -> None:
    result = run(engine, SHARED)
    assert logits(result) == expected(SHARED)
    assert [one.cached_tokens for one in result.results] == [3, 123, 3, 3]


def test_another_head_is_decoded_from_the_start(engine: Engine) -> None:
    prepared = request((LONG, (7,)), (LONG, (8,)), head=(9, 9))
    result = run(engine, prepared)
    assert logits(result) == expected(prepared)
    assert [one.cached_tokens for one in result.results] == [0, 122]


@pytest.mark.parametrize("after_decodes", range(6))
def test_after_a_failure_the_next_answer_is_right(
    engine: Engine, context: RecordingContext, after_decodes: int
) -> None:
    run(engine, SHARED)

    class Fuse(list[BaseException]):
        def __init__(self) -> None:
            super().__init__([RuntimeError("decode")])
            self.left = after_decodes

        def __bool__(self) -> bool:
            self.left -= 1
            return self.left < 0 and len(self) > 0

    context.fail_with = Fuse()
    with pytest.raises(RuntimeError, match="decode"):
        run(engine, SHARED)
    assert logits(run(engine, SHARED)) == expected(SHARED)
    assert logits(run(engine, SINGLE)) == expected(SINGLE)
    assert engine.is_ready


def test_the_queue_is_bounded(engine: Engine) -> None:
    held = [engine.permit() for _ in range(QUEUE_LIMIT_REQUESTS)]
    for permit in held:
        permit.__enter__()
    with pytest.raises(UnavailableError) as caught, engine.permit():
        pass
    error = caught.value
    assert (error.code, error.status, error.retryable, error.retry_after_s) == (Code.BUSY, 503, True, 1.0)
    held.pop().__exit__(None, None, None)
    with engine.permit():
        pass
    for permit in held:
        permit.__exit__(None, None, None)
    assert engine.is_idle


def test_closing_refuses_new_requests_and_finishes_the_others(
    engine: Engine, context: RecordingContext
) -> None:
    context.gate.clear()
    futures = [engine.submit(SINGLE, 0.0) for _ in range(3)]
    engine.close()
    assert not engine.is_ready
    with pytest.raises(UnavailableError) as caught, engine.permit():
        pass
    assert caught.value.code is Code.SHUTTING_DOWN
    context.gate.set()
    for future in futures:
        assert logits(future.result(10)) == expected(SINGLE)
    assert not engine.has_stopped


def test_aborting_answers_the_running_and_the_queued(engine: Engine, context: RecordingContext) -> None:
    context.gate.clear()
    futures = [engine.submit(SINGLE, 0.0) for _ in range(3)]
    engine.abort()
    context.gate.set()
    for future in futures:
        with pytest.raises(UnavailableError) as caught:
            future.result(10)
        assert caught.value.code is Code.SHUTTING_DOWN
    assert engine.join(10)
    assert engine.has_stopped
    assert not engine.has_failed


def test_a_cancelled_request_is_not_evaluated(engine: Engine, context: RecordingContext) -> None:
    context.gate.clear()
    first: Future[RequestResult] = engine.submit(SINGLE, 0.0)
    second: Future[RequestResult] = engine.submit(SINGLE, 0.0)
    assert second.cancel()
    context.gate.set()
    first.result(10)
    assert logits(run(engine, SINGLE)) == expected(SINGLE)
    assert context.decoded == len(HEAD) + 2 * (len(LONG) + 2)


def test_a_dead_thread_is_noticed_and_everybody_answered(context: RecordingContext) -> None:
    engine = Engine(context, HEAD)
    engine.start()
    context.gate.clear()
    futures = [engine.submit(SINGLE, 0.0) for _ in range(2)]
    # the request fails, and so does every attempt to start over
    context.fail_with = [RuntimeError("decode"), RuntimeError("decode again")]
    context.gate.set()
    with pytest.raises(RuntimeError, match="decode"):
        futures[0].result(10)
    with pytest.raises(UnavailableError) as caught:
        futures[1].result(10)
    assert caught.value.code is Code.ENGINE_STOPPED
    assert engine.join(10)
    assert engine.has_failed
    assert not engine.is_ready
    with pytest.raises(UnavailableError), engine.permit():
        pass
    with pytest.raises(UnavailableError) as caught:
        run(engine, SINGLE)
    assert caught.value.code is Code.ENGINE_STOPPED


def test_a_head_that_can_not_be_decoded_is_a_failed_start(context: RecordingContext) -> None:
    context.fail_with = [RuntimeError("no")]
    engine = Engine(context, HEAD)
    engine.start()
    assert engine.has_failed
    assert not engine.is_ready
