"""What an hour of the pool walk costs: calls of AWS and seconds of the function, at one poll per 15 s.

The real handler with real boto3 clients speaks HTTP to a small SageMaker and Service Quotas on 127.0.0.1.
The tool moves their clock: two rounds fail for capacity, the third serves, then the stack is deleted until
the hour is over. AWS answers more slowly than a local server, so ASSUMED_CALL_S is added for every call.
Exits with 1 if the sum is over LIMIT_S.
"""

import importlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

ROOT: Final = Path(__file__).resolve().parent.parent
NAME: Final = "semif-measure-walk"
POLL_S: Final = 15
HOUR_S: Final = 3600
LIMIT_S: Final = 60.0
ASSUMED_CALL_S: Final = 0.1
PROVISION_S: Final = 900
QUOTA_PAGES: Final = 30
ROUNDS: Final = (("ml.g6e.xlarge", "ml.g6.2xlarge"), ("ml.g5.2xlarge",), ("ml.g4dn.2xlarge",))
SERVES_AFTER_S: Final = 1020
DELETION_S: Final = 600
CAPACITY: Final = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    " Please retry using a different ML instance type or after some time."
)
PROPERTIES: Final[dict[str, object]] = {
    "EndpointName": NAME,
    "VariantName": "AllTraffic",
    "ModelName": "Model",
    "InitialInstanceCount": "1",
    "ModelDataDownloadTimeoutInSeconds": "300",
    "ContainerStartupHealthCheckTimeoutInSeconds": "300",
    "Strategy": "native",
    "VariantInstanceProvisionTimeoutInSeconds": str(PROVISION_S),
    **{
        f"Round{number}": {f"Type{n}": name for n, name in enumerate(types, 1)}
        for number, types in enumerate(ROUNDS, 1)
    },
    "Tags": {"purpose": "measure"},
}


