"""Custom resources: the request to their Lambda function and the wait for its answer."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceError,
    ResourceType,
)
from localaws.protocol import Scope

RESPONSE_PATH = "/_localaws/custom-resource-responses/"
LONGEST_RESPONSE_BYTES = 4096
DEFAULT_TIMEOUT_S = 3600


def is_custom(type_name: str) -> bool:
    """Tell whether a type is a custom resource."""
    return type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource"


@dataclass
class _Pending:
    answered: threading.Event = field(default_factory=threading.Event)
    body: bytes = b""


class Responses:
    """The answers that custom resources PUT to their ResponseURL, by a token in the URL. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}

    def open(self) -> str:
        """Return the token of a new answer."""
        token = uuid.uuid4().hex
        with self._lock:
            self._pending[token] = _Pending()
        return token

    def put(self, token: str, body: bytes) -> bool:
        """Take an answer; returns False if nobody waits for it. The first answer counts."""
        with self._lock:
            pending = self._pending.get(token)
            if pending is None:
                return False
            if not pending.answered.is_set():
                pending.body = body
                pending.answered.set()
            return True

    def wait(self, token: str, timeout_s: float) -> bytes | None:
        """Return the answer, or None when it did not come in time; the token is used up."""
        pending = self._pending[token]
        answered = pending.answered.wait(timeout_s)
        with self._lock:
            del self._pending[token]
        return pending.body if answered else None


class CustomResource(ResourceType):
    """`Custom::*` and AWS::CloudFormation::CustomResource."""

    type_name = "AWS::CloudFormation::CustomResource"
    applied = frozenset(("ServiceTimeout", "ServiceToken"))
    rolls_back_by_update = True

    def __init__(self, responses: Responses) -> None:
        self._responses = responses

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Send Create."""
        return self._request(context, "Create", properties, {})

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Send Update with the old properties; another physical id in the answer means a replacement."""
        if properties["ServiceToken"] != old["ServiceToken"]:
            raise ResourceError("Modifying service token is not allowed.")
        more = {"PhysicalResourceId": physical_id, "OldResourceProperties": as_strings(old)}
        return self._request(context, "Update", properties, more)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Send Delete."""
        self._request(context, "Delete", properties, {"PhysicalResourceId": physical_id})

    def check(self, logical_id: str, properties: Properties) -> None:
        """Check the two properties that are CloudFormation's own; all others are the function's."""
        token = properties.get("ServiceToken")
        if not isinstance(token, str) or not token:
            raise ResourceError("Missing required property: ServiceToken")
        if ":lambda:" not in token:
            raise ResourceError(
                f"The local AWS sends custom resource requests to Lambda functions only, not {token}"
            )
        timeout_s = _timeout_s(properties)
        if not 1 <= timeout_s <= DEFAULT_TIMEOUT_S:
            raise ResourceError(f"ServiceTimeout must be 1 to {DEFAULT_TIMEOUT_S} seconds, not {timeout_s}")

    def replaced_by(self, name: str, old: Any, new: Any) -> bool:
        """Never: the function answers with another physical id when it replaced the resource."""
        return False

    def _request(
        self, context: ResourceContext, kind: str, properties: Properties, more: Mapping[str, Any]
    ) -> Created:
        token, request_id = self._responses.open(), str(uuid.uuid4())
        function_arn = properties["ServiceToken"]
        event = {
            "RequestType": kind,
            "ServiceToken": function_arn,
            "ResponseURL": f"{context.clients.url}{RESPONSE_PATH}{token}",
            "StackId": context.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": context.logical_id,
            "ResourceType": context.resource_type,
            "ResourceProperties": as_strings(properties),
            **more,
        }
        _, _, _, region, account, *_ = function_arn.split(":")
        client = context.clients.get("lambda", Scope(account, region))
        client.invoke(FunctionName=function_arn, InvocationType="Event", Payload=json.dumps(event))
        body = self._responses.wait(token, _timeout_s(properties))
        if body is None:
            raise ResourceError(
                "CloudFormation did not receive a response from your Custom Resource."
                f" Please check your logs for requestId [{request_id}].",
                more.get("PhysicalResourceId") or context.name(128),
            )
        return _created(body, request_id)


def _timeout_s(properties: Properties) -> int:
    value = properties.get("ServiceTimeout", DEFAULT_TIMEOUT_S)
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ResourceError(f"ServiceTimeout must be a number of seconds, not {value!r}") from error


def _created(body: bytes, request_id: str) -> Created:
    """Read an answer as CloudFormation does, which is strict about its size and its fields."""
    where = f" (RequestId: {request_id})"
    if len(body) > LONGEST_RESPONSE_BYTES:
        raise ResourceError(f"Response object is too long.{where}")
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise ResourceError(f"Invalid response body: it is not JSON.{where}") from error
    if not isinstance(answer, dict):
        raise ResourceError(f"Invalid response body: it is not an object.{where}")
    physical_id = answer.get("PhysicalResourceId")
    known_id = physical_id if isinstance(physical_id, str) and physical_id else None
    status = answer.get("Status")
    if status == "FAILED":
        raise ResourceError(
            "Received response status [FAILED] from custom resource. Message returned:"
            f" {answer.get('Reason') or 'no reason given'}{where}",
            known_id,
        )
    if status != "SUCCESS":
        raise ResourceError(f"Invalid Status {status!r} in the response.{where}", known_id)
    if known_id is None or len(known_id.encode()) > 1024:
        raise ResourceError(f"Invalid PhysicalResourceId{where}")
    data = answer.get("Data") or {}
    if not isinstance(data, dict):
        raise ResourceError(f"Invalid Data in the response: it is not an object.{where}", known_id)
    return Created(known_id, data)


def as_strings(value: Any) -> Any:
    """Turn every scalar into a string, as CloudFormation does for custom resources."""
    if isinstance(value, Mapping):
        return {key: as_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_strings(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
