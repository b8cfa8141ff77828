"""The one thread that owns the llama.cpp context."""

import logging
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from semif_server.engine.plan import plan_chunks
from semif_server.engine.prepare import PreparedDecision, PreparedRequest
from semif_server.engine.task import DecisionResult, RequestResult, SharedTiming
from semif_server.errors import UnavailableError, busy, engine_stopped, shutting_down
from semif_server.readout import read_options

QUEUE_LIMIT_REQUESTS: Final = 64
_HEAD, _STATE, _WORK = 0, 1, 2  # sequence ids

_log = logging.getLogger("semif_server.engine")


class Context(Protocol):
    """What the engine needs of llama.LlamaContext."""

    micro_batch: int

    def decode(
        self, sequence: int, position: int, tokens: tuple[int, ...], *, want_logits: bool
    ) -> NDArray[np.float32] | None:
        """Evaluate tokens of one sequence; the last one's logits if wanted."""

    def copy(self, source: int, target: int) -> None:
        """Make target a copy of source."""

    def clear(self, sequence: int) -> None:
        """Empty one sequence."""

    def clear_all(self) -> None:
        """Empty all sequences."""


@dataclass(frozen=True, slots=True)
class _Job:
    request: PreparedRequest
    arrived_s: float
    future: "Future[RequestResult]"


class Engine:
    """Evaluates requests one after the other, in order of arrival.

    head: the tokens before every state, decoded once and kept.
    """

    def __init__(self, context: Context, head: tuple[int, ...]) -> None:
        self._context = context
        self._head = head
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._lock = threading.Lock()
        self._in_flight = 0
        self._ready = threading.Event()
        self._closing = threading.Event()
        self._aborting = threading.Event()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread and wait until the head is decoded."""
        self._thread.start()
        while not self._ready.wait(0.05):
            if self._stopped.is_set():
                return

    @property
    def is_ready(self) -> bool:
        """Whether requests are served: started, not told to stop, thread alive."""
        return self._ready.is_set() and not self._closing.is_set() and not self._stopped.is_set()

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
        return self._in_flight == 0

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Room for one request until its answer is written. Raises UnavailableError when there is none."""
        with self._lock:
            if self._closing.is_set():
                raise shutting_down()
            if self._stopped.is_set():
                raise engine_stopped()
            if self._in_flight >= QUEUE_LIMIT_REQUESTS:
                raise busy(QUEUE_LIMIT_REQUESTS)
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def submit(self, request: PreparedRequest, arrived_s: float) -> "Future[RequestResult]":
        """Queue a request; arrived_s is its time.perf_counter(). Needs a permit."""
        future: Future[RequestResult] = Future()
        self._queue.put(_Job(request, arrived_s, future))
        if self._stopped.is_set():  # it may have ended between the permit and the queue
            self._refuse_queued()
        return future

    def close(self) -> None:
        """Refuse new requests; what holds a permit goes on."""
        self._closing.set()

    def abort(self) -> None:
        """Answer everything with shutting_down; a running decode ends at its next chunk."""
        self._closing.set()
        self._aborting.set()
        self._queue.put(None)

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the thread to end after abort; False if it did not in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._decode_head()
            self._ready.set()
            while (job := self._queue.get()) is not None:
                self._serve(job)
        except BaseException:
            _log.critical("the engine thread has ended", exc_info=True)
        finally:
            self._stopped.set()
            self._refuse_queued()

    def _refuse_queued(self) -> None:
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(self._refusal())

    def _refusal(self) -> UnavailableError:
        return shutting_down() if self._closing.is_set() else engine_stopped()

    def _serve(self, job: _Job) -> None:
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            result = self._evaluate(job)
        except UnavailableError as refusal:
            job.future.set_exception(refusal)
        except Exception as error:
            # Whatever failed may have left tokens behind. The next request must not see them.
            job.future.set_exception(error)
            self._context.clear_all()
            self._decode_head()
        except BaseException:
            job.future.set_exception(engine_stopped())
            raise
        else:
            job.future.set_result(result)

    def _decode_head(self) -> None:
        for chunk in plan_chunks(len(self._head), 0, 0, self._context.micro_batch).chunks:
            self._context.decode(_HEAD, chunk.start, self._head[chunk.start : chunk.stop], want_logits=False)

    def _evaluate(self, job: _Job) -> RequestResult:
        decisions = job.request.decisions
        share = len(decisions) > 1
        held: tuple[int, ...] | None = None  # the prefix in the state sequence
        prefill_s = suffix_s = 0.0
        results = []
        for decision in decisions:
            started_s = time.perf_counter()
            plan = decision.plan
            if share and plan.prefix_end > plan.head_end:
                cached = plan.prefix_end
                if held != decision.prefix:
                    cached = self._begin(_STATE, decision)
                    self._decode(_STATE, decision, cached, plan.prefix_end)
                    held = decision.prefix
                prefilled_s = time.perf_counter()
                self._context.copy(_STATE, _WORK)
                logits = self._decode(_WORK, decision, plan.prefix_end, len(decision.tokens))
            else:
                prefilled_s = started_s
                cached = self._begin(_WORK, decision)
                logits = self._decode(_WORK, decision, cached, len(decision.tokens))
            ended_s = time.perf_counter()
            prefill_s += prefilled_s - started_s
            suffix_s += ended_s - prefilled_s
            results.append(_result(decision, logits, cached, ended_s - started_s, ended_s - job.arrived_s))
        if not job.request.shared:
            return RequestResult(tuple(results), None)
        first = decisions[0].plan
        prefix_tokens = first.prefix_end if held is not None else first.head_end
        total_s = time.perf_counter() - job.arrived_s
        return RequestResult(
            tuple(results), SharedTiming(len(decisions), prefix_tokens, prefill_s, suffix_s, total_s)
        )

    def _begin(self, sequence: int, decision: PreparedDecision) -> int:
        """Put the head into a sequence if this prompt begins with it; gives the tokens it holds then."""
        if decision.prompt.head == self._head:
            self._context.copy(_HEAD, sequence)
            return len(self._head)
        self._context.clear(sequence)
        return 0

    def _decode(
        self, sequence: int, decision: PreparedDecision, start: int, stop: int
    ) -> NDArray[np.float32] | None:
        """Decode the plan's chunks of [start, stop); the last token's logits if that ends the prompt."""
        logits = None
        for chunk in decision.plan.chunks_between(start, stop):
            if self._aborting.is_set():
                raise shutting_down()
            tokens = decision.tokens[chunk.start : chunk.stop]
            is_last = chunk.stop == len(decision.tokens)
            logits = self._context.decode(sequence, chunk.start, tokens, want_logits=is_last)
        return logits


def _result(
    decision: PreparedDecision,
    logits: NDArray[np.float32] | None,
    cached_tokens: int,
    forward_s: float,
    total_s: float,
) -> DecisionResult:
    if logits is None:
        raise RuntimeError("the plan ended before the prompt did")
    readout = read_options(logits, decision.answer_token_ids)
    return DecisionResult(
        id=decision.task.id,
        option_ids=decision.task.option_ids,
        probabilities=readout.probabilities,
        option_logits=readout.option_logits,
        answer_token_ids=decision.answer_token_ids,
        allowed_token_mass=readout.allowed_token_mass,
        full_vocab_argmax_id=readout.full_vocab_argmax_id,
        input_tokens=len(decision.tokens),
        cached_tokens=cached_tokens,
        prompt_sha256=decision.prompt.sha256,
        forward_s=forward_s,
        total_s=total_s,
    )
