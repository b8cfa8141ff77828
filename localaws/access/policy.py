"""What policies together decide about one request: an explicit Deny wins, and nothing is allowed unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from localaws.access.conditions import holds, matches, substituted, texts

Document = Mapping[str, Any]


class Decision(Enum):
    """What a set of policies says."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class Request:
    """One call: `sagemaker:InvokeEndpoint`, the resource's ARN (`*` where there is none), condition keys."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


def statements(documents: Iterable[Document]) -> Iterator[Mapping[str, Any]]:
    """Give every statement of the documents."""
    for document in documents:
        found = document.get("Statement", [])
        yield from found if isinstance(found, list) else [found]


def decide(
    documents: Iterable[Document],
    request: Request,
    concerns: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Decision:
    """Decide by identity policies, or by a role's trust with `concerns` for its principals.

    Raises:
        UnsupportedPolicyError: a statement about this request cannot be evaluated.
    """
    decision = Decision.UNSAID
    for statement in statements(documents):
        if not _names(statement, request, trust=concerns is not None):
            continue
        if concerns is not None and not concerns(statement):
            continue
        if not holds(statement.get("Condition", {}), request.context):
            continue
        if statement.get("Effect") == "Deny":
            return Decision.DENIED
        decision = Decision.ALLOWED
    return decision


def _names(statement: Mapping[str, Any], request: Request, *, trust: bool) -> bool:
    """Whether a statement is about the request's action and, except in a trust, its resource."""
    if "NotAction" in statement:
        about = not _any(statement["NotAction"], request.action, any_case=True)
    else:
        about = _any(statement.get("Action", []), request.action, any_case=True)
    if trust or not about:
        return about
    if "NotResource" in statement:
        return not _any(_filled(statement["NotResource"], request), request.resource)
    return _any(_filled(statement.get("Resource", []), request), request.resource)


def _filled(value: Any, request: Request) -> list[str]:
    return [text for one in texts(value) if (text := substituted(one, request.context)) is not None]


def _any(patterns: Any, value: str, *, any_case: bool = False) -> bool:
    return any(matches(pattern, value, any_case=any_case) for pattern in texts(patterns))
