"""The SemIf contract: `{"decision": …}` or `{"decisions": […]}`, to and from the engine's types."""

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from semif_server.codes import MAX_OPTIONS
from semif_server.contract.strict_json import parse_json
from semif_server.engine.task import DecisionRequest, DecisionResult, DecisionTask, RequestResult
from semif_server.errors import Code, ContractError
from semif_server.prompt import to_json

OWN_NAMES: Final = frozenset({"decision", "decisions", "id", "state", "question", "options", "description"})
_FIELD_NAME: Final = re.compile(r"[a-z_][A-Za-z0-9_]{0,63}")


class OptionIn(BaseModel):
    """One option of a decision."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: str
    description: str


class DecisionIn(BaseModel):
    """One decision. state: a non-empty string, object or array."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: str
    state: str | dict[str, Any] | list[Any]
    question: str
    options: list[OptionIn]


class SemifContract:
    """Reads requests within this server's limits and writes responses.

    max_options: how many options the model and its profile have codes for. model: what responses say about
    the model.
    """

    def __init__(
        self, *, max_options: int, max_decisions: int, prompt_version: str, model: dict[str, object]
    ) -> None:
        self._max_options = max_options
        self._max_decisions = max_decisions
        self._prompt_version = prompt_version
        self._model = model

    def read(self, body: bytes) -> DecisionRequest:
        """Body → request. Raises BodyError or ContractError."""
        value = parse_json(body, OWN_NAMES)
        if not isinstance(value, dict):
            raise ContractError(
                Code.NOT_AN_OBJECT, "The body is not a JSON object. Send one with `decision` or `decisions`."
            )
        for position, name in enumerate(value):
            if name not in {"decision", "decisions"}:
                raise _unknown_field("", name, position)
        if len(value) == 2:
            raise ContractError(
                Code.AMBIGUOUS_REQUEST, "Both `decision` and `decisions` are given. Send one of them."
            )
        if "decision" in value:
            return DecisionRequest((self._read_decision(value["decision"], "decision"),), shared=False)
        if "decisions" in value:
            return DecisionRequest(self._read_decisions(value["decisions"]), shared=True)
        raise ContractError(
            Code.MISSING_FIELD, "Neither `decision` nor `decisions` is given. Send one of them.", "decision"
        )

    def write(self, result: RequestResult) -> dict[str, object]:
        """Result → response object; the order of the keys is part of the contract."""
        if result.timing is None:
            return {"result": self._write_result(result.results[0])}
        timing = result.timing
        return {
            "results": [self._write_result(one) for one in result.results],
            "timing": {
                "batch_size": timing.batch_size,
                "prefix_tokens": timing.prefix_tokens,
                "prefill_seconds": timing.prefill_s,
                "suffix_forward_seconds": timing.suffix_forward_s,
                "total_seconds": timing.total_s,
            },
        }

    def _write_result(self, result: DecisionResult) -> dict[str, object]:
        return {
            "id": result.id,
            "option_ids": result.option_ids,
            "probabilities": result.probabilities,
            "option_logits": result.option_logits,
            "answer_token_ids": result.answer_token_ids,
            "allowed_token_mass": result.allowed_token_mass,
            "full_vocab_argmax_id": result.full_vocab_argmax_id,
            "input_tokens": result.input_tokens,
            "cached_tokens": result.cached_tokens,
            "prompt_sha256": result.prompt_sha256,
            "prompt_version": self._prompt_version,
            "model": self._model,
            "forward_seconds": result.forward_s,
            "total_seconds": result.total_s,
        }

    def _read_decisions(self, value: Any) -> tuple[DecisionTask, ...]:
        if not isinstance(value, list):
            raise ContractError(Code.WRONG_TYPE, "`decisions` must be an array of decisions.", "decisions")
        if not value:
            raise ContractError(Code.EMPTY_VALUE, "`decisions` is empty. Send at least one.", "decisions")
        if len(value) > self._max_decisions:
            raise ContractError(
                Code.TOO_MANY_DECISIONS,
                f"{len(value)} decisions are given; the limit is {self._max_decisions}."
                " Send several requests or raise SEMIF_MAX_SHARED_DECISIONS.",
                "decisions",
            )
        tasks = tuple(self._read_decision(item, f"decisions.{index}") for index, item in enumerate(value))
        seen: set[str] = set()
        for index, task in enumerate(tasks):
            if task.id in seen:
                raise ContractError(
                    Code.DUPLICATE_DECISION_ID,
                    "A decision has the same id as an earlier one. Ids must be unique.",
                    f"decisions.{index}.id",
                )
            seen.add(task.id)
            if task.state_json != tasks[0].state_json:
                raise ContractError(
                    Code.DIFFERENT_STATES,
                    "The state differs from the first decision's (1, 1.0 and true differ, and so does the"
                    " order of keys). Send decisions over other states in requests of their own.",
                    f"decisions.{index}.state",
                )
        return tasks

    def _read_decision(self, value: Any, path: str) -> DecisionTask:
        try:
            decision = DecisionIn.model_validate(value)
        except ValidationError as error:
            raise _contract_error(
                error.errors(include_url=False, include_context=False)[0], path, value
            ) from None
        _refuse_blank(decision.id, f"{path}.id")
        if not decision.state or (isinstance(decision.state, str) and not decision.state.strip()):
            raise ContractError(
                Code.EMPTY_STATE, "The state is empty: there is nothing to judge.", f"{path}.state"
            )
        _refuse_blank(decision.question, f"{path}.question")
        self._check_options(decision.options, f"{path}.options")
        return DecisionTask(
            id=decision.id,
            state_json=to_json(decision.state),
            question=decision.question,
            option_ids=tuple(option.id for option in decision.options),
            descriptions=tuple(option.description for option in decision.options),
        )

    def _check_options(self, options: list[OptionIn], path: str) -> None:
        if len(options) < 2:
            raise ContractError(
                Code.TOO_FEW_OPTIONS, f"{len(options)} options are given. Send at least two.", path
            )
        if len(options) > self._max_options:
            raise ContractError(
                Code.TOO_MANY_OPTIONS,
                f"{len(options)} options are given; the limit is {self._max_options}"
                f"{_why_fewer(self._max_options)}. Send fewer, or decide in two steps: among groups first.",
                path,
            )
        seen: set[str] = set()
        for index, option in enumerate(options):
            _refuse_blank(option.id, f"{path}.{index}.id")
            _refuse_blank(option.description, f"{path}.{index}.description")
            if option.id in seen:
                raise ContractError(
                    Code.DUPLICATE_OPTION_ID,
                    "An option has the same id as an earlier one. Ids must be unique.",
                    f"{path}.{index}.id",
                )
            seen.add(option.id)


