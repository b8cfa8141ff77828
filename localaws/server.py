"""The web application: the services of our own, administration, and moto for the rest."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moto.iam.models import get_account_id_from
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.datastructures import EnvironHeaders, Headers
from werkzeug.serving import BaseWSGIServer, make_server

from localaws import moto_gaps
from localaws.access.gate import Gate
from localaws.access.organizations import OrganizationTableError
from localaws.api_faults import PREFIX as API_FAULTS
from localaws.api_faults import SERVICES as SERVICES_WITH_FAULTS
from localaws.api_faults import ApiFaultError, ApiFaults, ConnectionDroppedError
from localaws.api_faults import check as check_api_faults
from localaws.clients import Clients
from localaws.cloudformation.backend import CloudFormationBackend
from localaws.cloudformation.custom_resource import RESPONSE_PATH
from localaws.codebuild.backend import CodeBuildBackend
from localaws.codebuild.faults import PREFIX as CODEBUILD_FAULTS
from localaws.functions.runtime import LambdaRuntime
from localaws.protocol import HttpAnswer, HttpRequest, Scope, ServiceError, answer, json_answer
from localaws.registry import ecr_gaps
from localaws.registry.faults import PREFIX as ECR_FAULTS
from localaws.registry.faults import RegistryFaultError, RegistryFaults
from localaws.registry.faults import check as check_registry_faults
from localaws.registry.service import RegistryService
from localaws.sagemaker.backend import SageMakerBackend
from localaws.sagemaker.runtime_front import RuntimeFront, is_runtime
from localaws.service_quotas import ServiceQuotasBackend

log = logging.getLogger("localaws.server")

HOST = "127.0.0.1"
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/aws4_request")


@dataclass(frozen=True)
class Settings:
    """How the local AWS runs.

    `ready_s` is how long an endpoint takes to find capacity, `poll_s` the longest wait between two retries of
    a state machine, `node_modules` where functions on node find the AWS SDK.
    """

    port: int
    region: str
    ready_s: float
    poll_s: float
    node_modules: Path

    @property
    def url(self) -> str:
        """Return the URL of every service."""
        return f"http://{HOST}:{self.port}"


class LocalAwsApp:
    """The WSGI application."""

    def __init__(self, settings: Settings) -> None:
        moto_gaps.configure(longest_wait_s=settings.poll_s)
        self._registry_faults = RegistryFaults()
        ecr_gaps.fill(self._registry_faults)
        self._settings = settings
        clients = Clients(settings.url)
        self._functions = LambdaRuntime(clients, settings.node_modules, settings.poll_s)
        self._cloudformation = CloudFormationBackend(clients)
        self._registry = RegistryService(clients, self._registry_faults)
        self._sagemaker = SageMakerBackend(settings.url, settings.ready_s, blobs=lambda: self._registry.blobs)
        self._codebuild = CodeBuildBackend(clients, self._registry.docker_folder)
        self._api_faults = ApiFaults()
        self._service_quotas = ServiceQuotasBackend(
            self._sagemaker.quotas, lambda: int(self._codebuild.settings()["concurrent_builds"])
        )
        self._simple: Mapping[str, tuple[str, object]] = {
            "cloudformation": ("cloudformation", self._cloudformation),
            "codebuild": ("codebuild", self._codebuild),
            "sagemaker": ("sagemaker", self._sagemaker),
            "servicequotas": ("service-quotas", self._service_quotas),
        }
        self._gate = Gate()
        self._runtime = RuntimeFront(self._sagemaker, self._gate)
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._administration: Mapping[tuple[str, str], Callable[[HttpRequest], object]] = {
            ("GET", "/_localaws/health"): lambda _: {"status": "ok"},
            ("GET", "/_localaws/builds"): lambda _: self._codebuild.settings(),
            ("PUT", "/_localaws/builds"): self._put_builds,
            ("GET", "/_localaws/faults"): lambda _: self._faults(),
            ("PUT", "/_localaws/faults"): self._put_faults,
            ("GET", "/_localaws/quotas"): lambda _: self._sagemaker.quotas.render(),
            ("PUT", "/_localaws/quotas"): self._put_quotas,
            ("GET", "/_localaws/endpoints"): lambda _: self._sagemaker.times(),
            ("PUT", "/_localaws/endpoints"): self._put_times,
            ("PUT", "/_localaws/images"): self._put_image,
            ("GET", "/_localaws/organizations"): lambda _: self._gate.organizations.table(),
            ("PUT", "/_localaws/organizations"): self._put_organizations,
            ("PUT", "/_localaws/registry/login"): lambda request: self._registry.log_in(_document(request)),
            ("PUT", "/_localaws/registry/push"): lambda request: self._registry.push(_document(request)),
            ("PUT", "/_localaws/registry/pull"): lambda request: self._registry.pull(_document(request)),
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        path = environ.get("PATH_INFO", "")
        scope, service = caller(environ, self._settings.region)
        ours = path.startswith("/_localaws/") or service in {
            "cloudformation",
            "codebuild",
            "sagemaker",
            "lambda",
            "states",
            "sts",
            *SERVICES_WITH_FAULTS,
        }
        if not ours and service != "cloudtrail" and not is_runtime(service, path):
            return self._moto(environ, start_response)  # type: ignore[no-any-return]
        request = read_request(environ)
        try:
            found = self._api_faults.around(service, request, lambda: self._answer(scope, service, request))
        except ConnectionDroppedError:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, path)
            found = json_answer({"message": f"A bug of the local AWS: {type(error).__name__}: {error}"}, 500)
        if found is None:
            body = moto_gaps.rewritten(service, request)
            environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            return self._moto(environ, start_response)  # type: ignore[no-any-return]
        if found.pieces is not None:
            start_response(f"{found.status} ", [*found.headers.items()])
            return found.pieces
        headers = [*found.headers.items(), ("Content-Length", str(len(found.body)))]
        start_response(f"{found.status} ", headers)
        return [found.body]

    def end_builds(self) -> None:
        """Stop every build; their last lines and states are written while requests are still answered."""
        self._codebuild.close()

    def close(self) -> None:
        """Stop every process that was started for a function or an endpoint."""
        self.end_builds()
        self._functions.close()
        self._sagemaker.close()
        self._registry.close()

    def _answer(self, scope: Scope, service: str, request: HttpRequest) -> HttpAnswer | None:
        if request.path.startswith("/_localaws/"):
            return self._administer(request)
        if is_runtime(service, request.path):
            return self._runtime.answer(scope, request)
        match service:
            case "cloudformation" | "codebuild" | "sagemaker" | "servicequotas":
                name, backend = self._simple[service]
                return answer(name, backend, scope, request)
            case "lambda":
                return self._functions.answer(scope, request)
            case "sts":
                return self._gate.assume_role(scope.region, request)
        return moto_gaps.answer(service, request)

    def _administer(self, request: HttpRequest) -> HttpAnswer:
        if not is_local(request.headers):
            return json_answer({"code": "Forbidden", "message": "Only for programs: ask 127.0.0.1"}, 403)
        if request.path.startswith(RESPONSE_PATH):
            taken = self._cloudformation.responses.put(request.path.removeprefix(RESPONSE_PATH), request.body)
            return HttpAnswer(200 if taken else 403)
        action = self._administration.get((request.method, request.path))
        if action is None:
            return json_answer({"message": f"No administration at {request.method} {request.path}"}, 404)
        try:
            return json_answer(action(request))
        except ServiceError as error:
            return json_answer({"code": error.code, "message": error.message}, error.status)

    def _put_faults(self, request: HttpRequest) -> object:
        document = _document(request)
        builds = {key: entry for key, entry in document.items() if key.startswith(CODEBUILD_FAULTS)}
        faults = self._codebuild.read_faults(builds)
        pushes = {key: entry for key, entry in document.items() if key.startswith(ECR_FAULTS)}
        try:
            check_registry_faults(pushes)
            calls = {key: entry for key, entry in document.items() if key.startswith(API_FAULTS)}
            check_api_faults(calls)
        except (RegistryFaultError, ApiFaultError) as error:
            raise ServiceError("ValidationException", str(error)) from error
        ours = builds | pushes | calls
        self._sagemaker.put_faults({key: entry for key, entry in document.items() if key not in ours})
        self._codebuild.put_faults(faults)
        self._registry_faults.put(pushes)
        self._api_faults.put(calls)
        return self._faults()

    def _faults(self) -> object:
        builds_and_pushes = self._codebuild.faults() | self._registry_faults.render()
        return self._sagemaker.faults() | builds_and_pushes | self._api_faults.render()

    def _put_quotas(self, request: HttpRequest) -> object:
        self._sagemaker.put_quotas(_document(request))
        return self._sagemaker.quotas.render()

    def _put_times(self, request: HttpRequest) -> object:
        self._sagemaker.put_times(_document(request))
        return self._sagemaker.times()

    def _put_builds(self, request: HttpRequest) -> object:
        self._codebuild.put_settings(_document(request))
        return self._codebuild.settings()

    def _put_organizations(self, request: HttpRequest) -> object:
        try:
            self._gate.organizations.put(_document(request))
        except OrganizationTableError as error:
            raise ServiceError("ValidationException", str(error)) from error
        return self._gate.organizations.table()

    def _put_image(self, request: HttpRequest) -> object:
        return {"uri": self._sagemaker.put_image(_document(request))}


def _document(request: HttpRequest) -> Mapping[str, Any]:
    try:
        document = json.loads(request.body)
    except ValueError as error:
        raise ServiceError("ValidationException", f"The body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ServiceError("ValidationException", "The body is not a JSON object")
    return document


def is_local(headers: Headers) -> bool:
    """Whether a request of the administration, which can start programs, comes from no web page.

    A page sends its Origin; one that was led here by a name of its own (DNS rebinding) sends that as Host.
    """
    host = headers.get("Host", "").rsplit(":", 1)[0]
    return host in {HOST, "localhost"} and "Origin" not in headers


def caller(environ: Mapping[str, Any], default_region: str) -> tuple[Scope, str]:
    """Return who signed a request for which service; the account is moto's for the access key."""
    found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    if found is None:
        return Scope(get_account_id_from(""), default_region), ""
    key, region, service = found.groups()
    return Scope(get_account_id_from(key), region), service


def read_request(environ: Mapping[str, Any]) -> HttpRequest:
    """Read a request with its body."""
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    if length:
        body = stream.read(int(length))
    else:
        body = stream.read() if environ.get("wsgi.input_terminated") else b""
    return HttpRequest(
        environ["REQUEST_METHOD"],
        environ.get("PATH_INFO", ""),
        environ.get("QUERY_STRING", ""),
        Headers(list(EnvironHeaders(dict(environ)))),
        body,
    )


class _QuietHandler(MotoRequestHandler):
    """Requests are not logged one by one."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


def listen(settings: Settings) -> tuple[BaseWSGIServer, LocalAwsApp]:
    """Bind the port and build the application; `serve_forever` of the server runs it."""
    app = LocalAwsApp(settings)
    server = make_server(HOST, settings.port, app, threaded=True, request_handler=_QuietHandler)
    return server, app


def log_to_stderr(level: int) -> None:
    """Write this package's log to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("localaws").setLevel(level)
