"""Random histories of faults, crashes, lost answers and repeated polls, against a SageMaker in memory.

The machine plays CloudFormation with its Provider, the operator who climbs, and people at the console.
Whatever happens, an operation must end in service on an allowed type or in one clear failure, and a deletion
must leave nothing of ours. SEMIF_HISTORIES sets the number of histories.
"""

import importlib
import os
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from instance_pool.answers import InstancePoolError

fake = importlib.import_module("tests.lambda.instance_pool.fake_sagemaker")
stack = importlib.import_module("tests.lambda.instance_pool.stack")

TYPES = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.g4dn.2xlarge")
LAST = "ml.c6i.2xlarge"
EVERY_TYPE = (*TYPES, LAST)
ROUNDS = st.permutations(TYPES).flatmap(
    lambda types: st.sampled_from(
        [[types[:1]], [types[:2]], [types[:1], types[1:2]], [types[:2], types[2:]], [types[:1], types[1:]]]
    )
)
MODES = st.sampled_from(
    [
        *("ok", "ok", "ok", "capacity", "capacity", "capacity", "quota", "foreign-quota"),
        *("health", "silent", "silent-stale", "service", "alarm", "unknown-type"),
    ]
)
INTERRUPTIONS = st.lists(
    st.sampled_from(["", "", "", "", "", "throttle", "lost", "crash before", "crash after"]), max_size=20
)
NAMES = st.sampled_from(["semif-dev-decisions", "semif-dev-decisions", "semif-dev-other"])
SELDOM = st.sampled_from([False, False, False, True])
UPDATES = st.sampled_from(["all-at-once", "canary", "rolling", "recreate"])
TARGET = {"MinCapacity": 1, "MaxCapacity": 4}
POLICY = {
    "PolicyName": "use",
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 70.0},
}


