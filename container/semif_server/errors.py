"""Every error of the server: its type, its stable code, its HTTP status.

SemifServerError
├── StartError            the process refuses to start; the message is for the operator
│   ├── SettingsError     an environment variable
│   ├── ArchiveError      the model directory, its GGUF files or its manifest
│   ├── ProfileError      the prompt profile
│   ├── LibraryError      llama.cpp's library or its bindings
│   └── ModelError        what llama.cpp or the model's own chat template says
└── RequestError          one request is answered with an error body
    ├── BodyError         transport and JSON: 404, 405, 413, 415 and 400
    ├── ContractError     well-formed JSON that is no decision request: 400
    ├── TokenBudgetError  longer than this server evaluates: 422
    ├── UnavailableError  not now or not here: 503 (a body that came too slowly: 408), retryable
    └── BugError          a bug of ours: 500

A RequestError never holds text of the request: ids, states, questions, options and keys stay out of
messages, so they stay out of responses and logs. The one exception is the name of an unknown field
of the contract itself, and only if it looks like a field name.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """The stable codes of error bodies; clients may rely on them."""

    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNSUPPORTED_CONTENT_ENCODING = "unsupported_content_encoding"
    BODY_TOO_LARGE = "body_too_large"
    INVALID_HTTP = "invalid_http"
    EMPTY_BODY = "empty_body"
    INVALID_UTF8 = "invalid_utf8"
    INVALID_JSON = "invalid_json"
    JSON_TOO_DEEP = "json_too_deep"
    DUPLICATE_KEY = "duplicate_key"
    NON_FINITE_NUMBER = "non_finite_number"
    NUMBER_TOO_LONG = "number_too_long"
    LONE_SURROGATE = "lone_surrogate"
    NOT_AN_OBJECT = "not_an_object"
    MISSING_FIELD = "missing_field"
    AMBIGUOUS_REQUEST = "ambiguous_request"
    UNKNOWN_FIELD = "unknown_field"
    WRONG_TYPE = "wrong_type"
    EMPTY_VALUE = "empty_value"
    EMPTY_STATE = "empty_state"
    TOO_FEW_OPTIONS = "too_few_options"
    TOO_MANY_OPTIONS = "too_many_options"
    TOO_MANY_DECISIONS = "too_many_decisions"
    DUPLICATE_OPTION_ID = "duplicate_option_id"
    DUPLICATE_DECISION_ID = "duplicate_decision_id"
    DIFFERENT_STATES = "different_states"
    PROMPT_TOO_LONG = "prompt_too_long"
    REQUEST_TOO_LONG = "request_too_long"
    REQUEST_TIMEOUT = "request_timeout"
    STARTING = "starting"
    BUSY = "busy"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    SHUTTING_DOWN = "shutting_down"
    ENGINE_STOPPED = "engine_stopped"
    INTERNAL_ERROR = "internal_error"


# Whatever is not listed here is a fault in the JSON or in the contract, and those are 400.
_STATUS: Final[Mapping[Code, int]] = {
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.REQUEST_TIMEOUT: 408,
    Code.BODY_TOO_LARGE: 413,
    Code.UNSUPPORTED_MEDIA_TYPE: 415,
    Code.UNSUPPORTED_CONTENT_ENCODING: 415,
    Code.PROMPT_TOO_LONG: 422,
    Code.REQUEST_TOO_LONG: 422,
    Code.STARTING: 503,
    Code.BUSY: 503,
    Code.DEADLINE_EXCEEDED: 503,
    Code.SHUTTING_DOWN: 503,
    Code.ENGINE_STOPPED: 503,
    Code.INTERNAL_ERROR: 500,
}


def status_of(code: Code) -> int:
    """The HTTP status that goes with a code."""
    return _STATUS.get(code, 400)


class SemifServerError(Exception):
    """Base of all errors that this server raises on purpose."""


class StartError(SemifServerError):
    """The server can't start; the message is one line that names the cause and the next step."""


class SettingsError(StartError):
    """A SEMIF_* variable is wrong or unknown."""


class ArchiveError(StartError):
    """The model directory does not hold one usable model."""


class ProfileError(StartError):
    """The prompt profile is not valid."""


class LibraryError(StartError):
    """llama.cpp's shared library or its bindings can't be used. code: stable, first in the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class ModelError(StartError):
    """The model, its vocabulary or its chat template can't serve decisions."""


