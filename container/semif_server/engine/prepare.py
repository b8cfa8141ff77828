"""Request → encoded prompts with their plans, or a refusal because it is too long. Pure."""

from dataclasses import dataclass

from semif_server.encoding import EncodedPrompt, PromptEncoder
from semif_server.engine.plan import Row, prompt_row
from semif_server.engine.task import DecisionRequest, DecisionTask
from semif_server.errors import Code, TokenBudgetError


@dataclass(frozen=True, slots=True)
class PreparedDecision:
    """One task, ready to evaluate.

    rows: the prompt; then, where codes have two tokens, the prompt with each of their first tokens, in the
    order of first use. codes: one or two token ids per option.
    """

    task: DecisionTask
    prompt: EncodedPrompt
    rows: tuple[Row, ...]
    codes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One request, ready to evaluate. evaluated_tokens: a shared prefix counts once, the head too."""

    decisions: tuple[PreparedDecision, ...]
    shared: bool
    evaluated_tokens: int


class Preparer:
    """Encodes requests within the token limits. micro_batch: of the context that will evaluate them."""

    def __init__(
        self, encoder: PromptEncoder, *, micro_batch: int, max_tokens: int, max_request_tokens: int
    ) -> None:
        self._encoder = encoder
        self._micro_batch = micro_batch
        self._max_tokens = max_tokens
        self._max_request_tokens = max_request_tokens

    def prepare(self, request: DecisionRequest) -> PreparedRequest:
        """Encode a request. Raises TokenBudgetError with the number of tokens and the limit."""
        decisions = []
        for index, task in enumerate(request.tasks):
            decision = self._prepare_decision(task)
            # The last row is the longest: with a second step, one token more than the prompt.
            n_tokens = len(decision.rows[-1].tokens)
            if n_tokens > self._max_tokens:
                raise TokenBudgetError(
                    Code.PROMPT_TOO_LONG,
                    f"The prompt has {n_tokens:,} tokens; the limit is {self._max_tokens:,}."
                    " Shorten the state, the question or the descriptions, or raise SEMIF_MAX_TOKENS.",
                    f"decisions.{index}" if request.shared else "decision",
                )
            decisions.append(decision)
        evaluated = _evaluated_tokens(decisions)
        if evaluated > self._max_request_tokens:
            raise TokenBudgetError(
                Code.REQUEST_TOO_LONG,
                f"The request needs {evaluated:,} tokens, its shared state counted once; the limit is"
                f" {self._max_request_tokens:,}. Send fewer decisions at once, or raise"
                " SEMIF_MAX_REQUEST_TOKENS.",
                "decisions" if request.shared else "decision",
            )
        return PreparedRequest(tuple(decisions), request.shared, evaluated)

    def _prepare_decision(self, task: DecisionTask) -> PreparedDecision:
        prompt = self._encoder.encode(task.state_json, task.question, task.descriptions)
        row = prompt_row(prompt.head, prompt.state, prompt.tail, self._micro_batch)
        codes = tuple(code.tokens for code in self._encoder.codes_for(len(task.option_ids)))
        firsts = dict.fromkeys(code[0] for code in codes if len(code) > 1)
        return PreparedDecision(task, prompt, (row, *map(row.with_token, firsts)), codes)


def _evaluated_tokens(decisions: list[PreparedDecision]) -> int:
    seen: set[tuple[int, ...]] = set()
    total = 0
    for decision in decisions:
        row, *second_steps = decision.rows
        prefix = row.tokens[: row.own_start]
        total += len(row.tokens) - (row.own_start if prefix in seen else 0) + len(second_steps)
        seen.add(prefix)
    return total
