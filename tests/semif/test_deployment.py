"""What follows from one look at a stack."""

import json
from dataclasses import replace

from semif.deployment import POOL_TYPE, StackEvent, first_failure, last_operation, pool_endpoint, pool_runs
from tests.semif.recording import RecordedStack, at

NAME = "semif-dev-decisions"


def pool_event(status: str, *, physical_id: str = "", properties: str = "") -> StackEvent:
    return StackEvent("e", at(0), "Endpoint", physical_id, POOL_TYPE, status, "", properties)


def test_last_operation_begins_with_the_stack_and_not_with_a_rollback() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.own(5, "CREATE_COMPLETE")
    stack.own(10, "UPDATE_IN_PROGRESS")
    stack.resource(11, "Role", "UPDATE_FAILED")
    stack.own(12, "UPDATE_ROLLBACK_IN_PROGRESS")
    statuses = [event.status for event in last_operation(stack.events, stack.id)]
    assert statuses == ["UPDATE_IN_PROGRESS", "UPDATE_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS"]


def test_nested_stack_does_not_begin_an_operation() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.resource(1, "Nested", "CREATE_IN_PROGRESS", kind="AWS::CloudFormation::Stack")
    assert len(last_operation(stack.events, stack.id)) == 2


def test_cause_is_the_first_failure_and_no_cancellation() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.resource(1, "A", "CREATE_FAILED", "Resource creation cancelled")
    stack.resource(2, "B", "CREATE_FAILED", "the cause")
    stack.resource(3, "C", "DELETE_FAILED", "a consequence")
    failure = first_failure(stack.view())
    assert failure is not None
    assert failure.reason == "the cause"


def test_pool_runs_see_create_then_rollback() -> None:
    stack = RecordedStack(NAME)
    stack.pool(1, "CREATE_IN_PROGRESS")
    stack.pool(2, "CREATE_IN_PROGRESS", "Resource creation Initiated")
    stack.pool(9, "CREATE_FAILED")
    stack.pool(10, "DELETE_IN_PROGRESS")
    runs = pool_runs(stack.events)
    assert [(run.verb, run.started_at, run.ended) for run in runs] == [
        ("CREATE", at(1), True),
        ("DELETE", at(10), False),
    ]


def test_endpoint_name_comes_from_the_properties_before_the_physical_id_is_known() -> None:
    named = pool_event("CREATE_IN_PROGRESS", properties=json.dumps({"EndpointName": "mine"}))
    assert pool_endpoint([named], NAME) == "mine"


def test_endpoint_name_from_the_physical_id_else_the_default() -> None:
    done = pool_event("CREATE_COMPLETE", physical_id="mine", properties="not json")
    assert pool_endpoint([pool_event("CREATE_IN_PROGRESS"), done], NAME) == "mine"
    assert pool_endpoint([pool_event("CREATE_IN_PROGRESS")], NAME) == NAME
    assert pool_endpoint([replace(done, resource_type="AWS::IAM::Role")], NAME) is None
