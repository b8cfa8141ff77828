"""Decisions as text: a request from flags or from a file, an answer as a table. No I/O.

Only what makes a request impossible to send is refused here; the server knows the contract and says what
breaks it. A JSON text of the caller's is sent byte for byte, never parsed and written again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semif.errors import NotReadableError, RefusedError, RetryableError, SemifError, ServiceError, UsageError
from semif.terminal import bars, printable


@dataclass(frozen=True)
class Answer:
    """One decided question: options in the request's order with their probabilities (they sum to 1)."""

    id: str
    option_ids: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def best(self) -> int:
        """Position of the most probable option; the first one if several are equal."""
        return max(range(len(self.probabilities)), key=lambda i: (self.probabilities[i], -i))


def request_from_flags(
    *, decision_id: str, state: object, question: str | None, options: Sequence[str]
) -> bytes:
    """The body for one decision; `options` are `id=description` as typed."""
    given = {"--state": state is not None, "--question": question is not None, "--option": bool(options)}
    missing = [flag for flag, is_given in given.items() if not is_given]
    if missing:
        raise UsageError(
            "missing_flag",
            f"a decision needs {', '.join(missing)}",
            next_step="give the flags, or a JSON file, or - for JSON on standard input",
        )
    decision = {
        "id": as_typed(decision_id),
        "state": state,
        "question": as_typed(question or ""),
        "options": [_option(as_typed(option)) for option in options],
    }
    return _encode(json.dumps({"decision": decision}, ensure_ascii=False))


def request_from_json(raw: bytes, source: str) -> bytes:
    """The body for a JSON text: an object with `decision` or `decisions`, or a decision alone.

    `source` names the text in errors. What is no JSON at all is refused here, with the place.
    """
    text = decode_utf8(raw, source)
    value = parse_json(text, source)
    if isinstance(value, dict) and not value.keys() & {"decision", "decisions"}:
        return b'{"decision": ' + text.encode("utf-8") + b"}"
    return text.encode("utf-8")


def parse_json(text: str, source: str) -> object:
    """Parse JSON, or say where it breaks."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            "not_json",
            f"{source} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            next_step="correct the text at that place",
        ) from error
    except RecursionError as error:
        raise UsageError(
            "not_json", f"{source} is nested too deeply to read", next_step="send a flatter state"
        ) from error


def decode_utf8(raw: bytes, source: str) -> str:
    """Text of a file or of standard input; UTF-8 whatever the locale, with or without a byte order mark."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(f"{source}, at byte {error.start},") from error


def as_typed(argument: str) -> str:
    """An argument's text. Where the locale is not UTF-8, Python hands over its bytes as half surrogates."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise _not_utf8("the command line") from error


def read_answers(body: bytes) -> list[Answer]:
    """The answers in a server's response: one for `decision`, several for `decisions`."""
    try:
        response = json.loads(body)
        results = response["results"] if "results" in response else [response["result"]]
        answers = [
            Answer(
                str(result["id"]),
                tuple(str(option) for option in result["option_ids"]),
                tuple(float(p) for p in result["probabilities"]),
            )
            for result in results
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_semif("the answer is not a SemIf result") from error
    for answer in answers:
        if not answer.option_ids or len(answer.option_ids) != len(answer.probabilities):
            raise _not_semif("the answer does not have one probability for each option")
    return answers


def table(answers: Sequence[Answer], *, width: int) -> str:
    """For each answer the chosen option first, then every option with its probability and a bar."""
    blocks = []
    for answer in answers:
        names = [printable(option) for option in answer.option_ids]
        rows = list(zip(names, answer.probabilities, strict=True))
        head = f"{printable(answer.id)}: {names[answer.best]}"
        blocks.append("\n".join([head, *bars(rows, width=width)]))
    return "\n\n".join(blocks)


def server_error(status: int, body: bytes) -> SemifError:
    """The error in a SemIf server's answer with `status`; the kind follows `retryable` and the status."""
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        start = printable(body[:200].decode("utf-8", "replace"))
        return _kind(status, retryable=False)(
            f"http_{status}",
            f"status {status}, without a SemIf error: {start or 'no text'}",
            next_step="check that the address is a SemIf server's",
        )
    retryable = error.get("retryable") is True
    return _kind(status, retryable=retryable)(
        code,
        message,
        field=str(error.get("field") or ""),
        next_step=_next_step(status, error, retryable=retryable),
    )


def _option(typed: str) -> dict[str, str]:
    option_id, separator, description = typed.partition("=")
    if not separator:
        raise UsageError(
            "bad_option",
            f"--option {typed!r} has no =",
            field="--option",
            next_step="write --option id=description",
        )
    return {"id": option_id, "description": description}


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:  # an escape such as \ud800 alone, in a state given as JSON
        raise _not_utf8("the state") from error


def _not_utf8(what: str) -> UsageError:
    return UsageError("not_utf8", f"{what} is not UTF-8", next_step="give the text as UTF-8")


def _kind(status: int, *, retryable: bool) -> type[SemifError]:
    if retryable or status in {408, 429, 503}:
        return RetryableError
    return RefusedError if 400 <= status < 500 else ServiceError


def _next_step(status: int, error: Mapping[str, object], *, retryable: bool) -> str:
    after_s = error.get("retry_after_s")
    if isinstance(after_s, int | float) and not isinstance(after_s, bool):
        return f"send the same request again in {after_s:g} s"
    if retryable or status in {408, 429, 503}:
        return "send the same request again in a moment"
    if status >= 500:
        return "look into the server's log; a bug of the server's says so there"
    return "correct the request where the message says"


def _not_semif(message: str) -> NotReadableError:
    return NotReadableError("not_semif", message, next_step="check that the address is a SemIf server's")
