"""The one thread that owns the llama.cpp context, and the door to it.

Under one lock: the scheduler with its cache, and who waits for which answer. llama.cpp runs outside it, so
requests come and go while it decodes.
"""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semif_server.engine.context import Context
from semif_server.engine.plan import prompt_row
from semif_server.engine.prefix_cache import Copy, Cut, PrefixCache
from semif_server.engine.prepare import PreparedRequest
from semif_server.engine.scheduler import Batching, RequestRun, Scheduler, Step
from semif_server.engine.speed import Speed
from semif_server.engine.task import RequestOutcome
from semif_server.errors import (
    RequestError,
    busy,
    deadline_exceeded,
    engine_stopped,
    queue_full,
    shutting_down,
    too_many_requests,
)
from semif_server.llama import DecodeError
from semif_server.llama_batch import Piece

MAX_REQUESTS: Final = 1024  # that hold a permit; their bodies and prompts are in memory
_ABORTED: Final = 2  # llama_decode's status
_MAX_RETRY_AFTER_S: Final = 60.0

_log = logging.getLogger("semif_server.engine")


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The engine at one moment. Totals count from the start; tokens_per_s is a moving average."""

    waiting_requests: int
    queued_tokens: int
    tokens_per_s: float
    sequences: int
    used_sequences: int
    steps_total: int
    decoded_tokens_total: int


@dataclass(frozen=True, slots=True)
class Submission:
    """A request in the engine's hands; its future ends with CancelledError when it is given up."""

    future: "Future[RequestOutcome]"
    run: RequestRun
    engine: "Engine"

    def cancel(self) -> None:
        """Leave the queue; a decode for this request alone is ended early. Nothing if it was answered."""
        self.engine.cancel(self)


