"""Request → encoded prompts with their plans, or a refusal because it is too long. Pure."""

from dataclasses import dataclass

from semif_server.encoding import EncodedPrompt, PromptEncoder
from semif_server.engine.plan import Plan, plan_chunks
from semif_server.engine.task import DecisionRequest, DecisionTask
from semif_server.errors import Code, TokenBudgetError


@dataclass(frozen=True, slots=True)
class PreparedDecision:
    """One task, ready to evaluate. answer_token_ids: one per option."""

    task: DecisionTask
    prompt: EncodedPrompt
    tokens: tuple[int, ...]
    plan: Plan
    answer_token_ids: tuple[int, ...]

    @property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that a decision over the same state may share."""
        return self.tokens[: self.plan.prefix_end]


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
            if len(decision.tokens) > self._max_tokens:
                raise TokenBudgetError(
                    Code.PROMPT_TOO_LONG,
                    f"The prompt has {len(decision.tokens):,} tokens; the limit is {self._max_tokens:,}."
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
        plan = plan_chunks(len(prompt.head), len(prompt.state), len(prompt.tail), self._micro_batch)
        answers = self._encoder.slot_ids[: len(task.option_ids)]
        return PreparedDecision(task, prompt, prompt.tokens, plan, answers)


def _evaluated_tokens(decisions: list[PreparedDecision]) -> int:
    seen: set[tuple[int, ...]] = set()
    total = 0
    for decision in decisions:
        total += len(decision.tokens)
        if decision.prefix in seen:
            total -= decision.plan.prefix_end
        seen.add(decision.prefix)
    return total
