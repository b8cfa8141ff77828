"""Lambda's Invoke operation: which function, which process, which log group."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import logging
import re
import shutil
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError
from moto.awslambda.models import lambda_backends

from localaws.clients import Clients
from localaws.functions.environment import Environment, Outcome
from localaws.node import node
from localaws.protocol import HttpAnswer, HttpRequest, Scope

log = logging.getLogger("localaws.functions")

_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_CONFIGURE = re.compile(r"/2015-03-31/functions(?:/([^/]+)/configuration)?/?")
_HERE = Path(__file__).parent
_IDLE_S = 300.0
_LONGEST_PAYLOAD_BYTES = 6_291_556


@dataclass(frozen=True)
class _Function:
    """A function's configuration at one moment."""

    scope: Scope
    name: str
    arn: str
    runtime: str
    handler: str
    role: str
    timeout_s: float
    memory_mib: int
    variables: Mapping[str, str]
    code: bytes
    log_group: str

    @property
    def fingerprint(self) -> str:
        """Return what tells environments of different code or configuration apart."""
        told = repr(
            (self.arn, self.runtime, self.handler, self.role, self.timeout_s, sorted(self.variables.items()))
        )
        return hashlib.sha256(self.code + told.encode() + self.log_group.encode()).hexdigest()


class FunctionNotFoundError(Exception):
    """No function has this name."""


