"""Routes, the way of a request through reader threads and engine, and of every error to the wire."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semif_server.contract.semif import SemifContract
from semif_server.emf import EmfReporter
from semif_server.engine.engine import Engine, Submission
from semif_server.engine.prepare import PreparedRequest, Preparer
from semif_server.engine.present import present
from semif_server.engine.task import RequestOutcome, RequestResult
from semif_server.errors import (
    BodyError,
    BugError,
    Code,
    RequestError,
    engine_stopped,
    shutting_down,
    starting,
)
from semif_server.logs import log_event
from semif_server.metrics import CONTENT_TYPE, Metrics
from semif_server.request_body import check_headers, read_body
from semif_server.request_log import DISCONNECTED, RequestRecord, open_record

_RECORD: Final = "semif.record"
_QUIET_ROUTES: Final = frozenset({"/ping", "/metrics"})  # asked every few seconds by machines

_log = logging.getLogger("semif_server.http")


def create_app(
    engine: Engine,
    preparer: Preparer,
    contract: SemifContract,
    *,
    max_body_bytes: int,
    metrics: Metrics,
    emf: EmfReporter | None,
) -> FastAPI:
    """The ASGI app: GET /ping, GET /metrics, POST /invocations. Its lifespan ends with emf's last line."""

    def observe(record: RequestRecord) -> None:
        metrics.observe(record)
        if emf is not None:
            emf.observe(record)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        if emf is not None:
            emf.flush()

    routes = _Routes(engine, preparer, contract, metrics, max_body_bytes)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    app.add_middleware(RequestBoundary, observe=observe)
    app.add_exception_handler(RequestError, _answer_request_error)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    app.get("/ping", response_model=None)(routes.ping)
    app.get("/metrics", response_model=None)(routes.show_metrics)
    app.post("/invocations", response_model=None)(routes.invocations)
    return app


@dataclass(frozen=True, slots=True)
class _Routes:
    engine: Engine
    preparer: Preparer
    contract: SemifContract
    metrics: Metrics
    max_body_bytes: int

    async def ping(self) -> Response:
        if self.engine.is_closing:
            raise shutting_down()
        if self.engine.has_stopped:
            raise engine_stopped()
        if not self.engine.is_ready:
            raise starting()
        return _json_response({}, 200)

    async def show_metrics(self) -> Response:
        return Response(self.metrics.render(), media_type=CONTENT_TYPE)

    async def invocations(self, request: Request) -> Response:
        arrived_s = time.perf_counter()
        check_headers(request.headers)
        body = await read_body(request, self.max_body_bytes)
        # A permit is for whole requests: a slow sender holds none.
        with self.engine.permit():
            prepared = await asyncio.to_thread(self._understand, body)
            outcome = await _outcome(self.engine.submit(prepared, arrived_s), request.receive)
            result, content = await asyncio.to_thread(self._answer, prepared, outcome, arrived_s)
        request.scope[_RECORD].note(result)
        return Response(content, media_type="application/json")

    def _understand(self, body: bytes) -> PreparedRequest:
        return self.preparer.prepare(self.contract.read(body))

    def _answer(
        self, prepared: PreparedRequest, outcome: RequestOutcome, arrived_s: float
    ) -> tuple[RequestResult, bytes]:
        result = present(prepared, outcome, arrived_s)
        return result, _to_json(self.contract.write(result))


async def _outcome(submission: Submission, receive: Receive) -> RequestOutcome:
    """Wait for the engine's work, and end it when the client goes. Raises ClientDisconnect then."""
    answered = asyncio.wrap_future(submission.future)
    # The body is read, so the next thing that comes is the client's leave.
    left = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((answered, left), return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise ClientDisconnect
        return answered.result()
    finally:
        left.cancel()
        answered.cancel()  # nobody looks at what comes of it any more
        submission.cancel()


class RequestBoundary:
    """Around all routes: one record and log line per request, and no exception beyond this point."""

    def __init__(self, app: ASGIApp, observe: Callable[[RequestRecord], None]) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event stream."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        record = scope[_RECORD] = open_record(scope["path"], scope["headers"])

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except ClientDisconnect:
            record.code = DISCONNECTED
        except asyncio.CancelledError:
            # Only a stopping server cancels requests, and each still gets its answer. Nobody waits for the
            # cancellation itself.
            await self._answer(shutting_down(), scope, receive, send_recorded)
        except Exception as error:
            bug = BugError(incident=record.id)
            _log.error("a bug: a request failed", exc_info=error, extra={"fields": {"id": record.id}})
            await self._answer(bug, scope, receive, send_recorded)
        finally:
            record.total_s = time.perf_counter() - started_s
            self._observe(record)
            if record.route not in _QUIET_ROUTES or record.status != 200:
                log_event(_log, "request", **record.fields())

    async def _answer(self, error: RequestError, scope: Scope, receive: Receive, send: Send) -> None:
        record: RequestRecord = scope[_RECORD]
        if record.status is None:
            record.code = error.code.value
            await _error_response(error)(scope, receive, send)


def _to_json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _json_response(content: object, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(_to_json(content), status, headers=headers, media_type="application/json")


def _error_response(error: RequestError) -> Response:
    return _json_response(error.body(), error.status, error.headers)


async def _answer_request_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestError):
        raise error
    request.scope[_RECORD].code = error.code.value
    return _error_response(error)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    """404 and 405 are the router's; nothing else raises HTTPException here."""
    if not isinstance(error, HTTPException) or error.status_code not in {404, 405}:
        raise error
    ways = "GET /ping, GET /metrics and POST /invocations"
    refusal = (
        BodyError(Code.NOT_FOUND, f"There is nothing at this path. There are {ways}.")
        if error.status_code == 404
        else BodyError(Code.METHOD_NOT_ALLOWED, f"This path has another method. There are {ways}.")
    )
    request.scope[_RECORD].code = refusal.code.value
    return _json_response(refusal.body(), refusal.status, dict(error.headers or {}))
