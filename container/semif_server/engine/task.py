"""What goes into the engine and what comes out, free of any wire format."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DecisionTask:
    """One question about one state. state_json: the state as the prompt holds it (prompt.to_json)."""

    id: str
    state_json: str
    question: str
    option_ids: tuple[str, ...]
    descriptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """One decision, or several over one equal state (shared)."""

    tasks: tuple[DecisionTask, ...]
    shared: bool


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """What the engine computed for one decision.

    logits: the last token's, one array of shape (n_vocab,) per row of the decision. cached_tokens: tokens of
    the prompt that were not decoded for it. prefill_s, decode_s: its share of the decodes up to the end of
    its state, and of those behind. finished_s: time.perf_counter() when its last row was done.
    """

    logits: tuple[NDArray[np.float32], ...]
    cached_tokens: int
    prefill_s: float
    decode_s: float
    finished_s: float


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What the engine computed for one request. started_s: time.perf_counter() of its first decode."""

    decisions: tuple[DecisionOutcome, ...]
    started_s: float


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """One answered decision; the tuples have one entry per option, in request order.

    answer_token_ids: a tuple of two where the option's code has two tokens. input_tokens: the whole prompt.
    cached_tokens: those of them that were not decoded for this decision. forward_s: its share of the decodes
    of the others. total_s: from the request's arrival to this answer.
    """

    id: str
    option_ids: tuple[str, ...]
    probabilities: tuple[float, ...]
    option_logits: tuple[float, ...]
    answer_token_ids: tuple[int | tuple[int, ...], ...]
    allowed_token_mass: float
    full_vocab_argmax_id: int
    input_tokens: int
    cached_tokens: int
    prompt_sha256: str
    forward_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class SharedTiming:
    """How a shared request spent its time.

    prefix_tokens: tokens held once for all decisions. prefill_s: decoding those not cached.
    suffix_forward_s: all tails together.
    """

    batch_size: int
    prefix_tokens: int
    prefill_s: float
    suffix_forward_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Seconds of one request: until its first decode, its decodes up to the state's end and behind, all."""

    queue_s: float
    prefill_s: float
    decode_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The answers of one request; timing only for a shared one."""

    results: tuple[DecisionResult, ...]
    timing: SharedTiming | None
    times: RequestTimes