class Histories(RuleBasedStateMachine):
    """What may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: Any = stack.Stack()
        self.sagemaker: Any = self.stack.sagemaker
        self.climb: dict[str, Any] | None = None
        self.climbs = 0

    @initialize(keeps=st.booleans())
    def others_exist(self, *, keeps: bool) -> None:
        """Things of other people whose names look like ours."""
        self.sagemaker.keeps_old_reasons = keeps
        self.sagemaker.create_endpoint_config(
            EndpointConfigName="semif-dev-decisions-0123456789-0",
            ProductionVariants=[
                {
                    "VariantName": "AllTraffic",
                    "ModelName": "m",
                    "InstanceType": "ml.m5.large",
                    "InitialInstanceCount": 1,
                }
            ],
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

    @rule(
        instance_type=st.sampled_from(EVERY_TYPE),
        mode=MODES,
        seconds=st.sampled_from([20, 240, 540]),
        first=st.sampled_from([1, 2, 1000]),
    )
    def change_fault(self, instance_type: str, mode: str, seconds: int, first: int) -> None:
        self.sagemaker.faults[instance_type] = fake.Fault(mode, seconds, first)

    @rule(instance_type=st.sampled_from(EVERY_TYPE), quota=st.sampled_from([0, 1, 2, 20, 20, 20, 20, None]))
    def change_quota(self, instance_type: str, quota: int | None) -> None:
        self.sagemaker.quotas[instance_type] = quota

    @precondition(lambda self: self.stack.event is None)
    @rule(
        rounds=ROUNDS,
        name=NAMES,
        model=st.sampled_from(["Model-abc", "Model-new"]),
        strategy=st.sampled_from(["native", "native", "serial"]),
        update=UPDATES,
        last_resort=st.booleans(),
        tags=st.sampled_from([{"team": "decisions"}, {"team": "other", "env": "dev"}, {}]),
    )
    def create_or_update(  # noqa: PLR0917
        self,
        rounds: list[list[str]],
        name: str,
        model: str,
        strategy: str,
        update: str,
        tags: dict[str, str],
        *,
        last_resort: bool,
    ) -> None:
        more: dict[str, Any] = {
            "ModelName": model,
            "Strategy": strategy,
            "Update": {"Type": update, "WaitIntervalInSeconds": "60"},
            "RollbackAlarm1": "errors",
            "LeftOut": {"ml.p5.48xlarge": "its price is over max_hourly_usd"},
            "Tags": tags,
        }
        if last_resort:
            more["LastResort"] = {"Type1": LAST, "ModelName": "Small", "InitialInstanceCount": "1"}
        wanted = stack.properties(name, [list(types) for types in rounds], **more)
        self.stack.begin("Create" if self.stack.resource is None else "Update", wanted)
        self.stack.meddled = self.stack.meddled or self.climb is not None

    @precondition(lambda self: self.stack.event is None and self.stack.resource is not None)
    @rule()
    def delete(self) -> None:
        self.stack.begin("Delete", self.stack.resource)

    @precondition(lambda self: self.stack.event is not None)
    @rule(interruptions=INTERRUPTIONS, seconds=st.sampled_from([0, 15, 15, 60, 300]), twice=st.booleans())
    def poll(self, interruptions: list[str], seconds: int, *, twice: bool) -> None:
        self.sagemaker.interruptions[:] = interruptions
        self.sagemaker.advance(seconds)
        self.stack.poll()
        if twice and self.stack.event is not None:
            self.stack.poll()
        self.sagemaker.interruptions.clear()

    @precondition(lambda self: self.stack.event is not None)
    @rule()
    def wait_for_the_end(self) -> None:
        self.stack.finish()

    @precondition(lambda self: self.stack.resource is not None)
    @rule(really=SELDOM)
    def delete_endpoint_by_hand(self, *, really: bool) -> None:
        name = self.in_hand()
        if really and self.status(name) in {"InService", "Failed"}:
            self.sagemaker.delete_by_hand(name)
            self.stack.meddled = True

    @precondition(lambda self: self.stack.resource is not None)
    @rule(data=st.data(), really=SELDOM)
    def delete_configuration_by_hand(self, data: st.DataObject, *, really: bool) -> None:
        name = self.in_hand()
        ours = sorted(self.stack.configurations_of(name))
        if really and ours and self.status(name) in {"InService", "Failed", ""}:
            found = self.sagemaker.configurations.pop(data.draw(st.sampled_from(ours)))
            self.sagemaker.tags.pop(found["arn"])
            self.stack.meddled = True

    @precondition(lambda self: self.stack.event is None and self.climb is None and self.stack.resource)
    @rule()
    def scale(self) -> None:
        name = self.in_hand()
        if self.status(name) == "InService":
            self.sagemaker.scaled[name] = {"target": dict(TARGET), "policies": {"use": dict(POLICY)}}

    @precondition(lambda self: self.climb is None and self.stack.event is None and self.stack.resource)
    @rule(heal=st.booleans(), to_the_end=st.booleans())
    def begin_climb(self, *, heal: bool, to_the_end: bool) -> None:
        """The operator climbs, perhaps when everything can be had again."""
        if heal:
            self.sagemaker.faults.clear()
            self.sagemaker.quotas.clear()
        self.climbs += 1
        self.climb = {
            "RequestType": "Climb",
            "RequestId": f"climb-{self.climbs}",
            "StackId": stack.STACK_ID,
            "PhysicalResourceId": self.stack.current_name(),
            "ResourceProperties": self.stack.resource,
            "Data": {"StartedAt": self.sagemaker.now.isoformat()},
        }
        while to_the_end and self.climb is not None:
            self.poll_climb_once([], 15)

    @precondition(lambda self: self.climb is not None)
    @rule(interruptions=INTERRUPTIONS, seconds=st.sampled_from([0, 15, 60, 300]))
    def poll_climb(self, interruptions: list[str], seconds: int) -> None:
        self.poll_climb_once(interruptions, seconds)

    def poll_climb_once(self, interruptions: list[str], seconds: int) -> None:
        assert self.climb is not None
        self.sagemaker.interruptions[:] = interruptions
        self.sagemaker.advance(seconds)
        name = self.climb["PhysicalResourceId"]
        before = self.status(name)
        try:
            if stack.call(self.climb, self.stack.apis)["IsComplete"]:
                self.climb = None
                assert self.status(name) == "InService"
        except fake.Crash:
            return
        except InstancePoolError:
            self.climb = None
        finally:
            self.sagemaker.interruptions.clear()
        # Whatever comes of a climb, what served is never taken away.
        assert before != "InService" or self.status(name) in {"InService", "Updating"}

    def in_hand(self) -> str:
        """Name of the endpoint that the operation under way is about, else of the resource's."""
        return str((self.stack.event or {}).get("PhysicalResourceId", self.stack.current_name()))

    def status(self, name: str) -> str:
        return str(self.sagemaker.endpoints.get(name, {}).get("status", ""))

    @invariant()
    def nothing_forbidden_happened(self) -> None:
        assert self.sagemaker.violations == []
        assert "semif-dev-decisions-2" in self.sagemaker.endpoints
        assert "semif-dev-decisions-0123456789-0" in self.sagemaker.configurations

    def teardown(self) -> None:
        self.sagemaker.interruptions.clear()
        self.stack.finish()
        if self.stack.resource is not None:
            self.stack.begin("Delete", self.stack.resource)
            self.stack.finish()
        assert set(self.sagemaker.endpoints) == {"semif-dev-decisions-2"}
        assert set(self.sagemaker.configurations) == {"semif-dev-decisions-0123456789-0"}
        self.nothing_forbidden_happened()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=int(os.environ.get("SEMIF_HISTORIES", "250")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