class RequestError(SemifServerError):
    """One request is refused.

    field: dotted path of the contract's own names and list positions (`decisions.3.options.0.id`),
    None when the fault has no place in the body. It ends where the caller's own data begins.
    """

    def __init__(self, code: Code, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.retryable = False
        self.retry_after_s: float | None = None

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return status_of(self.code)

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that go with this error."""
        if self.retry_after_s is None:
            return {}
        return {"retry-after": str(max(1, math.ceil(self.retry_after_s)))}

    def body(self) -> dict[str, object]:
        """The wire shape of the error."""
        return {
            "error": {
                "code": self.code.value,
                "message": self.message,
                "field": self.field,
                "retryable": self.retryable,
                "retry_after_s": self.retry_after_s,
            }
        }


class BodyError(RequestError):
    """The route, the headers or the JSON text are wrong."""


class ContractError(RequestError):
    """The JSON is no decision request."""


class TokenBudgetError(RequestError):
    """A prompt, or a whole request, has more tokens than this server evaluates."""


class UnavailableError(RequestError):
    """The request is fine, but not now or not here: send it again after retry_after_s seconds."""

    def __init__(self, code: Code, message: str, retry_after_s: float) -> None:
        super().__init__(code, message)
        self.retryable = True
        self.retry_after_s = retry_after_s


class BugError(RequestError):
    """A bug of ours. The incident id joins the answer to the log line; the cause is only in the log."""

    def __init__(self, incident: str) -> None:
        super().__init__(
            Code.INTERNAL_ERROR,
            f"This is a bug in the server, not in the request. Report it with incident id {incident}.",
        )
        self.incident = incident


def request_timeout(limit_s: float) -> UnavailableError:
    """The sender was too slow; its body was not read to the end."""
    return UnavailableError(
        Code.REQUEST_TIMEOUT,
        f"The body did not arrive within {limit_s:g} seconds. Send it again over a faster connection.",
        1.0,
    )


def starting() -> UnavailableError:
    """The model is loaded, and its first decision has not been made yet."""
    return UnavailableError(Code.STARTING, "This instance is warming up. Send it again in a second.", 1.0)


def busy(wait_s: float, deadline_s: float, retry_after_s: float) -> UnavailableError:
    """The answer would come too late. wait_s: from now to that answer, as estimated."""
    return UnavailableError(
        Code.BUSY,
        f"The answer would take about {wait_s:,.0f} seconds, and {deadline_s:g} after it arrived a request"
        f" is given up. Send it again in {retry_after_s:.0f} seconds, or fewer decisions at once;"
        " the operator can add instances or raise SEMIF_DEADLINE_S.",
        retry_after_s,
    )


def queue_full(queued_tokens: int, limit_tokens: int, retry_after_s: float) -> UnavailableError:
    """There is no room in the queue. queued_tokens: still to be decoded, without this request's."""
    return UnavailableError(
        Code.BUSY,
        f"{queued_tokens:,} tokens are queued and SEMIF_MAX_QUEUE_TOKENS is {limit_tokens:,}."
        f" Send it again in {retry_after_s:.0f} seconds.",
        retry_after_s,
    )


def too_many_requests(limit_requests: int) -> UnavailableError:
    """More requests are open than are held in memory."""
    return UnavailableError(
        Code.BUSY, f"{limit_requests:,} requests are open already. Send it again in a second.", 1.0
    )


def deadline_exceeded(deadline_s: float) -> UnavailableError:
    """The request was taken in, and others or a slower machine than estimated took its time."""
    return UnavailableError(
        Code.DEADLINE_EXCEEDED,
        f"There was no answer {deadline_s:g} seconds after the request arrived (SEMIF_DEADLINE_S), so it was"
        " given up. Send it again, or fewer decisions at once.",
        1.0,
    )


def shutting_down() -> UnavailableError:
    """The process was told to stop."""
    return UnavailableError(
        Code.SHUTTING_DOWN, "This instance is shutting down. Send it again: another one takes it.", 1.0
    )


def engine_stopped() -> UnavailableError:
    """The engine thread is gone; the process exits and the host starts a new one."""
    return UnavailableError(
        Code.ENGINE_STOPPED, "The engine of this instance has stopped and is being replaced. Try again.", 5.0
    )
