"""One call to AWS: its answer, or an ApiError that says what the refusal means."""

from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from instance_pool.failures import Cause, classify_error

CONFIG: Final = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "max_attempts": 4})


class ApiError(Exception):
    """A call that AWS refused or that never got an answer; `cause` says what that means."""

    def __init__(self, operation: str, code: str, message: str, cause: Cause) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message
        self.cause = cause


def connect(service: str) -> Any:
    """A client as the SDK's environment says (region, credentials, endpoint)."""
    # The service's name is no literal here, so the type of the client is not known either.
    client: Any = boto3.client
    return client(service, config=CONFIG)


def call(client: Any, operation: str, **parameters: object) -> dict[str, Any]:
    """Call by the operation's name in boto3, such as `list_tags`."""
    try:
        answer: dict[str, Any] = getattr(client, operation)(**parameters)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        message = error.response.get("Error", {}).get("Message", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        raise ApiError(operation, code, message, classify_error(code, message, status)) from error
    except ParamValidationError as error:
        raise ApiError(operation, "ParamValidationError", str(error), Cause.UNKNOWN) from error
    except BotoCoreError as error:
        # No answer came: no connection, a time-out, credentials being renewed.
        raise ApiError(operation, type(error).__name__, str(error), Cause.TRANSIENT) from error
    return answer
