"""One custom resource and the SageMaker in memory that its polls meet."""

from types import ModuleType
from typing import Any

import pytest

from instance_pool import handler, reconcile
from instance_pool.sagemaker_api import SageMakerApi

NAME = "semif-dev-decisions"
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/semif-dev-decisions/0a1b"
PROPERTIES: dict[str, Any] = {
    "EndpointName": NAME,
    "ModelName": "Model-abc",
    "VariantName": "AllTraffic",
    "InstanceTypes": ["ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge"],
    "InitialInstanceCount": "1",
    "ModelDataDownloadTimeoutInSeconds": "900",
    "ContainerStartupHealthCheckTimeoutInSeconds": "600",
    "Tags": {"team": "decisions"},
}


class Resource:
    """Polls one resource's operation, with time passing between the polls."""

    name, stack_id, properties = NAME, STACK_ID, PROPERTIES

    def __init__(self, sagemaker: Any) -> None:
        self.sagemaker = sagemaker
        self.request = 0

    def poll(self, request_type: str = "Create", **properties: Any) -> dict[str, object]:
        event = {
            "RequestType": request_type,
            "RequestId": f"request-{self.request}",
            "StackId": STACK_ID,
            "PhysicalResourceId": NAME,
            "ResourceProperties": PROPERTIES | properties,
        }
        return handler.is_complete(event, None)

    def until_complete(self, request_type: str = "Create", **properties: Any) -> dict[str, Any]:
        self.request += 1
        for _ in range(300):
            answer = self.poll(request_type, **properties)
            if answer["IsComplete"]:
                data = answer["Data"]
                assert isinstance(data, dict)
                return data
            self.sagemaker.advance(15)
        raise AssertionError("did not end")


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
    sagemaker = fake.FakeSageMaker()
    api = SageMakerApi(sagemaker, now=lambda: sagemaker.now)
    monkeypatch.setattr(handler, "_api", lambda: api)
    return Resource(sagemaker)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that a poll goes by."""
    moved = Clock()
    monkeypatch.setattr(reconcile, "time", moved)
    return moved
