"""InvokeEndpoint: a request to the container that serves, and SageMaker's mapping of what comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from localaws.protocol import Scope
from localaws.sagemaker import messages
from localaws.sagemaker.container_call import BrokenError, ContainerCall, NoConnectionError, TimedOutError
from localaws.sagemaker.runtime_target import (
    BODY_LIMIT_BYTES,
    Answer,
    Look,
    Reached,
    error,
    error_headers,
    reach,
)

UNAVAILABLE = error(503, "ServiceUnavailable", "The service is unavailable. Try your call again.")
_QUOTED_BYTES = 4096
"""A longer body of an error is not quoted in the message."""
_RETURNED = ("Content-Type", "X-Amzn-SageMaker-Custom-Attributes")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a container answered; status 0 without an answer in time. `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True

    @property
    def good(self) -> bool:
        """Whether the caller gets it as it is."""
        return 200 <= self.status < 300 and self.complete


TIMED_OUT = Reply(0, {}, b"")


def invoke(
    scope: Scope, name: str, look: Look, headers: Mapping[str, str], body: bytes, *, limit_s: float
) -> Answer:
    """Answer one InvokeEndpoint; the arguments are those of `reach`.

    `limit_s` is how long the container may take in all.
    """
    reached = reach(scope, name, look, headers, body)
    if not isinstance(reached, Reached):
        return reached
    try:
        call = ContainerCall(reached.port, "/invocations", reached.headers, body, limit_s=limit_s)
        try:
            reply = read(call)
        finally:
            call.close()
    except NoConnectionError:
        return UNAVAILABLE
    except TimedOutError:
        reply = TIMED_OUT
    finally:
        reached.variant.release()
    if not reply.good:
        return model_error(scope, reached, reply)
    kept = {key: reply.headers[key.lower()] for key in _RETURNED if key.lower() in reply.headers}
    return 200, kept | reached.invoked, reply.body


def read(call: ContainerCall) -> Reply:
    """Read a whole answer, up to SageMaker's limit.

    Raises:
        TimedOutError: the limit was over before the body's end.
    """
    content = bytearray()
    try:
        for piece in call.pieces():
            content += piece
            if len(content) > BODY_LIMIT_BYTES:
                return Reply(call.status, call.headers, bytes(content), complete=False)
    except BrokenError:
        return Reply(call.status, call.headers, b"", complete=False)
    return Reply(call.status, call.headers, bytes(content))


def model_error(scope: Scope, reached: Reached, reply: Reply) -> Answer:
    """The answer for a container's error: ModelError (424) with the original status and body."""
    container = reached.variant.model.container_name
    original = reply.body.decode("utf-8", "replace")
    quoted = original if reply.complete and 0 < len(reply.body) <= _QUOTED_BYTES else None
    if reply.status == 0:
        original = quoted = messages.INVOCATION_TIMED_OUT.format(container=container)
    text = messages.model_error(
        reply.status,
        container,
        quoted,
        endpoint=reached.endpoint,
        account=scope.account,
        region=scope.region,
    )
    side = "CLIENT_ERROR_FROM_MODEL" if 400 <= reply.status < 500 else "SERVER_ERROR_FROM_MODEL"
    document = {
        "ErrorCode": side,
        "LogStreamArn": f"arn:aws:logs:{scope.region}:{scope.account}"
        f":log-group:/aws/sagemaker/Endpoints/{reached.endpoint}",
        "Message": text,
        "OriginalMessage": original,
        "OriginalStatusCode": reply.status,
    }
    return 424, error_headers("ModelError"), json.dumps(document).encode()
