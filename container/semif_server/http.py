"""Routes, body limits, and the way of every error to the wire."""

import asyncio
import json
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semif_server.contract.semif import SemifContract
from semif_server.engine.engine import Engine
from semif_server.engine.prepare import PreparedRequest, Preparer
from semif_server.errors import BodyError, BugError, Code, RequestError, engine_stopped, shutting_down
from semif_server.logs import log_event

# A sender that is told "too large" while it still sends may never read the answer, so what it has on the
# way is taken and thrown away, within reason.
_DISCARD_BYTES: Final = 1_048_576
_DISCARD_S: Final = 0.5
_RECORD: Final = "semif.record"

_log = logging.getLogger("semif_server.http")


@dataclass(slots=True)
class RequestRecord:
    """What the log line of a request says; filled on the way."""

    id: str
    status: int | None = None
    code: str = "ok"
    decisions: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0


def create_app(
    engine: Engine, preparer: Preparer, contract: SemifContract, *, max_body_bytes: int
) -> FastAPI:
    """The ASGI app: GET /ping, POST /invocations."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(RequestBoundary, engine=engine)
    app.add_exception_handler(RequestError, _answer_request_error)
    app.add_exception_handler(HTTPException, _answer_http_exception)

    def understand(body: bytes) -> PreparedRequest:
        return preparer.prepare(contract.read(body))

    @app.get("/ping", response_model=None)
    async def ping() -> Response:
        if engine.has_stopped:
            raise engine_stopped()
        if not engine.is_ready:
            raise shutting_down()
        return _json_response({}, 200)

    @app.post("/invocations", response_model=None)
    async def invocations(request: Request) -> Response:
        arrived_s = time.perf_counter()
        record: RequestRecord = request.scope[_RECORD]
        _check_headers(request)
        body = await _read_body(request, max_body_bytes)
        with engine.permit():
            prepared = await asyncio.to_thread(understand, body)
            result = await asyncio.wrap_future(engine.submit(prepared, arrived_s))
        record.decisions = len(result.results)
        record.input_tokens = sum(one.input_tokens for one in result.results)
        record.cached_tokens = sum(one.cached_tokens for one in result.results)
        return _json_response(contract.write(result), 200)

    return app


class RequestBoundary:
    """Around all routes: one log line per request, and no exception beyond this point."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event stream."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        record = scope[_RECORD] = RequestRecord(id=secrets.token_hex(8))

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except ClientDisconnect:
            record.code = "client_disconnected"
        except asyncio.CancelledError:
            # Only a stopping server cancels requests. Each still gets its answer.
            await self._answer(shutting_down(), scope, receive, send_recorded)
            raise
        except Exception as error:
            bug = BugError(incident=record.id)
            _log.error("a bug: a request failed", exc_info=error, extra={"fields": {"id": record.id}})
            await self._answer(bug, scope, receive, send_recorded)
        finally:
            # Health checks come every few seconds and say nothing while they succeed.
            if scope["path"] != "/ping" or record.status != 200:
                _log_request(record, time.perf_counter() - started_s)

    async def _answer(self, error: RequestError, scope: Scope, receive: Receive, send: Send) -> None:
        record: RequestRecord = scope[_RECORD]
        record.code = error.code.value
        if record.status is None:
            await _error_response(error)(scope, receive, send)


def _log_request(record: RequestRecord, elapsed_s: float) -> None:
    log_event(
        _log,
        "request",
        id=record.id,
        status=record.status,
        code=record.code,
        decisions=record.decisions,
        input_tokens=record.input_tokens,
        cached_tokens=record.cached_tokens,
        ms=round(elapsed_s * 1000, 1),
    )


def _check_headers(request: Request) -> None:
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = [
        value.strip(' "').lower()
        for name, _, value in (parameter.partition("=") for parameter in parameters.split(";"))
        if name.strip().lower() == "charset"
    ]
    if media_type.strip().lower() != "application/json" or charset not in ([], ["utf-8"], ["utf8"]):
        raise BodyError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            "The content type must be application/json (UTF-8). Set Content-Type.",
        )
    if request.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise BodyError(
            Code.UNSUPPORTED_CONTENT_ENCODING, "Compressed bodies are not read here. Send the JSON as it is."
        )


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    # A number too long for int() is too large as well.
    too_large = declared.isdecimal() and (len(declared) > 18 or int(declared) > limit_bytes)
    stream = request.stream()
    chunks: list[bytes] = []
    size_bytes = 0
    if not too_large:
        async for chunk in stream:
            size_bytes += len(chunk)
            if size_bytes > limit_bytes:
                too_large = True
                break
            chunks.append(chunk)
    if not too_large:
        return b"".join(chunks)
    chunks.clear()
    if request.headers.get("expect", "").lower() != "100-continue":
        await _discard(stream)
    raise BodyError(
        Code.BODY_TOO_LARGE,
        f"The body is larger than {limit_bytes:,} bytes. Shorten it or raise SEMIF_MAX_BODY_BYTES.",
    )


async def _discard(stream: Any) -> None:
    size_bytes = 0
    try:
        async with asyncio.timeout(_DISCARD_S):
            async for chunk in stream:
                size_bytes += len(chunk)
                if size_bytes > _DISCARD_BYTES:
                    return
    except TimeoutError:
        return


def _json_response(content: object, status: int, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers=headers, media_type="application/json")


def _error_response(error: RequestError) -> Response:
    headers = {} if error.retry_after_s is None else {"retry-after": f"{error.retry_after_s:.0f}"}
    return _json_response(error.body(), error.status, headers)


async def _answer_request_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestError):
        raise error
    record: RequestRecord = request.scope[_RECORD]
    record.code = error.code.value
    return _error_response(error)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    """404 and 405 are the router's; nothing else raises HTTPException here."""
    if not isinstance(error, HTTPException) or error.status_code not in {404, 405}:
        raise error
    refusal = (
        BodyError(Code.NOT_FOUND, "There is nothing at this path. Use GET /ping or POST /invocations.")
        if error.status_code == 404
        else BodyError(Code.METHOD_NOT_ALLOWED, "This path has another method: GET /ping, POST /invocations.")
    )
    request.scope[_RECORD].code = refusal.code.value
    return _json_response(refusal.body(), refusal.status, dict(error.headers or {}))