class Engine:
    """Evaluates requests. head: the tokens before every state, decoded once and kept.

    deadline_s: seconds from a request's arrival after which nobody waits for its answer.
    max_queue_tokens: tokens still to decode beyond which nothing is taken in.
    """

    def __init__(
        self,
        context: Context,
        head: tuple[int, ...],
        *,
        batching: Batching,
        deadline_s: float,
        max_queue_tokens: int,
    ) -> None:
        self._context = context
        self._head = prompt_row(head, (), (), context.micro_batch)
        others = context.sequences - 1
        self._cache = PrefixCache(
            self._head,
            sequences=context.sequences,
            work=others if batching == "exact" else max(1, others // 2),
            can_cut=context.can_cut_tail,
        )
        self._scheduler = Scheduler(self._cache, batching=batching, max_step_tokens=context.micro_batch)
        self._deadline_s = deadline_s
        self._max_queue_tokens = max_queue_tokens
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._changed = threading.Condition()
        self._futures: dict[RequestRun, Future[RequestOutcome]] = {}
        self._running: Step | None = None
        self._permits = 0
        self._speed = Speed()
        self._head_decoded = threading.Event()
        self._open = False
        self._closing = threading.Event()
        self._aborting = threading.Event()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread and wait until the head is decoded."""
        self._thread.start()
        while not self._head_decoded.wait(0.005):
            if self._stopped.is_set():
                return

    def open(self) -> None:
        """Begin to be ready: the warm-up is over, and with it the slow first decodes."""
        with self._changed:
            self._speed.forget_slow_start()
        self._open = True

    @property
    def is_ready(self) -> bool:
        """Whether requests are served: open, not told to stop, thread alive."""
        return self._open and not self._closing.is_set() and not self._stopped.is_set()

    @property
    def is_closing(self) -> bool:
        """Whether it was told to stop."""
        return self._closing.is_set()

    @property
    def has_stopped(self) -> bool:
        """Whether the thread has ended."""
        return self._stopped.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether the thread has ended without having been asked to: this process is of no more use."""
        return self._stopped.is_set() and not self._aborting.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether no request holds a permit."""
        return self._permits == 0

    def snapshot(self) -> EngineSnapshot:
        """The figures of this moment."""
        with self._changed:
            return EngineSnapshot(
                waiting_requests=len(self._scheduler),
                queued_tokens=self._scheduler.queued_tokens(),
                tokens_per_s=self._speed.tokens_per_s,
                sequences=self._context.sequences,
                used_sequences=self._cache.used_sequences,
                steps_total=self._speed.decodes_total,
                decoded_tokens_total=self._speed.tokens_total,
            )

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Room for one request until its answer is written. Raises UnavailableError when there is none."""
        with self._changed:
            self._refuse_if_stopping()
            if self._permits >= MAX_REQUESTS:
                raise too_many_requests(MAX_REQUESTS)
            self._permits += 1
        try:
            yield
        finally:
            with self._changed:
                self._permits -= 1

    def submit(self, request: PreparedRequest, arrived_s: float) -> Submission:
        """Queue a request; arrived_s is its time.perf_counter().

        Raises UnavailableError at once when the queue is full or the deadline could not be kept.
        """
        future: Future[RequestOutcome] = Future()
        future.set_running_or_notify_cancel()  # so that only the engine ends it
        with self._changed:
            if self._stopped.is_set():
                raise self._refusal()
            if self._aborting.is_set():
                raise shutting_down()
            self._admit(request, arrived_s)
            run = self._scheduler.add(request, arrived_s + self._deadline_s)
            self._futures[run] = future
            self._changed.notify()
        return Submission(future, run, self)

    def cancel(self, submission: Submission) -> None:
        """See Submission.cancel."""
        with self._changed:
            future = self._futures.pop(submission.run, None)
            if future is None:
                return
            self._scheduler.remove(submission.run)
            if self._running is not None and not any(
                one.owner in self._futures for one in self._running.assignments
            ):
                self._context.request_abort()
        future.set_exception(CancelledError())

    def close(self) -> None:
        """Refuse new requests; what holds a permit goes on."""
        self._closing.set()

    def abort(self) -> None:
        """Answer everything with shutting_down; a running decode is ended early where llama.cpp can."""
        with self._changed:
            self._closing.set()
            self._aborting.set()
            if self._running is not None:
                self._context.request_abort()
            self._changed.notify()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the thread to end after abort; False if it did not in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _refuse_if_stopping(self) -> None:
        if self._closing.is_set():
            raise shutting_down()
        if self._stopped.is_set():
            raise engine_stopped()

    def _refusal(self) -> RequestError:
        return shutting_down() if self._closing.is_set() else engine_stopped()

    def _admit(self, request: PreparedRequest, arrived_s: float) -> None:
        """Refuse what the queue has no room for, or what could not be answered in time.

        With nothing else to do, only what the best speed seen would not do in time is refused: a speed that
        was measured on a bad day must get its chance to be measured again.
        """
        own_tokens = self._scheduler.remaining_tokens(request)
        queued_tokens = self._scheduler.queued_tokens()
        speed = self._speed.tokens_per_s if queued_tokens else self._speed.best_tokens_per_s
        if queued_tokens and queued_tokens + own_tokens > self._max_queue_tokens:
            raise queue_full(queued_tokens, self._max_queue_tokens, _retry_after_s(queued_tokens / speed))
        wait_s = (self._scheduler.tokens_ahead(own_tokens) + own_tokens) / speed
        late_s = wait_s - (self._deadline_s - (time.perf_counter() - arrived_s))
        if late_s > 0:
            raise busy(wait_s, self._deadline_s, _retry_after_s(late_s))

    def _run(self) -> None:
        try:
            self._decode_head()
            self._head_decoded.set()
            while self._serve_step():
                pass
        except BaseException:
            _log.critical("the engine thread has ended", exc_info=True)
        finally:
            with self._changed:
                self._stopped.set()
                waiting = list(self._futures.values())
                self._futures.clear()
            for future in waiting:
                future.set_exception(self._refusal())

    def _serve_step(self) -> bool:
        """One decode, once there is something to decode; False when told to end."""
        with self._changed:
            while not self._aborting.is_set() and not len(self._scheduler):
                self._changed.wait()
            if self._aborting.is_set():
                return False
            expired = self._expired()
            step = self._scheduler.next_step()
            self._running = step
            self._context.allow_decodes()
        for future in expired:
            future.set_exception(deadline_exceeded(self._deadline_s))
        if step is not None:
            self._decode_step(step)
        return True

    def _expired(self) -> list["Future[RequestOutcome]"]:
        now_s = time.perf_counter()
        late = [run for run in self._scheduler.requests if run.deadline_s <= now_s]
        for run in late:
            self._scheduler.remove(run)
        return [self._futures.pop(run) for run in late]

    def _decode_step(self, step: Step) -> None:
        started_s = time.perf_counter()
        try:
            logits = self._evaluate(step)
        except Exception as error:
            was_aborted = isinstance(error, DecodeError) and error.status == _ABORTED
            self._fail_step(step, None if was_aborted else error)
            return
        ended_s = time.perf_counter()
        with self._changed:
            self._running = None
            self._speed.measure(step.tokens, ended_s - started_s)
            done = self._scheduler.committed(step, logits, elapsed_s=ended_s - started_s, now_s=ended_s)
            answered = [(self._futures.pop(run), run) for run in done]
        for future, run in answered:
            future.set_result(run.outcome())

    def _evaluate(self, step: Step) -> list[NDArray[np.float32] | None]:
        for operation in step.operations:
            match operation:
                case Copy(source, target):
                    self._context.copy(source, target)
                case Cut(sequence, position):
                    self._context.cut(sequence, position)
        return self._context.decode(
            [Piece(one.sequence, one.position, one.tokens, one.is_last) for one in step.assignments]
        )

    def _fail_step(self, step: Step, error: Exception | None) -> None:
        """A step that was ended early leaves its sequences undefined; one that failed, everything."""
        with self._changed:
            self._running = None
            if error is None:
                for sequence in self._scheduler.failed(step):
                    self._context.clear(sequence)
                return
            owners = {one.owner for one in step.assignments}
            futures = [self._futures.pop(owner) for owner in owners if owner in self._futures]
            for owner in owners:
                self._scheduler.remove(owner)
            self._scheduler.reset()
        for future in futures:
            future.set_exception(error)
        self._context.clear_all()
        self._decode_head()

    def _decode_head(self) -> None:
        sequence = self._cache.head_sequence
        for chunk in self._head.chunks:
            started_s = time.perf_counter()
            tokens = self._head.tokens[chunk.start : chunk.stop]
            self._context.allow_decodes()
            self._context.decode([Piece(sequence, chunk.start, tokens, want_logits=False)])
            with self._changed:
                self._speed.measure(len(tokens), time.perf_counter() - started_s)


def _retry_after_s(seconds: float) -> float:
    return min(max(1.0, seconds), _MAX_RETRY_AFTER_S)
