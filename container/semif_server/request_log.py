"""What is recorded of one request, and its line in the log: figures, and never the caller's text."""

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from semif_server.engine.task import RequestResult, RequestTimes

ROUTES: Final = frozenset({"/ping", "/metrics", "/invocations"})
OTHER_ROUTE: Final = "other"
DISCONNECTED: Final = "client_disconnected"

# What SageMaker passes on for callers who want to find their request again; these bounds are SageMaker's own.
_TRACE_HEADERS: Final[Mapping[bytes, tuple[str, int]]] = {
    b"x-amzn-sagemaker-inference-id": ("inference_id", 64),
    b"x-amzn-sagemaker-custom-attributes": ("custom_attributes", 1024),
}
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e]+")


@dataclass(slots=True)
class RequestRecord:
    """One request; filled on its way. times is None until it was answered.

    code: "ok", a code of errors.Code, or "client_disconnected". dropped_headers: trace headers that were too
    long or not printable ASCII.
    """

    id: str
    route: str
    trace: dict[str, str] = field(default_factory=dict)
    dropped_headers: tuple[str, ...] = ()
    status: int | None = None
    code: str = "ok"
    decisions: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    times: RequestTimes | None = None
    total_s: float = 0.0

    def note(self, result: RequestResult) -> None:
        """Take over the figures of an answer."""
        self.decisions = len(result.results)
        self.input_tokens = sum(one.input_tokens for one in result.results)
        self.cached_tokens = sum(one.cached_tokens for one in result.results)
        self.times = result.times

    def fields(self) -> dict[str, object]:
        """The fields of its line in the log."""
        line: dict[str, object] = {
            "id": self.id,
            **self.trace,
            "status": self.status,
            "code": self.code,
            "decisions": self.decisions,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
        }
        if self.times is not None:
            line["queue_ms"] = milliseconds(self.times.queue_s)
            line["prefill_ms"] = milliseconds(self.times.prefill_s)
            line["decode_ms"] = milliseconds(self.times.decode_s)
        line["total_ms"] = milliseconds(self.total_s)
        if self.dropped_headers:
            line["dropped_headers"] = list(self.dropped_headers)
        return line


def open_record(path: str, headers: Iterable[tuple[bytes, bytes]]) -> RequestRecord:
    """Begin a request's record. headers: as ASGI gives them, names in lower case."""
    record = RequestRecord(secrets.token_hex(8), path if path in ROUTES else OTHER_ROUTE)
    for name, value in headers:
        if name in _TRACE_HEADERS and value:
            key, limit_chars = _TRACE_HEADERS[name]
            if len(value) <= limit_chars and _PRINTABLE.fullmatch(value):
                record.trace.setdefault(key, value.decode("ascii"))
            elif key not in record.dropped_headers:
                record.dropped_headers += (key,)
    return record


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds with three decimals."""
    return round(seconds * 1000, 3)