def _why_fewer(max_options: int) -> str:
    return (
        "" if max_options == MAX_OPTIONS else ", as many as this model has codes for under its prompt profile"
    )


def _refuse_blank(text: str, path: str) -> None:
    if not text.strip():
        raise ContractError(Code.EMPTY_VALUE, f"`{path}` is empty. Give it a text.", path)


def _unknown_field(path: str, name: str, position: int) -> ContractError:
    """Name an unknown field if it looks like a field name; anything else may be the caller's data."""
    if _FIELD_NAME.fullmatch(name):
        field = f"{path}.{name}" if path else name
        return ContractError(Code.UNKNOWN_FIELD, f"`{field}` is no field of this contract. Remove it.", field)
    where = f"`{path}`" if path else "the body"
    return ContractError(
        Code.UNKNOWN_FIELD,
        f"Field number {position + 1} of {where} is no field of this contract. Remove it.",
        path or None,
    )


_TYPES: Final = {
    "id": "a string",
    "question": "a string",
    "description": "a string",
    "state": "a string, an object or an array",
    "options": "an array of options",
}


def _contract_error(detail: ErrorDetails, path: str, value: Any) -> ContractError:
    """pydantic's first finding in our own words; its own message could quote the request."""
    kind, location = detail["type"], detail["loc"]
    if kind == "extra_forbidden":
        for step in location[:-1]:
            value = value[step]
            path = f"{path}.{step}"
        name = str(location[-1])
        return _unknown_field(path, name, list(value).index(name))
    if location[:1] == ("state",):
        location = ("state",)  # pydantic adds which of the state's types it tried
    field = ".".join((path, *(str(step) for step in location)))
    if kind == "missing":
        return ContractError(Code.MISSING_FIELD, f"`{field}` is missing.", field)
    wanted = _TYPES.get(str(location[-1]), "an object") if location else "an object"
    return ContractError(Code.WRONG_TYPE, f"`{field}` must be {wanted}.", field)