class Account:
    """Endpoint, configurations and quotas; `now_s` is moved by the tool."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0
        self.calls: Counter[str] = Counter()
        self.configurations: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.endpoint: dict[str, Any] | None = None

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one call. Raises KeyError for what is not there."""
        self.calls[operation] += 1
        self._settle()
        found: dict[str, Any] = getattr(self, f"_{operation}")(request)
        return found

    def _settle(self) -> None:
        endpoint = self.endpoint
        if endpoint is None or self.now_s < endpoint["until"]:
            return
        if endpoint["EndpointStatus"] == "Deleting":
            self.endpoint = None
        elif endpoint["EndpointStatus"] == "Creating" and endpoint["types"] == ROUNDS[-1]:
            endpoint["EndpointStatus"] = "InService"
        elif endpoint["EndpointStatus"] == "Creating":
            endpoint |= {"EndpointStatus": "Failed", "FailureReason": CAPACITY}

    def _CreateEndpointConfig(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        name = request["EndpointConfigName"]
        arn = f"arn:aws:sagemaker:us-east-1:123456789012:endpoint-config/{name}"
        types = tuple(entry["InstanceType"] for entry in request["ProductionVariants"][0]["InstancePools"])
        self.configurations[name] = {
            "EndpointConfigName": name,
            "EndpointConfigArn": arn,
            "CreationTime": self.now_s,
            "types": types,
        }
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        return {"EndpointConfigArn": arn}

    def _ListEndpointConfigs(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        keys = ("EndpointConfigName", "EndpointConfigArn", "CreationTime")
        return {"EndpointConfigs": [{key: c[key] for key in keys} for c in self.configurations.values()]}

    def _DeleteEndpointConfig(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self.tags.pop(self.configurations.pop(request["EndpointConfigName"])["EndpointConfigArn"])
        return {}

    def _CreateEndpoint(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        types = self.configurations[request["EndpointConfigName"]]["types"]
        arn = f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{NAME}"
        takes_s = SERVES_AFTER_S if types == ROUNDS[-1] else PROVISION_S
        self.endpoint = {
            "EndpointName": NAME,
            "EndpointArn": arn,
            "EndpointConfigName": request["EndpointConfigName"],
            "EndpointStatus": "Creating",
            "CreationTime": self.now_s,
            "LastModifiedTime": self.now_s,
            "until": self.now_s + takes_s,
            "types": types,
        }
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        return {"EndpointArn": arn}

    def _DescribeEndpoint(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if self.endpoint is None:
            raise KeyError(NAME)
        pools = [{"InstanceType": name, "CurrentInstanceCount": 1} for name in self.endpoint["types"]]
        variants = [{"VariantName": "AllTraffic", "InstancePools": pools}]
        told = {key: value for key, value in self.endpoint.items() if key not in {"until", "types"}}
        return told | ({"ProductionVariants": variants} if told["EndpointStatus"] == "InService" else {})

    def _DeleteEndpoint(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if self.endpoint is None:
            raise KeyError(NAME)
        # A failed endpoint is soon gone; one that serves drains first.
        takes_s = DELETION_S if self.endpoint["EndpointStatus"] == "InService" else POLL_S
        self.endpoint |= {"EndpointStatus": "Deleting", "until": self.now_s + takes_s}
        return {}

    def _ListEndpoints(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"Endpoints": []}

    def _ListTags(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        tags = self.tags[request["ResourceArn"]]
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _AddTags(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self.tags[request["ResourceArn"]] |= {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        return {}

    def _ListServiceQuotas(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        """Thousands of quotas, the wanted ones on the last page."""
        page = int(request.get("NextToken", "1"))
        names = [f"ml.m5.{page}x{n}xlarge" for n in range(95)]
        names += [name for types in ROUNDS for name in types] if page == QUOTA_PAGES else []
        quotas = [
            {"QuotaName": f"{name} for endpoint usage", "QuotaCode": "L-1", "Value": 4.0} for name in names
        ]
        return {"Quotas": quotas} | ({"NextToken": str(page + 1)} if page < QUOTA_PAGES else {})


@contextmanager
def served(account: Account) -> Iterator[str]:
    """The account behind a server; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            request = json.loads(self.rfile.read(length) or b"{}")
            operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            try:
                status, answer = 200, account.answer(operation, request)
            except KeyError as error:
                status, answer = 400, {"message": f"Could not find {error}."}
            body = json.dumps(
                answer if status == 200 else {"__type": "ValidationException", **answer}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def connected(account: Account) -> Any:
    """The walk's own clients, telling the time by the account's clock."""
    apis = importlib.import_module("instance_pool.apis").Apis.connect()
    apis.sagemaker.now = lambda: datetime.fromtimestamp(account.now_s, UTC)
    return apis


def walk(account: Account, apis: Any) -> tuple[int, float, str]:
    """Polls, seconds of the handler and the attempts of an hour."""
    handler = importlib.import_module("instance_pool.handler")
    end_s = account.now_s + HOUR_S
    polls, spent_s, attempts = 0, 0.0, ""
    for request_type in ("Create", "Delete"):
        began_at = datetime.fromtimestamp(account.now_s, UTC).isoformat()
        event = {
            "RequestType": request_type,
            "RequestId": request_type,
            "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/measure/1",
            "PhysicalResourceId": NAME,
            "ResourceProperties": PROPERTIES,
            "Data": {"StartedAt": began_at},
        }
        complete = False
        while not complete and account.now_s < end_s:
            began_s = time.perf_counter()
            with patch.object(handler, "_apis", lambda: apis), redirect_stdout(StringIO()):
                answer = handler.is_complete(event, None)
            spent_s += time.perf_counter() - began_s
            polls += 1
            account.now_s += POLL_S
            complete = answer["IsComplete"]
            attempts = answer.get("Data", {}).get("Attempts", attempts)
    return polls, spent_s, attempts


def main() -> int:
    """Measure and print."""
    sys.path.insert(0, str(ROOT / "lambda"))
    account = Account()
    with served(account) as url:
        os.environ |= {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "measure",
            "AWS_SECRET_ACCESS_KEY": "measure",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        polls, spent_s, attempts = walk(account, connected(account))
    calls = sum(account.calls.values())
    total_s = spent_s + calls * ASSUMED_CALL_S
    print(f"{attempts}")
    print(f"{polls} polls in an hour, {calls} calls: {dict(account.calls.most_common())}")
    print(
        f"handler {spent_s:.1f} s here + {calls} x {ASSUMED_CALL_S} s of AWS = {total_s:.1f} s"
        f" (limit {LIMIT_S:.0f} s)"
    )
    return 0 if total_s <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
