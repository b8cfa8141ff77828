"""The engine's thread, on a context that fails on demand."""

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest

from semif_server.engine.engine import MAX_REQUESTS, Engine
from semif_server.engine.prepare import PreparedRequest
from semif_server.engine.scheduler import Batching
from semif_server.engine.task import RequestOutcome
from semif_server.errors import Code, UnavailableError
from tests.container.engine.contexts import HEAD, RecordingContext, fresh_logits, request

LONG, OTHER = tuple(range(100, 220)), tuple(range(300, 420))
SINGLE = request((LONG, (7, 8)))
SHARED = request((LONG, (7,)), (LONG, (8, 9)), (OTHER, (7,)), (LONG, (7, 7)))
SHORT = request(((), (5, 6)))


def engine_on(
    context: RecordingContext,
    *,
    batching: Batching = "exact",
    deadline_s: float = 30.0,
    max_queue_tokens: int = 10_000,
) -> Engine:
    return Engine(context, HEAD, batching=batching, deadline_s=deadline_s, max_queue_tokens=max_queue_tokens)


@pytest.fixture(params=[True, False], ids=["cutting", "copying"])
def context(request: pytest.FixtureRequest) -> RecordingContext:
    return RecordingContext(can_cut_tail=request.param)


@pytest.fixture
def engine(context: RecordingContext) -> Iterator[Engine]:
    engine = engine_on(context)
    engine.start()
    engine.open()
    yield engine
    context.gate.set()
    engine.abort()
    assert engine.join(10)


def set_speed(engine: Engine, tokens_per_s: float, *, best: float) -> None:
    engine._speed._tokens, engine._speed._seconds = tokens_per_s, 1.0
    engine._speed.best_tokens_per_s = best


def run(engine: Engine, prepared: PreparedRequest) -> RequestOutcome:
    return engine.submit(prepared, time.perf_counter()).future.result(10)


def check(outcome: RequestOutcome, prepared: PreparedRequest) -> None:
    for one, wanted in zip(outcome.decisions, fresh_logits(prepared), strict=True):
        assert all(np.array_equal(got, want) for got, want in zip(one.logits, wanted, strict=True))


def refusal(engine: Engine, prepared: PreparedRequest) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        run(engine, prepared)
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert caught.value.retry_after_s is not None
    assert caught.value.retry_after_s >= 1.0
    return caught.value


def test_the_head_is_decoded_once_and_a_state_is_kept(engine: Engine, context: RecordingContext) -> None:
    assert context.decoded == len(HEAD)
    first, second = run(engine, SINGLE), run(engine, SINGLE)
    check(first, SINGLE)
    check(second, SINGLE)
    assert context.decoded == len(HEAD) + len(LONG) + 2 * 2
    assert [one.decisions[0].cached_tokens for one in (first, second)] == [3, 123]


def test_a_shared_state_is_decoded_once(engine: Engine, context: RecordingContext) -> None:
    result = run(engine, SHARED)
    check(result, SHARED)
    assert context.decoded == len(HEAD) + 2 * len(LONG) + 6
    assert [one.cached_tokens for one in result.decisions] == [3, 123, 3, 123]


def test_second_steps_follow_the_whole_prompt(engine: Engine, context: RecordingContext) -> None:
    prepared = request((LONG, (7,)), (LONG, (8,)), seconds=(20, 21, 22))
    check(run(engine, prepared), prepared)
    assert context.decoded == len(HEAD) + len(LONG) + 2 + 6


def test_another_head_is_decoded_from_the_start(engine: Engine) -> None:
    prepared = request((LONG, (7,)), (LONG, (8,)), head=(9, 9))
    result = run(engine, prepared)
    check(result, prepared)
    assert [one.cached_tokens for one in result.decisions] == [0, 122]


