"""The sentences CodeBuild answers with, in one place."""

from __future__ import annotations

from localaws.protocol import ServiceError

TIMED_OUT = ("BUILD_TIMED_OUT", "Build has timed out. ")
QUEUE_TIMED_OUT = ("BUILD_TIMED_OUT", "Build has timed out while it was queued. ")

NO_DOCKER = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
)
"""What `docker` prints in a build without privileged mode, where no daemon runs."""


def invalid(message: str) -> ServiceError:
    """A request that CodeBuild, or this local one, does not take."""
    return ServiceError("InvalidInputException", message)


def no_project(arn: str) -> ServiceError:
    """A project that does not exist."""
    return ServiceError("ResourceNotFoundException", f"Project cannot be found: {arn}")


def no_build(build_id: str) -> ServiceError:
    """A build that does not exist."""
    return ServiceError("ResourceNotFoundException", f"The provided build ID does not exist: {build_id}")


def project_exists(arn: str) -> ServiceError:
    """A project's name that is taken."""
    return ServiceError("ResourceAlreadyExistsException", f"Project already exists: {arn}")


def queue_full(limit: int) -> ServiceError:
    """StartBuild with a full queue."""
    return ServiceError(
        "AccountLimitExceededException", f"Cannot have more than {limit} builds in queue for the account"
    )


def command_failed(command: str, status: int) -> tuple[str, str]:
    """A command of a phase that ended with another status than 0."""
    return (
        "COMMAND_EXECUTION_ERROR",
        f"Error while executing command: {command}. Reason: exit status {status}",
    )
