"""One call to AWS: its answer, or an ApiError that says what the refusal means."""

from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from build_run.failures import ApiError, Cause, classify_error

CONFIG: Final = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "max_attempts": 4})


def connect(service: str) -> Any:
    """A client as the SDK's environment says (region, credentials, endpoint)."""
    # The service's name is no literal here, so the type of the client is not known either.
    client: Any = boto3.client
    return client(service, config=CONFIG)


def call(client: Any, operation: str, **parameters: object) -> dict[str, Any]:
    """Call by the operation's name in boto3, such as `start_build`."""
    try:
        answer: dict[str, Any] = getattr(client, operation)(**parameters)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        message = error.response.get("Error", {}).get("Message", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        raise ApiError(operation, code, message, classify_error(code, status)) from error
    except ParamValidationError as error:
        raise ApiError(operation, "ParamValidationError", str(error), Cause.UNKNOWN) from error
    except BotoCoreError as error:
        # No answer came: no connection, a time-out, credentials being renewed.
        raise ApiError(operation, type(error).__name__, str(error), Cause.TRANSIENT) from error
    return answer
