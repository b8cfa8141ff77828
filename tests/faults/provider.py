"""Runs as a Lambda function: plays CDK's Provider framework around the real handler package.

As the framework does, it asks `on_event` once and `is_complete` until that is true, merges their answers,
and takes any exception as final. What the tests add lies in the file CONTROL: polls that are killed after a
call, polls that come twice, and giving up early. Times that the walk takes for AWS's own slowness are
compressed as the local AWS compresses AWS's.
"""

import importlib
import json
import os
import sys
import time
import types
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.endpoint
from botocore.config import Config

Event = dict[str, Any]

POLL_S = 0.1
CREATE_FAILED = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
COMPRESSED = {
    "SETTLE_TIME": timedelta(0),
    "TAG_TIME": timedelta(seconds=1),
    "CONSISTENCY_TIME": timedelta(seconds=1),
    "DENIAL_PAUSE_S": 0.1,
    "POLL_TIME_S": 3.0,
}
_clients: dict[str, Any] = {}
_make_client: Any = boto3.client
_killed: set[str] = set()
_control: dict[str, Any] = {}
"""Read anew for each request."""


_DIES_AFTER = 4
"""Different calls of a request that its process lives for."""


def once(*what: str) -> bool:
    """Say whether this has not happened before; a file remembers what the process may not live to tell."""
    mark = Path(os.environ["CONTROL"]).with_name(f"{'-'.join(what)}.once")
    if mark.exists():
        return False
    mark.touch()
    return True


class Killed(BaseException):
    """The execution environment is gone; the call before was carried out."""


def client(service: str, **arguments: Any) -> Any:
    """Make each client once: a killed poll loses its memory, not the time to load botocore's models."""
    if service not in _clients:
        config = arguments.pop("config", None) or Config()
        config = config.merge(Config(read_timeout=2, max_pool_connections=20))
        made = _make_client(service, config=config, **arguments)
        made.meta.events.register("before-parameter-build", _remember)
        made.meta.events.register("after-call", _kill)
        _clients[service] = made
    return _clients[service]


def _remember(params: Any, model: Any, context: Any, **_: Any) -> None:
    told = {name: value for name, value in params.items() if isinstance(value, str)}
    tags = sorted(tag["Key"] for tag in params.get("Tags", []))
    context["semif"] = json.dumps([model.name, told, tags], sort_keys=True)


def _kill(context: Any, **_: Any) -> None:
    """Kill the poll after each call that no poll of this request was killed after.

    With `die`, the process ends for good, once a request; Lambda then sends the event again.
    """
    call = context.get("semif")
    if _control.get("die") and len(_killed) == _DIES_AFTER and once("died", _control["request"]):
        os._exit(1)
    if _control.get("die"):
        _killed.add(call)
    if _control.get("kill") and call not in _killed:
        _killed.add(call)
        raise Killed


def load() -> Any:
    """Import the handler as a fresh execution environment does."""
    for name in [name for name in sys.modules if name.split(".")[0] == "instance_pool"]:
        del sys.modules[name]
    handler = importlib.import_module("instance_pool.handler")
    for name, module in list(sys.modules.items()):
        if name.startswith("instance_pool."):
            for constant, value in COMPRESSED.items():
                if hasattr(module, constant):
                    setattr(module, constant, value)
    return handler


_boto3: Any = boto3
_boto3.client = client
_endpoint: Any = botocore.endpoint
_endpoint.time = types.SimpleNamespace(sleep=lambda s: time.sleep(min(s, 0.02)), time=time.time)


def handler(event: Event, _context: object) -> None:
    """Answer one request of CloudFormation."""
    _control.clear()
    _control.update(json.loads(Path(os.environ["CONTROL"]).read_text()))
    _control["request"] = event["RequestId"]
    _killed.clear()
    if event["ResourceType"] == "Custom::Blocker":
        return respond(event, *block(event))
    if event.get("PhysicalResourceId") == CREATE_FAILED:
        return respond(event, "SUCCESS", CREATE_FAILED)
    physical_id = event.get("PhysicalResourceId") or CREATE_FAILED
    try:
        data, physical_id = carry_out(event)
    except Exception as error:
        return respond(event, "FAILED", physical_id_of(event, physical_id), reason=str(error))
    return respond(event, "SUCCESS", physical_id, data=data)


def physical_id_of(event: Event, otherwise: str) -> str:
    try:
        return str(load().on_event(event, None)["PhysicalResourceId"])
    except Exception:
        return otherwise


def carry_out(event: Event) -> tuple[dict[str, Any], str]:
    named = load().on_event(event, None)
    polled = {**event, **named}
    began = time.monotonic()
    current = load()
    while True:
        answer: dict[str, Any] = {"IsComplete": False}
        for _ in range(2 if _control.get("twice") else 1):
            try:
                answer = current.is_complete(polled, None)
            except Killed:
                current = load()
        if answer["IsComplete"]:
            return {**named.get("Data", {}), **answer.get("Data", {})}, named["PhysicalResourceId"]
        give_up_s = _control.get("give_up_s")
        if give_up_s is not None and time.monotonic() - began > give_up_s and once("gave-up"):
            raise TimeoutError("Operation timed out")
        time.sleep(POLL_S)


def block(event: Event) -> tuple[str, str, str]:
    """Fail once the endpoint's update is done, after the faults are put: what follows is a rollback."""
    if event["RequestType"] != "Create":
        return "SUCCESS", event["PhysicalResourceId"], ""
    for path, document in json.loads(event["ResourceProperties"]["Put"]).items():
        url = f"{os.environ['AWS_ENDPOINT_URL']}/_localaws/{path}"
        put(url, document)
    Path(os.environ["CONTROL"]).write_text(event["ResourceProperties"]["Control"])
    for call in json.loads(event["ResourceProperties"]["ByHand"]):
        by_hand(*call)
    return "FAILED", "blocker", "the blocker fails"


def by_hand(service: str, operation: str, arguments: dict[str, Any], waits: bool) -> None:
    """Make a call as a person would, and wait until an endpoint that it changes is settled."""
    getattr(client(service), operation)(**arguments)
    while waits:
        try:
            found = client("sagemaker").describe_endpoint(EndpointName=arguments["EndpointName"])
        except client("sagemaker").exceptions.ClientError:
            return
        if found["EndpointStatus"] in {"InService", "Failed"}:
            return
        time.sleep(POLL_S)


def respond(
    event: Event, status: str, physical_id: str, reason: str = "", data: dict[str, Any] | None = None
) -> None:
    answer = {
        "Status": status,
        "Reason": reason or "See the log",
        "PhysicalResourceId": physical_id,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data or {},
    }
    put(event["ResponseURL"], answer)


def put(url: str, document: Any) -> None:
    request = urllib.request.Request(url, json.dumps(document).encode(), method="PUT")  # noqa: S310 - ours
    urllib.request.urlopen(request)  # noqa: S310
