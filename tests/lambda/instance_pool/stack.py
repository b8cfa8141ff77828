"""CloudFormation's side of one custom resource, and what must hold whenever an operation of it ends."""

import importlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from instance_pool import handler
from instance_pool.answers import Complete, InstancePoolError
from instance_pool.pool import Pool
from instance_pool.properties import parse_operation, parse_pool
from instance_pool.reconcile import reconcile
from instance_pool.walk import BUDGET, time_needed

fake = importlib.import_module("tests.lambda.instance_pool.fake_sagemaker")
account = importlib.import_module("tests.lambda.instance_pool.fake_account")

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/semif-dev-decisions/0a1b"
POLLS = 260


def properties(name: str, rounds: list[list[str]], **more: Any) -> dict[str, Any]:
    """The resource's properties; `more` adds to them or replaces."""
    native = more.get("Strategy", "native") == "native"
    numbered = {
        f"Round{number}": {f"Type{n}": instance_type for n, instance_type in enumerate(types, 1)}
        for number, types in enumerate(rounds if native else [[t] for types in rounds for t in types], 1)
    }
    return {
        "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:framework",
        "EndpointName": name,
        "ModelName": "Model-abc",
        "VariantName": "AllTraffic",
        "InitialInstanceCount": "1",
        "ModelDataDownloadTimeoutInSeconds": "900",
        "ContainerStartupHealthCheckTimeoutInSeconds": "600",
        "Strategy": "native",
        **({"VariantInstanceProvisionTimeoutInSeconds": "600"} if native else {}),
        "Tags": {"team": "decisions"},
        **numbered,
        **more,
    }


def call(event: dict[str, Any], apis: Any) -> dict[str, Any]:
    """One poll, as the handler makes it."""
    result = reconcile(parse_operation(event), apis, lambda _: None)
    if isinstance(result, Complete):
        return {"IsComplete": True, "Data": dict(result.data)}
    return {"IsComplete": False}


