"""The runtime's front: who asks for which endpoint by which path, and the answer or stream for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from localaws.access.bearer_token import TokenError
from localaws.access.gate import Gate, access_key_of
from localaws.protocol import HttpAnswer, HttpRequest, Scope, ServiceError, json_answer
from localaws.sagemaker.backend import SageMakerBackend

_PATH = re.compile(r"/endpoints/([^/]+)/(invocations|invocations-response-stream|openai/v1/.+)")
_CHAT = "openai/v1/chat/completions"


def is_runtime(service: str, path: str) -> bool:
    """Whether a request is the runtime's; `service` is that of its signature, which the OpenAI path lacks."""
    found = _PATH.fullmatch(path)
    return found is not None and service == ("" if found[2].startswith("openai/") else "sagemaker")


class RuntimeFront:
    """Answers the runtime's requests on one SageMaker, behind a gate."""

    def __init__(self, sagemaker: SageMakerBackend, gate: Gate) -> None:
        self._sagemaker = sagemaker
        self._gate = gate

    def answer(self, scope: Scope, request: HttpRequest) -> HttpAnswer:
        """Answer a request with a path of the runtime; `scope` is that of its signature."""
        found = _PATH.fullmatch(request.path)
        if found is None:
            raise AssertionError("bug: not a path of the runtime")
        name, kind = found.groups()
        if kind.startswith("openai/"):
            return self._openai(name, kind, request)
        streams = kind == "invocations-response-stream"
        action = "InvokeEndpointWithResponseStream" if streams else "InvokeEndpoint"
        try:
            actions = {f"sagemaker:{action}": _arn(scope, name)}
            self._gate.allow_invocation(access_key_of(request), scope.region, request, actions=actions)
            invoke = (
                self._sagemaker.invoke_endpoint_with_response_stream
                if streams
                else self._sagemaker.invoke_endpoint
            )
            return _http(invoke(scope, name, dict(request.headers), request.body))
        except ServiceError as error:
            body = json.dumps({"message": error.message, "Message": error.message}).encode()
            headers = {"Content-Type": "application/json", "x-amzn-ErrorType": error.code}
            return HttpAnswer(error.status, body, headers)

    def _openai(self, name: str, kind: str, request: HttpRequest) -> HttpAnswer:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != _CHAT or request.method != "POST":
            return _openai_error(404, "UnknownOperation", f"Only POST {_CHAT} is there.")
        if scheme.lower() != "bearer" or not token:
            return _openai_error(401, "MissingAuthenticationToken", "A bearer token is missing.")
        try:
            bearer = self._gate.bearer(token.strip())
            scope = Scope(bearer.identity.account, bearer.region)
            actions = {"sagemaker:CallWithBearerToken": "*", "sagemaker:InvokeEndpoint": _arn(scope, name)}
            self._gate.allow_invocation(bearer.access_key, scope.region, request, actions=actions)
            answer = _http(self._sagemaker.chat_completions(scope, name, dict(request.headers), request.body))
        except TokenError as error:
            return _openai_error(error.status, "InvalidToken", error.message)
        except ServiceError as error:
            return _openai_error(error.status, error.code, error.message)
        code = answer.headers.get("x-amzn-ErrorType")
        if code is not None:
            return _openai_error(answer.status, code, json.loads(answer.body)["Message"])
        return answer


def _arn(scope: Scope, name: str) -> str:
    partition = "aws-cn" if scope.region.startswith("cn-") else "aws"
    return f"arn:{partition}:sagemaker:{scope.region}:{scope.account}:endpoint/{name.lower()}"


def _http(
    found: tuple[int, dict[str, str], bytes] | tuple[int, dict[str, str], Iterator[bytes]],
) -> HttpAnswer:
    status, headers, body = found
    if isinstance(body, bytes):
        return HttpAnswer(status, body, headers)
    return HttpAnswer(status, b"", headers, pieces=body)


def _openai_error(status: int, code: str, message: str) -> HttpAnswer:
    document = {"error": {"code": code, "message": message, "type": "sagemaker_error"}}
    answer = json_answer(document, status)
    return HttpAnswer(status, answer.body, {**answer.headers, "x-amzn-ErrorType": code})
