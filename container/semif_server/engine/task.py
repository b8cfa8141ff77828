"""What goes into the engine and what comes out, free of any wire format."""

from dataclasses import dataclass


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
class DecisionResult:
    """One answered decision; the tuples have one entry per option, in request order.

    input_tokens: the whole prompt. cached_tokens: those of them that were not decoded for this decision.
    forward_s: decoding the others, copies included. total_s: from the request's arrival to this answer.
    """

    id: str
    option_ids: tuple[str, ...]
    probabilities: tuple[float, ...]
    option_logits: tuple[float, ...]
    answer_token_ids: tuple[int, ...]
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
    suffix_forward_s: all tails together, copies included.
    """

    batch_size: int
    prefix_tokens: int
    prefill_s: float
    suffix_forward_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The answers of one request; timing only for a shared one."""

    results: tuple[DecisionResult, ...]
    timing: SharedTiming | None
