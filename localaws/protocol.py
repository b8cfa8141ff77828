"""The wire: AWS requests to operation parameters, and results to answers, by botocore's service models.

A backend is any object with a method per operation, named in snake_case:
``def create_model(self, scope: Scope, params: Mapping[str, Any]) -> dict[str, Any]``.
Parameters and results have the keys of the service model. Errors are raised as `ServiceError`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore import xform_name
from botocore.model import OperationNotFoundError
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import SERIALIZERS, SerializationContext
from moto.core.utils import get_service_model
from werkzeug.datastructures import Headers, MultiDict

from localaws.validation import violations

log = logging.getLogger("localaws.protocol")


@dataclass(frozen=True)
class Scope:
    """Whose resources a request is about: 12-digit account and region name."""

    account: str
    region: str


class ServiceError(Exception):
    """An error that the caller sees as AWS would show it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True)
class HttpRequest:
    """One request as it came in. Header names are matched without regard to case."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class HttpAnswer:
    """One answer: status, body and headers without Content-Length.

    `pieces`, where there are some, are a body that is sent as it comes, in place of `body`.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterator[bytes] | None = None


def json_answer(value: object, status: int = 200) -> HttpAnswer:
    """Answer with a JSON document."""
    return HttpAnswer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def operation_name(request: HttpRequest) -> str:
    """Return the operation that a query or JSON request names, or an empty string."""
    target = request.headers.get("X-Amz-Target")
    if target:
        return target.rsplit(".", 1)[-1]
    return _form(request).get("Action", "")


def answer(service: str, backend: object, scope: Scope, request: HttpRequest) -> HttpAnswer:
    """Run one request of a query or JSON service (botocore's name) on its backend."""
    model: ServiceModel = get_service_model(service)
    request_id = str(uuid.uuid4())
    name = operation_name(request)
    try:
        operation: OperationModel = model.operation_model(name)
    except OperationNotFoundError:
        error = ServiceError("InvalidAction", f"Could not find operation {name!r} of {service}.")
        return _error_answer(model, error, request_id)
    try:
        params = _decode(model, operation, request)
        found = violations(operation.input_shape, params)
        if found:
            usual = "ValidationError" if model.protocol == "query" else "ValidationException"
            code = getattr(backend, "invalid_request_code", usual)
            plural = "s" if len(found) > 1 else ""
            raise ServiceError(code, f"{len(found)} validation error{plural} detected: {'; '.join(found)}")
        method = getattr(backend, xform_name(operation.name), None)
        if method is None:
            raise ServiceError(
                "UnsupportedOperation",
                f"The local AWS does not implement {operation.name} of {service};"
                f" add it to {type(backend).__name__}.",
            )
        return _encode(model, operation, method(scope, params), request_id)
    except ServiceError as error:
        return _error_answer(model, error, request_id)
    except Exception as error:
        log.exception("%s %s failed", service, operation.name)
        bug = ServiceError("InternalFailure", f"A bug of the local AWS: {type(error).__name__}: {error}", 500)
        return _error_answer(model, bug, request_id)


def refused(service: str, error: ServiceError) -> HttpAnswer:
    """Answer a request of a query or JSON service (botocore's name) with an error."""
    return _error_answer(get_service_model(service), error, str(uuid.uuid4()))


def _wire(model: ServiceModel) -> str:
    """Return the protocol that boto3 speaks to a service: JSON where the model prefers CBOR and has both."""
    return "json" if "json" in model.metadata.get("protocols", ()) else str(model.protocol)


def _form(request: HttpRequest) -> dict[str, str]:
    text = request.body.decode("utf-8", "replace") if request.body else request.query
    return dict(parse_qsl(text, keep_blank_values=True))


def _decode(model: ServiceModel, operation: OperationModel, request: HttpRequest) -> dict[str, Any]:
    parser = PROTOCOL_PARSERS[_wire(model)](operation)
    try:
        parsed: dict[str, Any] = parser.parse(
            {
                "method": request.method,
                "values": MultiDict(_form(request)) if model.protocol == "query" else MultiDict(),
                "headers": request.headers,
                "body": request.body or b"{}",
                "url_path": request.path,
                "url_params": {},
            }
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ServiceError("SerializationException", f"The request cannot be read: {error}") from error
    return parsed


def _encode(
    model: ServiceModel, operation: OperationModel, result: Mapping[str, Any] | None, request_id: str
) -> HttpAnswer:
    serializer = SERIALIZERS[_wire(model)](operation, context=SerializationContext(request_id))
    encoded = serializer.serialize(dict(result or {}))
    body = encoded["body"]
    headers = {**encoded["headers"], "x-amzn-RequestId": request_id}
    return HttpAnswer(encoded["status_code"], body.encode() if isinstance(body, str) else body, headers)


def _error_answer(model: ServiceModel, error: ServiceError, request_id: str) -> HttpAnswer:
    if model.protocol == "query":
        fault = "Sender" if error.status < 500 else "Receiver"
        body = (
            f'<ErrorResponse xmlns="{model.metadata["xmlNamespace"]}"><Error><Type>{fault}</Type>'
            f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return HttpAnswer(
            error.status, body.encode(), {"Content-Type": "text/xml", "x-amzn-RequestId": request_id}
        )
    content_type = f"application/x-amz-json-{model.metadata.get('jsonVersion', '1.1')}"
    document = {"__type": error.code, "message": error.message}
    return HttpAnswer(
        error.status,
        json.dumps(document).encode(),
        {"Content-Type": content_type, "x-amzn-RequestId": request_id, "x-amzn-ErrorType": error.code},
    )