@pytest.mark.parametrize("after_decodes", range(6))
def test_after_a_failure_the_next_answer_is_right(
    engine: Engine, context: RecordingContext, after_decodes: int
) -> None:
    run(engine, SINGLE)

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
    for prepared in (SHARED, SINGLE):
        check(run(engine, prepared), prepared)
    assert engine.is_ready


def test_the_number_of_requests_is_bounded(engine: Engine) -> None:
    held = [engine.permit() for _ in range(MAX_REQUESTS)]
    for permit in held:
        permit.__enter__()
    with pytest.raises(UnavailableError) as caught, engine.permit():
        pass
    assert (caught.value.code, caught.value.status, caught.value.retryable) == (Code.BUSY, 503, True)
    held.pop().__exit__(None, None, None)
    with engine.permit():
        pass
    for permit in held:
        permit.__exit__(None, None, None)
    assert engine.is_idle


def test_the_queue_is_bounded_in_tokens(context: RecordingContext) -> None:
    engine = engine_on(context, max_queue_tokens=200)
    engine.start()
    context.gate.clear()
    waiting = engine.submit(SINGLE, time.perf_counter())
    error = refusal(engine, SHARED)
    assert error.code is Code.BUSY
    assert "122" in error.message
    assert "200" in error.message
    context.gate.set()
    check(waiting.future.result(10), SINGLE)
    assert run(engine, SHARED)  # alone it may be longer than the queue
    engine.abort()
    assert engine.join(10)


def test_what_can_not_be_done_in_time_is_refused_at_once(context: RecordingContext) -> None:
    engine = engine_on(context, deadline_s=1.0)
    engine.start()
    set_speed(engine, 100.0, best=200.0)
    context.gate.clear()
    waiting = [engine.submit(SHORT, time.perf_counter())]
    assert refusal(engine, SINGLE).code is Code.BUSY  # 122 tokens at 100 a second
    waiting.append(engine.submit(SHORT, time.perf_counter()))  # goes first, so it is in time
    context.gate.set()
    for one in waiting:
        check(one.future.result(10), SHORT)
    engine.abort()
    assert engine.join(10)


def test_an_idle_engine_tries_what_its_best_speed_would_do(context: RecordingContext) -> None:
    engine = engine_on(context, deadline_s=1.0)
    engine.start()
    set_speed(engine, 1.0, best=200.0)
    check(run(engine, SINGLE), SINGLE)
    set_speed(engine, 1.0, best=50.0)
    assert refusal(engine, request((OTHER, (7, 8)))).code is Code.BUSY
    engine.abort()
    assert engine.join(10)


def test_what_waits_beyond_its_deadline_is_given_up(context: RecordingContext) -> None:
    engine = engine_on(context, deadline_s=0.05)
    engine.start()
    context.gate.clear()
    running = engine.submit(SINGLE, time.perf_counter())
    late = engine.submit(request((OTHER, (7,))), time.perf_counter())
    time.sleep(0.06)
    context.gate.set()
    for one in (running, late):
        with pytest.raises(UnavailableError):
            one.future.result(10)
    assert context.decoded < len(HEAD) + len(LONG)
    engine.abort()
    assert engine.join(10)


def test_closing_refuses_new_requests_and_finishes_the_others(
    engine: Engine, context: RecordingContext
) -> None:
    context.gate.clear()
    waiting = [engine.submit(SINGLE, time.perf_counter()) for _ in range(3)]
    engine.close()
    assert not engine.is_ready
    with pytest.raises(UnavailableError) as caught, engine.permit():
        pass
    assert caught.value.code is Code.SHUTTING_DOWN
    context.gate.set()
    for one in waiting:
        check(one.future.result(10), SINGLE)
    assert not engine.has_stopped


