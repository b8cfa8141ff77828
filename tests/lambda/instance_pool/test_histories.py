"""Random histories of faults, crashes, lost answers and repeated polls, against a SageMaker in memory.

The machine plays CloudFormation with its Provider: it creates, updates, rolls back and deletes, and polls
`is_complete` until it answers or raises. Whatever happens, an operation must end in service on an allowed
type or in one clear failure, and a deletion must leave nothing of ours.
"""

import importlib
import json
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from instance_pool import handler
from instance_pool.reconcile import InstancePoolError
from instance_pool.sagemaker_api import SageMakerApi

fake = importlib.import_module("tests.lambda.instance_pool.fake_sagemaker")

TYPES = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge")
POOLS = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)
MODES = st.sampled_from(["ok", "ok", "capacity", "capacity", "quota", "health", "silent", "unknown-type"])
INTERRUPTIONS = st.lists(
    st.sampled_from(["", "", "", "", "throttle", "lost", "crash before", "crash after"]), max_size=14
)
NAMES = st.sampled_from(["semif-dev-decisions", "semif-dev-other"])
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/semif-dev-decisions/0a1b"
POLLS_OF_AN_OPERATION = 4 * 55


class Histories(RuleBasedStateMachine):
    """CloudFormation's side: the resource as it last was, and the operation under way."""

    def __init__(self) -> None:
        super().__init__()
        self.sagemaker: Any = fake.FakeSageMaker()
        self.api = SageMakerApi(self.sagemaker, now=lambda: self.sagemaker.now)
        self.resource: dict[str, object] | None = None
        self.event: dict[str, Any] | None = None
        self.cleanup: list[str] = []
        self.requests = 0

    @initialize()
    def others_exist(self) -> None:
        """Things of other people whose names look like ours."""
        self.sagemaker.create_endpoint_config(
            EndpointConfigName="semif-dev-decisions-0123456789-0",
            ProductionVariants=[{"VariantName": "v", "ModelName": "m", "InstanceType": "ml.m5.large"}],
            Tags=[
                {"Key": "semif:stack-id", "Value": "another stack"},
                {"Key": "semif:endpoint", "Value": "x"},
            ],
        )
        self.sagemaker.create_endpoint(
            EndpointName="semif-dev-decisions-2",
            EndpointConfigName="semif-dev-decisions-0123456789-0",
            Tags=[],
        )
        self.sagemaker.advance(1000)

    @rule(instance_type=st.sampled_from(TYPES), mode=MODES, seconds=st.sampled_from([20, 240, 540]))
    def change_faults(self, instance_type: str, mode: str, seconds: int) -> None:
        # What has begun goes on as it began: the fake decides at the end, so its outcome may not change.
        if not any(e["status"] in {"Creating", "Updating"} for e in self.sagemaker.endpoints.values()):
            self.sagemaker.faults[instance_type] = fake.Fault(mode, seconds)

    @precondition(lambda self: self.event is None)
    @rule(pool=POOLS, name=NAMES, count=st.sampled_from(["1", "2"]))
    def create_or_update(self, pool: list[str], name: str, count: str) -> None:
        wanted = properties(name, pool, count)
        self.begin("Create" if self.resource is None else "Update", wanted)

    @precondition(lambda self: self.event is None and self.resource is not None)
    @rule()
    def delete(self) -> None:
        self.begin("Delete", self.resource or {})

    @precondition(lambda self: self.event is not None)
    @rule(interruptions=INTERRUPTIONS, seconds=st.sampled_from([0, 15, 15, 60, 300]))
    def poll(self, interruptions: list[str], seconds: int) -> None:
        self.sagemaker.interruptions[:] = interruptions
        self.sagemaker.advance(seconds)
        self.poll_once()

    @invariant()
    def nothing_forbidden_happened(self) -> None:
        assert self.sagemaker.violations == []
        assert "semif-dev-decisions-2" in self.sagemaker.endpoints
        assert "semif-dev-decisions-0123456789-0" in self.sagemaker.configurations

    def teardown(self) -> None:
        self.finish()
        if self.resource is not None:
            self.begin("Delete", self.resource)
            self.finish()
        assert set(self.sagemaker.endpoints) == {"semif-dev-decisions-2"}
        assert set(self.sagemaker.configurations) == {"semif-dev-decisions-0123456789-0"}
        self.nothing_forbidden_happened()

    def begin(self, request_type: str, wanted: dict[str, Any], *, rollback: bool = False) -> None:
        self.requests += 1
        self.sagemaker.truth.clear()
        event: dict[str, Any] = {
            "RequestType": request_type,
            "RequestId": f"request-{self.requests}",
            "StackId": STACK_ID,
            "ResourceProperties": wanted,
            "rollback": rollback,
        }
        if request_type != "Create":
            event["PhysicalResourceId"] = (self.resource or wanted)["EndpointName"]
        self.event = event | handler.on_event(event, None)

    def finish(self) -> None:
        for _ in range(POLLS_OF_AN_OPERATION * 4):
            if self.event is None:
                return
            self.sagemaker.interruptions.clear()
            self.sagemaker.advance(15)
            self.poll_once()
        raise AssertionError(f"did not end: {self.event}")

    def poll_once(self) -> None:
        assert self.event is not None
        try:
            with patch.object(handler, "_api", lambda: self.api), patch("builtins.print"):
                answer = handler.is_complete(self.event, None)
        except fake.Crash:
            return
        except InstancePoolError as error:
            self.failed(str(error))
            return
        if answer["IsComplete"]:
            self.completed(answer)
        else:
            assert set(answer) == {"IsComplete"}

    def completed(self, answer: dict[str, Any]) -> None:
        assert self.event is not None
        event, self.event = self.event, None
        if event["RequestType"] == "Delete":
            assert answer["Data"] == {}
            assert event["PhysicalResourceId"] not in self.sagemaker.endpoints
            self.resource = None if event["PhysicalResourceId"] == self.current_name() else self.resource
            self.next_cleanup()
            return
        wanted, data = event["ResourceProperties"], answer["Data"]
        endpoint = self.sagemaker.endpoints[wanted["EndpointName"]]
        assert endpoint["status"] == "InService"
        assert data["InstanceType"] in wanted["InstanceTypes"]
        assert self.sagemaker.configurations[endpoint["configuration"]]["type"] == data["InstanceType"]
        assert len(json.dumps(answer).encode()) <= 4096
        ours = self.configurations_of(wanted["EndpointName"])
        assert {name.rpartition("-")[0] for name in ours} == {endpoint["configuration"].rpartition("-")[0]}
        self.attempts_are_true(data["Attempts"], endpoint["configuration"], event)
        if event["rollback"] and event["PhysicalResourceId"] != event["failed_id"]:
            self.cleanup.append(event["failed_id"])
        elif self.resource is not None and self.current_name() != event["PhysicalResourceId"]:
            self.cleanup.append(str(self.current_name()))
        self.resource = wanted
        self.next_cleanup()

    def failed(self, message: str) -> None:
        assert self.event is not None
        event, self.event = self.event, None
        assert ": " in message
        assert "Next: " in message
        assert len(message) < 2500
        for instance_type, words in self.sagemaker.truth:
            assert f"{instance_type}: {words}" in message or words == "in service", (
                message,
                self.sagemaker.truth,
            )
        if event["RequestType"] == "Create":
            self.begin("Delete", event["ResourceProperties"])
        elif event["RequestType"] == "Update" and not event["rollback"]:
            assert self.resource is not None
            self.begin("Update", self.resource, rollback=True)
            assert self.event is not None
            self.event["failed_id"] = event["PhysicalResourceId"]
        elif event["RequestType"] == "Update":
            # The rollback may fail where the old fleet is gone too and its types cannot be had: the stack
            # is stuck, which the user ends by deleting it.
            self.cleanup += [event["failed_id"], event["PhysicalResourceId"]]
            self.next_cleanup()
        else:
            raise AssertionError(f"a deletion failed: {message}")

    def next_cleanup(self) -> None:
        if self.cleanup:
            name = self.cleanup.pop(0)
            self.begin("Delete", properties(name, ["ml.m5.large"], "1"))
            assert self.event is not None
            self.event["PhysicalResourceId"] = name

    def configurations_of(self, endpoint_name: str) -> list[str]:
        tags = self.sagemaker.tags
        return [
            name
            for name, item in self.sagemaker.configurations.items()
            if tags[item["arn"]].get("semif:endpoint") == endpoint_name
        ]

    def current_name(self) -> object:
        return None if self.resource is None else self.resource["EndpointName"]

    def attempts_are_true(self, text: str, configuration: str, event: dict[str, Any]) -> None:
        tags = self.sagemaker.tags[self.sagemaker.configurations[configuration]["arn"]]
        if tags["semif:request-id"] != event["RequestId"]:
            return  # nothing had to be done; the attempts are those of the operation that began what serves
        reported = [entry.split(" after ")[0] for entry in text.split("; ")]
        assert reported == [f"{instance_type}: {words}" for instance_type, words in self.sagemaker.truth]


def properties(name: str, pool: list[str], count: str) -> dict[str, Any]:
    return {
        "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:framework",
        "EndpointName": name,
        "ModelName": "Model-abc",
        "VariantName": "AllTraffic",
        "InstanceTypes": pool,
        "InitialInstanceCount": count,
        "ModelDataDownloadTimeoutInSeconds": "900",
        "ContainerStartupHealthCheckTimeoutInSeconds": "600",
        "Tags": {"team": "decisions"},
    }


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
