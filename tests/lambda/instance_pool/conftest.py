"""One custom resource and the AWS in memory that its polls meet."""

import importlib
from types import ModuleType
from typing import Any

import pytest

from instance_pool import handler, reconcile

NAME = "semif-dev-decisions"
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/semif-dev-decisions/0a1b"
PROPERTIES: dict[str, Any] = {
    "EndpointName": NAME,
    "ModelName": "Model-abc",
    "VariantName": "AllTraffic",
    "Strategy": "serial",
    "Round1": {"Type1": "ml.g6e.xlarge"},
    "Round2": {"Type1": "ml.g6.2xlarge"},
    "Round3": {"Type1": "ml.c6i.2xlarge"},
    "InitialInstanceCount": "1",
    "ModelDataDownloadTimeoutInSeconds": "300",
    "ContainerStartupHealthCheckTimeoutInSeconds": "300",
    "Tags": {"team": "decisions"},
}
NATIVE: dict[str, Any] = {
    "Strategy": "native",
    "VariantInstanceProvisionTimeoutInSeconds": "600",
    "Round1": {"Type1": "ml.g6e.xlarge", "Type2": "ml.g6.2xlarge", "Type3": "ml.g5.2xlarge"},
    "Round2": {"Type1": "ml.g4dn.2xlarge"},
    "Round3": {"Type1": "ml.c6i.2xlarge"},
}


class Resource:
    """Polls one resource's operation, with time passing between the polls."""

    name, stack_id, properties = NAME, STACK_ID, PROPERTIES

    def __init__(self, sagemaker: Any, account: Any) -> None:
        self.sagemaker = sagemaker
        self.account = account
        self.request = 0
        self.began_at = sagemaker.now
        self.old: dict[str, Any] = PROPERTIES

    def poll(self, request_type: str = "Create", **properties: Any) -> dict[str, object]:
        event = {
            "RequestType": request_type,
            "RequestId": f"request-{self.request}",
            "StackId": STACK_ID,
            "PhysicalResourceId": NAME,
            "ResourceProperties": PROPERTIES | properties,
            "OldResourceProperties": self.old,
            "Data": {"StartedAt": self.began_at.isoformat()},
        }
        return handler.is_complete(event, None)

    def begin(self) -> None:
        """A new request of CloudFormation."""
        self.request += 1
        self.began_at = self.sagemaker.now

    def until_complete(self, request_type: str = "Create", **properties: Any) -> dict[str, Any]:
        self.begin()
        for _ in range(300):
            answer = self.poll(request_type, **properties)
            if answer["IsComplete"]:
                data = answer["Data"]
                assert isinstance(data, dict)
                self.old = PROPERTIES | properties
                return data
            self.sagemaker.advance(15)
        raise AssertionError("did not end")

    def changes(self) -> list[str]:
        """The calls so far that change something."""
        return [call for call in self.sagemaker.calls if not call.startswith(("list", "describe"))]


class Clock:
    """A monotonic clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def resource(fake: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Resource:
    account = importlib.import_module("tests.lambda.instance_pool.fake_account")
    services = account.Account(fake.FakeSageMaker())
    apis = services.apis()
    monkeypatch.setattr(handler, "_apis", lambda: apis)
    services.sagemaker.serial_capacity_s = 0  # a lack of capacity shows as soon as the fault says
    return Resource(services.sagemaker, services)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that a poll goes by."""
    moved = Clock()
    monkeypatch.setattr(reconcile, "time", moved)
    return moved
