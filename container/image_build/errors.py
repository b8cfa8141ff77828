"""Every failure of a build: a stable code, what happened, the next step; and the end by a signal.

BuildError
├── SettingsError        a variable of the build cannot be used
├── DockerError          a docker command failed
├── AwsError             AWS refused a call, or gave no answer
└── RefusedError         the image was built and must not be served
    └── FindingsError    for what ECR's scan found in it
Stopped                  SIGTERM or SIGINT came; no Exception, lest a library take it for one of its own
"""


class BuildError(Exception):
    """A failure to show: `code` is stable, `next_step` says what to do."""

    def __init__(self, code: str, message: str, next_step: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.next_step = next_step

    def line(self) -> str:
        """The failure in one line, free of line breaks whatever the other side sent."""
        return " ".join(f"error: {self.code}: {self.message}; {self.next_step}".split())


class SettingsError(BuildError):
    """A variable of the build, named first in the message, cannot be used."""

    def __init__(self, variable: str, message: str, next_step: str) -> None:
        super().__init__("settings_invalid", f"{variable}: {message}", next_step)
        self.variable = variable


class DockerError(BuildError):
    """A docker command failed."""


class AwsError(BuildError):
    """AWS refused a call or gave no answer; `aws_code` is its code, or the name of the SDK's error."""

    def __init__(self, operation: str, aws_code: str, message: str) -> None:
        step = "run the build again"
        if "AccessDenied" in aws_code or "Unauthorized" in aws_code:
            step = "allow this action to the build's role"
        super().__init__("aws_failed", f"{operation}: {aws_code}: {message}", step)
        self.aws_code = aws_code


class RefusedError(BuildError):
    """The image was built and must not be served."""


class FindingsError(RefusedError):
    """The scan's findings refuse the image; its candidate stays, so that ECR shows them."""


class Stopped(BaseException):
    """The build is told to end; raised by the signal's handler."""