class Stack:
    """The resource as it last was, and the operation under way."""

    def __init__(self) -> None:
        self.sagemaker: Any = fake.FakeSageMaker()
        self.account = account.Account(self.sagemaker)
        self.apis = self.account.apis()
        self.resource: dict[str, Any] | None = None
        self.event: dict[str, Any] | None = None
        self.cleanup: list[str] = []
        self.requests = 0
        self.meddled = False
        self.began_at: datetime = self.sagemaker.now
        self.before: dict[str, Any] | None = None
        self.scaled: dict[str, Any] | None = None

    def begin(self, request_type: str, wanted: dict[str, Any], *, rollback: bool = False) -> None:
        """CloudFormation sends an event."""
        self.requests += 1
        event: dict[str, Any] = {
            "RequestType": request_type,
            "RequestId": f"request-{self.requests}",
            "StackId": STACK_ID,
            "ResourceProperties": wanted,
            "rollback": rollback,
        }
        if request_type != "Create":
            event["PhysicalResourceId"] = (self.resource or wanted)["EndpointName"]
        if request_type == "Update":
            event["OldResourceProperties"] = self.event_before if rollback else self.resource
        self.event = event | handler.on_event(event, None)
        self.event["Data"] = {"StartedAt": self.sagemaker.now.isoformat()}
        self.began_at = self.sagemaker.now
        self.account.stacks.status = f"{request_type.upper()}_IN_PROGRESS"
        self.meddled = False
        self.sagemaker.truth.clear()
        self.sagemaker.begun.clear()
        name = self.event["PhysicalResourceId"]
        self.before = dict(self.sagemaker.endpoints.get(name, {})) or None
        self.scaled = self.sagemaker.scaled.get(name)
        if self.before is not None:
            # Somebody may have deleted what serves from under the endpoint.
            self.meddled = self.before["configuration"] not in self.sagemaker.configurations

    def finish(self) -> None:
        """Poll without interruptions until the operation and all that follows from it have ended."""
        for _ in range(POLLS * 8):
            if self.event is None:
                return
            self.sagemaker.interruptions.clear()
            self.sagemaker.advance(15)
            self.poll()
            self.poll_is_in_budget()
        raise AssertionError(f"did not end: {self.event}")

    def poll_is_in_budget(self) -> None:
        """Unless nothing was asked of the walk for a long time, it has ended soon after its budget."""
        if self.event is not None and self.event["RequestType"] != "Delete":
            late = self.sagemaker.now - self.began_at - BUDGET
            assert late <= timedelta(seconds=60), f"{late} past the budget: {self.event}"

    def poll(self) -> None:
        """CloudFormation's Provider polls once."""
        assert self.event is not None
        try:
            answer = call(self.event, self.apis)
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
        """An operation ended well."""
        assert self.event is not None
        event, self.event = self.event, None
        self.account.stacks.status = "UPDATE_COMPLETE"
        self.sagemaker.interruptions.clear()
        changed = len(self.sagemaker.begun)
        assert call(event, self.apis) == answer  # a duplicate that comes late
        assert len(self.sagemaker.begun) == changed
        if event["RequestType"] == "Delete":
            assert answer["Data"] == {}
            assert event["PhysicalResourceId"] not in self.sagemaker.endpoints
            self.sagemaker.scaled.pop(event["PhysicalResourceId"], None)
            self.resource = None if event["PhysicalResourceId"] == self.current_name() else self.resource
            self.next_cleanup()
            return
        self.serves(event, answer)
        self.begun_in_time(event)
        if event["rollback"] and event["PhysicalResourceId"] != event["failed_id"]:
            self.cleanup.append(event["failed_id"])
        elif self.resource is not None and self.current_name() != event["PhysicalResourceId"]:
            self.cleanup.append(str(self.current_name()))
        self.resource = event["ResourceProperties"]
        self.next_cleanup()

    def serves(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        """What is answered is what serves, and what was tried is told."""
        wanted, data = event["ResourceProperties"], answer["Data"]
        pool = parse_pool(wanted)
        endpoint = self.sagemaker.endpoints[wanted["EndpointName"]]
        assert endpoint["status"] == "InService"
        index = pool.index_of(endpoint["configuration"])
        assert index is not None
        (serving,) = endpoint["fleet"]
        assert serving in pool.rounds[index].types
        if endpoint["native"] or endpoint["configuration"] in self.sagemaker.configurations:
            assert data["InstanceType"] == serving
        assert data["Round"] == f"{index + 1} of {len(pool.rounds)}"
        assert data["Degraded"].startswith("DEGRADED" if pool.rounds[index].last_resort else "no")
        assert len(json.dumps(answer).encode()) <= 4096
        assert len(data["Attempts"].encode()) <= 1000
        tags = self.sagemaker.tags[endpoint["arn"]]
        assert {k: v for k, v in tags.items() if not k.startswith("semif:")} == wanted["Tags"]
        if self.scaled is not None and not self.meddled:
            assert self.sagemaker.scaled.get(wanted["EndpointName"]) == self.scaled
        if self.meddled or endpoint["configuration"] not in self.sagemaker.configurations:
            return
        ours = self.configurations_of(wanted["EndpointName"])
        requests = {self.request_of(name) for name in ours}
        assert {pool.index_of(name) is not None for name in ours} == {True}
        assert len(requests) == 1
        if requests == {event["RequestId"]}:
            assert self.reported(data["Attempts"]) == self.truth(event)

    def begun_in_time(self, event: dict[str, Any]) -> None:
        """Only the first attempt may begin when there is not enough time for it."""
        if self.meddled:
            return
        pool: Pool = parse_pool(event["ResourceProperties"])
        for moment in self.sagemaker.begun[1:]:
            # How an update that recreates begins is a creation.
            assert moment + time_needed(pool, "create") <= self.began_at + BUDGET

    def failed(self, message: str) -> None:
        """An operation ended badly: CloudFormation cleans up."""
        assert self.event is not None
        event, self.event = self.event, None
        self.account.stacks.status = "UPDATE_ROLLBACK_IN_PROGRESS"
        assert ": " in message
        assert "Next: " in message
        assert len(message.encode()) < 3000
        if event["RequestType"] == "Delete":
            raise AssertionError(f"a deletion failed: {message}")
        self.fails_again(event, message)
        self.begun_in_time(event)
        if not self.meddled:
            code = message.partition(":")[0]
            told = " more;" in message or code in {"access_denied", "no_quota"}
            for words in self.truth(event):
                served = words.endswith(("in service", "passed over by SageMaker"))
                assert told or words in message or served, (message, words)
            self.old_fleet_serves(event)
        self.after_failure(event)

    def fails_again(self, event: dict[str, Any], message: str) -> None:
        """A duplicate that comes late finds the same failure and touches nothing."""
        self.sagemaker.interruptions.clear()
        changed = len(self.sagemaker.begun)
        with pytest.raises(InstancePoolError) as caught:
            call(event, self.apis)
        assert str(caught.value).partition(":")[0] == message.partition(":")[0]
        assert len(self.sagemaker.begun) == changed

    def old_fleet_serves(self, event: dict[str, Any]) -> None:
        """A failed update that does not recreate has left the old fleet in place."""
        mode = event["ResourceProperties"].get("Update", {}).get("Type")
        if self.before is None or self.before["status"] != "InService" or mode == "recreate":
            return
        endpoint = self.sagemaker.endpoints[event["PhysicalResourceId"]]
        assert endpoint["configuration"] == self.before["configuration"]
        assert endpoint["configuration"] in self.sagemaker.configurations
        assert endpoint["status"] in {"InService", "Updating", "RollingBack"}

    def after_failure(self, event: dict[str, Any]) -> None:
        if event["RequestType"] == "Create":
            self.begin("Delete", event["ResourceProperties"])
        elif event["RequestType"] == "Update" and not event["rollback"]:
            assert self.resource is not None
            self.event_before = event["ResourceProperties"]
            self.begin("Update", self.resource, rollback=True)
            assert self.event is not None
            self.event["failed_id"] = event["PhysicalResourceId"]
        else:
            # The rollback may fail where the old fleet is gone too and its types cannot be had: the stack
            # is stuck, which the user ends by deleting it.
            self.cleanup += [event["failed_id"], event["PhysicalResourceId"]]
            self.next_cleanup()

    def next_cleanup(self) -> None:
        if self.cleanup:
            name = self.cleanup.pop(0)
            self.begin("Delete", properties(name, [["ml.m5.large"]]))
            assert self.event is not None
            self.event["PhysicalResourceId"] = name

    def truth(self, event: dict[str, Any]) -> list[str]:
        """What really became of this operation's attempts, in their order."""
        return [
            entry
            for name, words in self.sagemaker.truth.items()
            if self.request_of(name) == event["RequestId"]
            for entry in words.split("; ")
        ]

    def reported(self, text: str) -> list[str]:
        entries = [entry.split(" after ")[0] for entry in text.split("; ")]
        return [entry for entry in entries if ": skipped, " not in entry and ": left out, " not in entry]

    def request_of(self, name: str) -> str:
        found = self.sagemaker.configurations.get(name)
        return self.sagemaker.tags[found["arn"]].get("semif:request-id", "") if found else ""

    def configurations_of(self, endpoint_name: str) -> list[str]:
        return [
            name
            for name, item in self.sagemaker.configurations.items()
            if self.sagemaker.tags[item["arn"]].get("semif:endpoint") == endpoint_name
        ]

    def current_name(self) -> str | None:
        return None if self.resource is None else str(self.resource["EndpointName"])
