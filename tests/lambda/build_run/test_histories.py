"""Random histories of faults, crashes, lost answers and repeated polls, of two stacks with one CodeBuild.

The machine plays CloudFormation with its Provider for two stacks that want builds of one project: it
creates, updates, rolls back and deletes, and polls `is_complete` until it answers or raises. Whatever
happens, a request starts at most one build, answers only content that is there, ends, and touches nobody
else's builds; and a deletion leaves none of the stack's builds running.
"""

import importlib
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from build_run.failures import BuildRunError

fake = importlib.import_module("tests.lambda.build_run.fake_aws")
events = importlib.import_module("tests.lambda.build_run.events")

CONTENTS = st.sampled_from(["a" * 64, "b" * 64])
ENDS = st.sampled_from(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT"])
INTERRUPTIONS = st.lists(
    st.sampled_from(["", "", "", "", "throttle", "lost", "crash before", "crash after"]), max_size=6
)
STACKS = st.sampled_from([0, 1])


class Stack:
    """CloudFormation's side of one stack: the resource as it last was, and the request under way."""

    def __init__(self, aws: Any, number: int) -> None:
        self.resource = events.Resource(aws, events.STACK_ID.replace("0a1b", f"{number}a1b"))
        self.content: str | None = None
        self.wanted = ""
        self.request_type = ""
        self.rolling_back = False


class Histories(RuleBasedStateMachine):
    """Two stacks and all that can happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.aws: Any = fake.FakeAws()
        self.stacks = [Stack(self.aws, 0), Stack(self.aws, 1)]

    @rule(
        content=CONTENTS,
        end=ENDS,
        queue_s=st.sampled_from([0, 40, 4000]),
        work_s=st.sampled_from([10, 200, 4000]),
        stop_s=st.sampled_from([0, 40]),
        makes_content=st.sampled_from([True, True, True, False]),
    )
    def change_plans(
        self, content: str, end: str, queue_s: float, work_s: float, stop_s: float, *, makes_content: bool
    ) -> None:
        # What has begun goes on as it began: the fake asks for the plan when it ends.
        if not self.aws.running():
            self.aws.plans[content] = fake.Plan(end, queue_s, work_s, stop_s, makes_content)

    @rule(lag_s=st.sampled_from([0, 4]), limit=st.sampled_from([60, 60, 1, 0]))
    def change_service(self, lag_s: float, limit: int) -> None:
        self.aws.listing_lag_s = lag_s
        self.aws.running_limit = limit

    @rule(content=CONTENTS)
    def a_person_starts_a_build(self, content: str) -> None:
        variables = {"SEMIF_CONTENT_HASH": content, "SEMIF_IMAGE_TAG": f"cpu-{content[:16]}"}
        if len(self.aws.running()) < self.aws.running_limit:
            self.aws.start_build(
                projectName=fake.PROJECT,
                environmentVariablesOverride=[{"name": n, "value": v} for n, v in variables.items()],
            )

    @precondition(lambda self: self.aws.running())
    @rule()
    def a_person_stops_a_build(self) -> None:
        self.aws.stop_build(id=self.aws.running()[0]["id"])

    @rule(content=CONTENTS)
    def a_person_deletes_an_image(self, content: str) -> None:
        self.aws.images.pop(f"cpu-{content[:16]}", None)

    @rule(number=STACKS, content=CONTENTS)
    def create_or_update(self, number: int, content: str) -> None:
        stack = self.stacks[number]
        if not stack.request_type and stack.content != content:
            self.begin(stack, "Create" if stack.content is None else "Update", content)

    @rule(number=STACKS)
    def delete(self, number: int) -> None:
        stack = self.stacks[number]
        if not stack.request_type and stack.content is not None:
            self.begin(stack, "Delete", stack.content)

    @rule(number=STACKS, interruptions=INTERRUPTIONS, seconds=st.sampled_from([0, 15, 15, 60, 300]))
    def poll(self, number: int, interruptions: list[str], seconds: int) -> None:
        self.aws.advance(seconds)
        self.aws.interruptions[:] = interruptions
        self.poll_once(self.stacks[number])
        self.aws.interruptions.clear()

    @rule(number=STACKS)
    def restart(self, number: int) -> None:
        self.stacks[number].resource.restart()

    @invariant()
    def no_request_starts_two_builds(self) -> None:
        for stack in self.stacks:
            for number in range(1, stack.resource.requests + 1):
                request_id = f"{stack.resource.stack_id[-4:]}-request-{number}"
                assert len(self.aws.started_by(request_id)) <= 1

    def teardown(self) -> None:
        for stack in self.stacks:
            self.finish(stack)
            if stack.content is not None:
                self.begin(stack, "Delete", stack.content)
                self.finish(stack)
        own = {stack.resource.stack_id for stack in self.stacks}
        assert not [b for b in self.aws.running() if b["variables"].get("SEMIF_STACK_ID") in own]

    def begin(self, stack: Stack, request_type: str, content: str) -> None:
        stack.request_type, stack.wanted = request_type, content
        stack.resource.begin(request_type, events.image_properties(content))

    def finish(self, stack: Stack) -> None:
        for _ in range(4 * 55 * 4):
            if not stack.request_type:
                return
            self.poll_once(stack)
            self.aws.advance(15)
        raise AssertionError(f"did not end: {stack.resource.event}")

    def poll_once(self, stack: Stack) -> None:
        if not stack.request_type:
            return
        stopped_before = set(self.aws.stopped)
        self.aws.resource_status = f"{stack.request_type.upper()}_IN_PROGRESS"
        try:
            with patch("builtins.print"):
                answer = stack.resource.poll()
        except fake.Crash:
            return
        except BuildRunError as error:
            self.failed(stack, str(error))
            return
        finally:
            stopped = set(self.aws.stopped) - stopped_before
            for build in self.aws.builds:
                if build["id"] in stopped:
                    assert build["variables"].get("SEMIF_STACK_ID") == stack.resource.stack_id
        if answer["IsComplete"]:
            self.completed(stack, answer["Data"])
        else:
            assert set(answer) == {"IsComplete"}

    def completed(self, stack: Stack, data: dict[str, str]) -> None:
        request_type, stack.request_type = stack.request_type, ""
        if request_type == "Delete":
            assert data == {}
            stack.content = None
            running = [b["variables"].get("SEMIF_STACK_ID") for b in self.aws.running()]
            assert stack.resource.stack_id not in running
            return
        digest = self.aws.images[f"cpu-{stack.wanted[:16]}"]
        assert data["ImageDigest"] == digest
        assert data["ImageUri"].endswith(f"semif-dev-endpoint@{digest}")
        made_by = {build["id"]: build["variables"]["SEMIF_CONTENT_HASH"] for build in self.aws.builds}
        assert data["BuildId"] == "" or made_by[data["BuildId"]] == stack.wanted
        stack.content, stack.rolling_back = stack.wanted, False

    def failed(self, stack: Stack, message: str) -> None:
        request_type, stack.request_type = stack.request_type, ""
        assert len(message) <= 1000
        assert ": " in message
        assert " Next: " in message
        assert request_type != "Delete", f"a deletion failed: {message}"
        if stack.content is None or stack.rolling_back:
            # A rollback may fail where the old image is gone too: the user deletes the stack.
            stack.rolling_back = False
            self.begin(stack, "Delete", stack.wanted)
        else:
            stack.rolling_back = True
            self.begin(stack, "Update", stack.content)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
