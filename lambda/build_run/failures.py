"""What a refused call means, and the one exception that ends an operation."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Cause(StrEnum):
    """Why a call was refused; the value is the stable code that users see."""

    TRANSIENT = "service_unavailable"
    LIMIT = "build_limit"
    ACCESS_DENIED = "access_denied"
    NOT_FOUND = "not_found"
    UNKNOWN = "unclassified_failure"


ADVICE: Final = MappingProxyType(
    {
        Cause.TRANSIENT: "Deploy again.",
        Cause.LIMIT: "Deploy again when other builds have ended, or ask for a higher quota (CodeBuild).",
        Cause.ACCESS_DENIED: "Check the policies and boundaries of the function's role.",
        Cause.NOT_FOUND: "Deploy the stacks in their order (cdk deploy 'ENV/*').",
        Cause.UNKNOWN: "Read the reason, mend the cause, deploy again.",
    }
)

_TRANSIENT_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestExpired",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "ServerException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "UnrecognizedClientException",
    }
)
_ACCESS_CODES: Final = frozenset({"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_ABSENT_CODES: Final = frozenset(
    {
        "404",
        "ImageNotFoundException",
        "NoSuchBucket",
        "NoSuchKey",
        "NotFound",
        "RepositoryNotFoundException",
        "ResourceNotFoundException",
    }
)


class BuildRunError(Exception):
    """Ends an operation: a stable code, the cause, and what to do, in at most 1,000 characters."""


class ApiError(Exception):
    """A call that AWS refused or that never got an answer; `cause` says what that means."""

    def __init__(self, operation: str, code: str, message: str, cause: Cause) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.cause = cause


def classify_error(code: str, status: int = 400) -> Cause:
    """Classify an error answer by its code and its HTTP status."""
    if code in _TRANSIENT_CODES or status >= 500 or status == 429:
        return Cause.TRANSIENT
    if code == "AccountLimitExceededException":
        return Cause.LIMIT
    if code in _ACCESS_CODES:
        return Cause.ACCESS_DENIED
    if code in _ABSENT_CODES:
        return Cause.NOT_FOUND
    return Cause.UNKNOWN


def shortened(text: str, limit: int) -> str:
    """Text of at most `limit` characters; what is cut off leaves a mark."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
