"""InvokeEndpoint: a request to the container that serves, and SageMaker's mapping of what comes back."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from localaws.protocol import Scope
from localaws.sagemaker import messages
from localaws.sagemaker.container import HOST
from localaws.sagemaker.hosting import HostedVariant
from localaws.sagemaker.lifecycle import EndpointState, Status

BODY_LIMIT_BYTES = 25 * 1024 * 1024
_QUOTED_BYTES = 4096
"""A longer body of an error is not quoted in the message."""
_FORWARDED = (
    "Content-Type",
    "Accept",
    "X-Amzn-SageMaker-Custom-Attributes",
    "X-Amzn-SageMaker-Inference-Id",
)
_RETURNED = ("Content-Type", "X-Amzn-SageMaker-Custom-Attributes")

Target = tuple[EndpointState, Sequence[HostedVariant]]
Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a container answered; status 0 without an answer in time."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True


class _NoConnectionError(Exception):
    """The container does not answer at all."""


def invoke(
    scope: Scope,
    name: str,
    look: Callable[[], Target | None],
    headers: Mapping[str, str],
    body: bytes,
    *,
    limit_s: float,
) -> Answer:
    """Answer one InvokeEndpoint.

    Args:
        scope: the caller's account and region.
        name: the endpoint's name as in the request.
        look: gives the endpoint's state and running variants, None if there is no such endpoint.
        headers: the request's headers; only those that SageMaker passes on reach the container.
        body: the request's body.
        limit_s: how long the container may take in all.
    """
    given = {key.lower(): value for key, value in headers.items()}
    if len(body) > BODY_LIMIT_BYTES:
        return _error(413, "RequestEntityTooLarge", f"The body has more than {BODY_LIMIT_BYTES} bytes.")
    while True:
        target = look()
        if target is None:
            return _error(400, "ValidationError", messages.endpoint_unknown(name, scope.account))
        state, hosted = target
        if state.status not in {Status.IN_SERVICE, Status.UPDATING} or not hosted:
            return _error(400, "ValidationError", messages.endpoint_not_in_service(name, scope.account))
        wanted = given.get("x-amzn-sagemaker-target-variant")
        variant = _choose(hosted, wanted)
        if variant is None:
            return _error(400, "ValidationError", messages.variant_unknown(wanted or "", name))
        if variant.acquire():
            break
    passed = {key: given[key.lower()] for key in _FORWARDED if key.lower() in given}
    try:
        reply = _exchange(variant.container.port, passed, body, limit_s)
    except _NoConnectionError:
        return _error(503, "ServiceUnavailable", "The service is unavailable. Try your call again.")
    finally:
        variant.release()
    return _answer(scope, state.name, variant, reply)


def _choose(hosted: Sequence[HostedVariant], wanted: str | None) -> HostedVariant | None:
    if wanted is not None:
        return next((one for one in hosted if one.placement.variant.name == wanted), None)
    weights = [one.placement.variant.weight for one in hosted]
    if not any(weights):
        weights = [1.0] * len(hosted)
    return secrets.SystemRandom().choices(hosted, weights)[0]


def _exchange(port: int, headers: Mapping[str, str], body: bytes, limit_s: float) -> _Reply:
    """Send the request and read the answer within `limit_s` in all, however slowly it drips."""
    connection = http.client.HTTPConnection(HOST, port, timeout=limit_s)
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        if connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, expire)
    timer.daemon = True
    status, received = 0, dict[str, str]()
    try:
        connection.connect()
        timer.start()
        connection.request("POST", "/invocations", body, {**headers})
        response = connection.getresponse()
        status, received = response.status, dict(response.getheaders())
        content = response.read(BODY_LIMIT_BYTES + 1)
        complete = len(content) <= BODY_LIMIT_BYTES and not expired.is_set()
    except (OSError, http.client.HTTPException) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            return _Reply(0, {}, b"")
        if status == 0:
            raise _NoConnectionError from error
        return _Reply(status, received, b"", complete=False)
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():
        return _Reply(0, {}, b"")
    return _Reply(status, received, content, complete)


def _answer(scope: Scope, endpoint: str, variant: HostedVariant, reply: _Reply) -> Answer:
    if 200 <= reply.status < 300 and reply.complete:
        lower = {key.lower(): value for key, value in reply.headers.items()}
        kept = {key: lower[key.lower()] for key in _RETURNED if key.lower() in lower}
        return 200, kept | {"x-Amzn-Invoked-Production-Variant": variant.placement.variant.name}, reply.body
    container = variant.model.container_name
    original = reply.body.decode("utf-8", "replace")
    quoted = original if reply.complete and 0 < len(reply.body) <= _QUOTED_BYTES else None
    if reply.status == 0:
        original = quoted = messages.INVOCATION_TIMED_OUT.format(container=container)
    text = messages.model_error(
        reply.status, container, quoted, endpoint=endpoint, account=scope.account, region=scope.region
    )
    side = "CLIENT_ERROR_FROM_MODEL" if 400 <= reply.status < 500 else "SERVER_ERROR_FROM_MODEL"
    document = {
        "ErrorCode": side,
        "LogStreamArn": f"arn:aws:logs:{scope.region}:{scope.account}"
        f":log-group:/aws/sagemaker/Endpoints/{endpoint}",
        "Message": text,
        "OriginalMessage": original,
        "OriginalStatusCode": reply.status,
    }
    return 424, _error_headers("ModelError"), json.dumps(document).encode()


def _error(status: int, code: str, message: str) -> Answer:
    return status, _error_headers(code), json.dumps({"Message": message}).encode()


def _error_headers(code: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "x-amzn-ErrorType": code}