def test_aborting_answers_the_running_and_the_queued(engine: Engine, context: RecordingContext) -> None:
    context.entered.clear()
    context.gate.clear()
    waiting = [engine.submit(SINGLE, time.perf_counter()) for _ in range(3)]
    assert context.entered.wait(10)
    engine.abort()
    assert context.abort_requested.is_set()
    context.gate.set()
    for one in waiting:
        with pytest.raises(UnavailableError) as caught:
            one.future.result(10)
        assert caught.value.code is Code.SHUTTING_DOWN
    assert engine.join(10)
    assert engine.has_stopped
    assert not engine.has_failed
    assert refusal(engine, SINGLE).code is Code.SHUTTING_DOWN


def test_a_cancelled_request_is_not_evaluated(engine: Engine, context: RecordingContext) -> None:
    context.entered.clear()
    context.gate.clear()
    first = engine.submit(SHORT, time.perf_counter())
    assert context.entered.wait(10)
    second = engine.submit(SINGLE, time.perf_counter())
    second.cancel()
    assert not context.abort_requested.is_set()
    context.gate.set()
    check(first.future.result(10), SHORT)
    with pytest.raises(CancelledError):
        second.future.result(10)
    check(run(engine, SHORT), SHORT)
    assert context.decoded == len(HEAD) + 2 * 2


def test_cancelling_ends_the_decode_that_is_for_nobody_else(
    engine: Engine, context: RecordingContext
) -> None:
    context.entered.clear()
    context.gate.clear()
    one = engine.submit(SINGLE, time.perf_counter())
    assert context.entered.wait(10)
    one.cancel()
    assert context.abort_requested.is_set()
    one.cancel()  # nothing more
    context.gate.set()
    check(run(engine, SINGLE), SINGLE)
    check(run(engine, SHARED), SHARED)


def test_cancelling_spares_a_decode_that_others_share(context: RecordingContext) -> None:
    context = RecordingContext(sequences=9, can_cut_tail=context.can_cut_tail)
    engine = engine_on(context, batching="throughput")
    engine.start()
    context.gate.clear()
    blocker = engine.submit(SHORT, time.perf_counter())
    both = [request(((), (number, 9))) for number in (21, 22)]
    context.entered.clear()
    waiting = [engine.submit(one, time.perf_counter()) for one in both]
    context.gate.set()
    blocker.future.result(10)
    waiting[0].cancel()
    check(waiting[1].future.result(10), both[1])
    engine.abort()
    assert engine.join(10)


def test_a_dead_thread_is_noticed_and_everybody_answered(context: RecordingContext) -> None:
    engine = engine_on(context)
    engine.start()
    context.gate.clear()
    waiting = [engine.submit(SINGLE, time.perf_counter()) for _ in range(2)]
    # the request fails, and so does every attempt to start over
    context.fail_with = [RuntimeError("decode"), RuntimeError("decode again")]
    context.gate.set()
    with pytest.raises(RuntimeError, match="decode"):
        waiting[0].future.result(10)
    with pytest.raises(UnavailableError) as caught:
        waiting[1].future.result(10)
    assert caught.value.code is Code.ENGINE_STOPPED
    assert engine.join(10)
    assert engine.has_failed
    assert not engine.is_ready
    with pytest.raises(UnavailableError), engine.permit():
        pass
    assert refusal(engine, SINGLE).code is Code.ENGINE_STOPPED


def test_a_head_that_can_not_be_decoded_is_a_failed_start(context: RecordingContext) -> None:
    context.fail_with = [RuntimeError("no")]
    engine = engine_on(context)
    engine.start()
    assert engine.has_failed
    assert not engine.is_ready


def test_the_snapshot_counts(engine: Engine, context: RecordingContext) -> None:
    run(engine, SINGLE)
    seen = engine.snapshot()
    assert (seen.waiting_requests, seen.queued_tokens) == (0, 0)
    assert seen.decoded_tokens_total == context.decoded
    assert seen.steps_total == len(context.decodes)
    assert seen.sequences == context.sequences
    assert 2 <= seen.used_sequences <= seen.sequences
    assert seen.tokens_per_s > 0
