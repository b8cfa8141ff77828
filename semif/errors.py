"""Every error of the `semif` command: its exit code, a stable code, a message, the next step.

SemifError
├── UsageError            2   the command line, or a file it names, cannot be used
├── RefusedError          3   the server read the request and refused it (4xx)
├── RetryableError        4   the same request may succeed later (503, 429, a throttle)
│   └── ThrottledError
└── ServiceError          5   the endpoint, the server or AWS failed
    ├── UnreachableError           no connection, or no answer in time
    ├── CredentialsExpiredError    a renewal in another terminal helps
    ├── NotFoundError              AWS does not know the thing
    └── NotReadableError           an answer that this command does not understand
"""

from enum import IntEnum

from semif.terminal import printable


class ExitCode(IntEnum):
    """What the shell sees. 1 is a deployment that failed; see the module's tree for 2 to 5."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    RETRYABLE = 4
    SERVICE = 5
    INTERRUPTED = 130


class SemifError(Exception):
    """An error to show to the operator.

    `code` is stable and machine readable, `field` the part of the request it speaks of ("" when none),
    `next_step` a sentence that says what to do.
    """

    exit_code: ExitCode = ExitCode.SERVICE

    def __init__(self, code: str, message: str, *, next_step: str = "", field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.next_step = next_step

    def report(self) -> str:
        """The lines for standard error, free of control characters whatever the other side sent."""
        place = f" ({self.field})" if self.field else ""
        first = f"error: {self.code}{place}: {self.message}"
        return "\n".join(
            printable(line) for line in (first, f"next: {self.next_step}" if self.next_step else "") if line
        )


class UsageError(SemifError):
    """The command line, or a file that it names, cannot be turned into a request."""

    exit_code = ExitCode.USAGE


class RefusedError(SemifError):
    """The server understood the connection and refused this request."""

    exit_code = ExitCode.REFUSED


class RetryableError(SemifError):
    """Nothing is wrong with the request; the other side is busy or starting."""

    exit_code = ExitCode.RETRYABLE


class ThrottledError(RetryableError):
    """AWS asks to slow down."""


class ServiceError(SemifError):
    """The endpoint, the server or AWS failed."""


class UnreachableError(ServiceError):
    """No connection, or no answer in time."""


class CredentialsExpiredError(ServiceError):
    """The credentials were good and are no longer."""


class NotFoundError(ServiceError):
    """AWS does not know the thing that was asked for."""


class NotReadableError(ServiceError):
    """An answer came, but not one of a SemIf server."""