class LambdaRuntime:
    """Runs functions; moto keeps their configuration and code."""

    def __init__(self, clients: Clients, node_modules: Path, retry_delay_s: float) -> None:
        self._clients = clients
        self._node_modules = node_modules
        self._retry_delay_s = retry_delay_s
        self._work = Path(tempfile.mkdtemp(prefix="localaws-lambda-"))
        self._lock = threading.Lock()
        self._idle: dict[str, list[Environment]] = {}
        self._busy: set[Environment] = set()
        self._log_groups: dict[tuple[Scope, str], str] = {}
        self._closed = False

    def answer(self, scope: Scope, request: HttpRequest) -> HttpAnswer | None:
        """Answer an Invoke; None for every other request, which is moto's to answer."""
        found = _INVOKE.fullmatch(request.path)
        if found is None or request.method != "POST":
            self._note_log_group(scope, request)
            return None
        try:
            function = self._function(scope, unquote(found.group(1)))
        except FunctionNotFoundError as error:
            document = {"Type": "User", "Message": f"Function not found: {error}"}
            headers = {"Content-Type": "application/json", "x-amzn-ErrorType": "ResourceNotFoundException"}
            return HttpAnswer(404, json.dumps(document).encode(), headers)
        return self._invoke(function, request)

    def close(self) -> None:
        """Stop every environment."""
        with self._lock:
            self._closed = True
            environments = [*self._busy, *(item for items in self._idle.values() for item in items)]
            self._idle.clear()
        for environment in environments:
            environment.close()
        shutil.rmtree(self._work, ignore_errors=True)

    # -- Invoke ----------------------------------------------------------------------------------------------

    def _invoke(self, function: _Function, request: HttpRequest) -> HttpAnswer:
        try:
            event = json.loads(request.body or b"{}")
        except ValueError as error:
            document = {"Type": "User", "Message": f"Could not parse request body into json: {error}"}
            headers = {
                "Content-Type": "application/json",
                "x-amzn-ErrorType": "InvalidRequestContentException",
            }
            return HttpAnswer(400, json.dumps(document).encode(), headers)
        match request.headers.get("X-Amz-Invocation-Type", "RequestResponse"):
            case "DryRun":
                return HttpAnswer(204)
            case "Event":
                threading.Thread(
                    target=self._run_with_retries,
                    args=(function, event),
                    name=f"lambda {function.name}",
                    daemon=True,
                ).start()
                return HttpAnswer(202)
            case _:
                outcome = self._run(function, event)
        headers = {"Content-Type": "application/json", "X-Amz-Executed-Version": "$LATEST"}
        if outcome.failed:
            headers["X-Amz-Function-Error"] = "Unhandled"
        if request.headers.get("X-Amz-Log-Type") == "Tail":
            headers["X-Amz-Log-Result"] = base64.b64encode(outcome.printed.encode()[-4096:]).decode()
        return HttpAnswer(200, outcome.payload.encode(), headers)

    def _run_with_retries(self, function: _Function, event: Any) -> None:
        """Run an asynchronous invocation; Lambda tries a failed one twice more unless told otherwise."""
        attempts = 1 + self._retries(function)
        for attempt in range(attempts):
            if not self._run(function, event).failed:
                return
            if attempt + 1 < attempts:
                time.sleep(self._retry_delay_s * (attempt + 1))

    def _retries(self, function: _Function) -> int:
        try:
            client = self._clients.get("lambda", function.scope)
            found = client.get_function_event_invoke_config(FunctionName=function.name)
        except ClientError:
            return 2
        return int(found.get("MaximumRetryAttempts", 2))

    def _run(self, function: _Function, event: Any) -> Outcome:
        request_id = str(uuid.uuid4())
        environment = self._take(function)
        request = {
            "event": event,
            "request_id": request_id,
            "function_arn": function.arn,
            "timeout_s": function.timeout_s,
        }
        outcome = environment.invoke(request, function.timeout_s)
        self._put_back(function, environment)
        if len(outcome.payload.encode()) > _LONGEST_PAYLOAD_BYTES:
            document = {
                "errorMessage": f"Response payload size exceeded maximum allowed payload size"
                f" ({_LONGEST_PAYLOAD_BYTES} bytes).",
                "errorType": "Function.ResponseSizeTooLarge",
            }
            outcome = replace(outcome, payload=json.dumps(document), failed=True)
        log.info(
            "%s %s in %.2f s", function.name, "failed" if outcome.failed else "returned", outcome.seconds
        )
        # A function may outlast the server, which then takes no more of its log.
        with contextlib.suppress(EndpointConnectionError, ConnectionClosedError):
            self._write_log(function, request_id, outcome)
        return outcome

    # -- environments ----------------------------------------------------------------------------------------

    def _take(self, function: _Function) -> Environment:
        key = function.fingerprint
        self._discard_idle()
        with self._lock:
            waiting = self._idle.get(key, [])
            while waiting:
                environment = waiting.pop()
                if environment.alive:
                    self._busy.add(environment)
                    return environment
                environment.close()
        environment = self._start(function, key)
        with self._lock:
            self._busy.add(environment)
        return environment

    def _put_back(self, function: _Function, environment: Environment) -> None:
        with self._lock:
            self._busy.discard(environment)
            if environment.alive and not self._closed:
                self._idle.setdefault(function.fingerprint, []).append(environment)
                return
        environment.close()

    def _discard_idle(self) -> None:
        """Stop environments that were not used for a while; old code and configurations go this way too."""
        oldest = time.monotonic() - _IDLE_S
        with self._lock:
            stale = [item for items in self._idle.values() for item in items if item.last_used < oldest]
            self._idle = {
                key: kept
                for key, items in self._idle.items()
                if (kept := [item for item in items if item.last_used >= oldest])
            }
        for environment in stale:
            environment.close()

    def _start(self, function: _Function, key: str) -> Environment:
        root = self._unpacked(function.code)
        credentials = self._clients.credentials(function.role, function.name[:64], function.scope.region)
        variables = {
            **function.variables,
            "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
            "AWS_DEFAULT_REGION": function.scope.region,
            "AWS_ENDPOINT_URL": self._clients.url,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mib),
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": f"[$LATEST]{key[:32]}",
            "AWS_REGION": function.scope.region,
            "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
            "AWS_SESSION_TOKEN": credentials["SessionToken"],
            "HOME": str(self._work),
            "LAMBDA_TASK_ROOT": str(root),
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TZ": ":UTC",
            "_HANDLER": function.handler,
        }
        if function.runtime.startswith("python"):
            command = [sys.executable, str(_HERE / "runner.py")]
            variables["PYTHONDONTWRITEBYTECODE"] = "1"
        else:
            command = [node(), str(_HERE / "runner.cjs")]
            variables["NODE_PATH"] = str(self._node_modules)
        return Environment(command, variables, root, self._work / f"{uuid.uuid4().hex}.log")

    def _unpacked(self, code: bytes) -> Path:
        root = self._work / hashlib.sha256(code).hexdigest()[:32]
        with self._lock:
            if not root.is_dir():
                partial = self._work / f"{root.name}.partial"
                with zipfile.ZipFile(io.BytesIO(code)) as archive:
                    archive.extractall(partial)
                partial.rename(root)
        return root

    # -- what moto knows -------------------------------------------------------------------------------------

    def _function(self, scope: Scope, name: str) -> _Function:
        """Find a function by name or ARN; an ARN may be of another account or region."""
        if name.startswith("arn:"):
            _, _, _, region, account, _, name, *_ = name.split(":")
            scope = Scope(account, region)
        name = name.split(":")[0]
        functions = lambda_backends[scope.account][scope.region].list_functions()
        found = next((item for item in functions if item.function_name == name), None)
        if found is None:
            raise FunctionNotFoundError(f"arn:aws:lambda:{scope.region}:{scope.account}:function:{name}")
        return _Function(
            scope=scope,
            name=name,
            arn=found.function_arn,
            runtime=str(found.run_time),
            handler=str(found.handler),
            role=found.role,
            timeout_s=float(found.timeout),
            memory_mib=int(found.memory_size),
            variables={key: str(value) for key, value in found.environment_vars.items()},
            code=found.code_bytes,
            log_group=self._log_groups.get((scope, name), f"/aws/lambda/{name}"),
        )

    def _note_log_group(self, scope: Scope, request: HttpRequest) -> None:
        """Remember LoggingConfig, which moto drops, from CreateFunction and UpdateFunctionConfiguration."""
        found = _CONFIGURE.fullmatch(request.path)
        if found is None or request.method not in {"POST", "PUT"}:
            return
        document = json.loads(request.body or b"{}")
        name = unquote(found.group(1) or document.get("FunctionName", "")).split(":")[-1]
        group = document.get("LoggingConfig", {}).get("LogGroup")
        if group:
            self._log_groups[scope, name] = group
        elif request.method == "POST":
            self._log_groups.pop((scope, name), None)

    def _write_log(self, function: _Function, request_id: str, outcome: Outcome) -> None:
        logs = self._clients.get("logs", function.scope)
        stamp = int(time.time() * 1000)
        stream = time.strftime(f"%Y/%m/%d/[$LATEST]{request_id.replace('-', '')}", time.gmtime())
        report = f"REPORT RequestId: {request_id}\tDuration: {outcome.seconds * 1000:.2f} ms"
        lines = [f"START RequestId: {request_id} Version: $LATEST", *outcome.printed.splitlines()]
        events = [
            {"timestamp": stamp, "message": line or " "}
            for line in (*lines, f"END RequestId: {request_id}", report)
        ]
        where = {"logGroupName": function.log_group}
        try:
            if function.log_group == f"/aws/lambda/{function.name}":
                with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
                    logs.create_log_group(**where)
            logs.create_log_stream(**where, logStreamName=stream)
            logs.put_log_events(**where, logStreamName=stream, logEvents=events)
        except logs.exceptions.ResourceNotFoundException:
            log.warning("%s has no log group %s to write to", function.name, function.log_group)
        except ClientError:
            log.exception("the log of %s could not be written", function.name)
