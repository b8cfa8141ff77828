"""What the engine computed → the answers: the readout, which needs no llama.cpp and so not its thread."""

import time

from semif_server.engine.prepare import PreparedDecision, PreparedRequest
from semif_server.engine.task import (
    DecisionOutcome,
    DecisionResult,
    RequestOutcome,
    RequestResult,
    RequestTimes,
    SharedTiming,
)
from semif_server.readout import read_options


def present(request: PreparedRequest, outcome: RequestOutcome, arrived_s: float) -> RequestResult:
    """Read the answers out of the logits. arrived_s: time.perf_counter() of the request's arrival."""
    results = tuple(
        _result(decision, computed, arrived_s)
        for decision, computed in zip(request.decisions, outcome.decisions, strict=True)
    )
    prefill_s = sum(one.prefill_s for one in outcome.decisions)
    decode_s = sum(one.decode_s for one in outcome.decisions)
    times = RequestTimes(outcome.started_s - arrived_s, prefill_s, decode_s, time.perf_counter() - arrived_s)
    if not request.shared:
        return RequestResult(results, None, times)
    prefix_tokens = request.decisions[0].rows[0].own_start
    timing = SharedTiming(len(results), prefix_tokens, prefill_s, decode_s, times.total_s)
    return RequestResult(results, timing, times)


def _result(decision: PreparedDecision, computed: DecisionOutcome, arrived_s: float) -> DecisionResult:
    first, *others = computed.logits
    seconds = {row.tokens[-1]: logits for row, logits in zip(decision.rows[1:], others, strict=True)}
    readout = read_options(first, decision.codes, seconds)
    return DecisionResult(
        id=decision.task.id,
        option_ids=decision.task.option_ids,
        probabilities=readout.probabilities,
        option_logits=readout.option_logits,
        answer_token_ids=tuple(code[0] if len(code) == 1 else code for code in decision.codes),
        allowed_token_mass=readout.allowed_token_mass,
        full_vocab_argmax_id=readout.full_vocab_argmax_id,
        input_tokens=len(decision.rows[0].tokens),
        cached_tokens=computed.cached_tokens,
        prompt_sha256=decision.prompt.sha256,
        forward_s=computed.prefill_s + computed.decode_s,
        total_s=computed.finished_s - arrived_s,
    )
