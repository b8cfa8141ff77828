"""The matrix of faults that lie in calls, events and what people do by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.matrix import ALARM, FIRST, NEXT, Lab, Life, Row
from tests.faults.specification import check, record


def call(operation: str, mode: str, **more: Any) -> dict[str, Any]:
    return {f"api:{operation}": {"mode": mode, **more}}


REPOSITORY = "does not grant ecr:GetDownloadUrlForLayer"
ROWS = (
    Row("describes throttled, every second", faults=call("DescribeEndpoint", "throttle", every=2)),
    Row("describes throttled, ten in a row", faults=call("DescribeEndpoint", "throttle", first=10)),
    Row(
        "changes throttled",
        faults=call("CreateEndpoint", "throttle", first=6, code="TooManyRequestsException")
        | call("UpdateEndpoint", "throttle", first=6)
        | call("DeleteEndpoint", "throttle", first=6)
        | call("CreateEndpointConfig", "throttle", first=6),
    ),
    Row(
        "listings throttled",
        faults=call("ListEndpointConfigs", "throttle", first=6) | call("ListTags", "throttle", first=6),
    ),
    Row("Service Quotas throttled", faults=call("ListServiceQuotas", "throttle", first=6)),
    Row("Service Quotas denied", faults=call("ListServiceQuotas", "denied")),
    Row("answer of CreateEndpointConfig lost", faults=call("CreateEndpointConfig", "lost", first=1)),
    Row("answer of CreateEndpoint lost", faults=call("CreateEndpoint", "lost", first=1)),
    Row("answer of UpdateEndpoint lost", faults=call("UpdateEndpoint", "lost", first=1)),
    Row("answer of DeleteEndpoint lost", faults=call("DeleteEndpoint", "lost", first=1)),
    Row(
        "answers of the rest lost, every third",
        faults=call("AddTags", "lost", every=3)
        | call("DeleteEndpointConfig", "lost", every=3)
        | call("DescribeEndpoint", "lost", every=3)
        | call("ListTags", "lost", every=3),
    ),
    Row("describes dropped", faults=call("DescribeEndpoint", "dropped", first=6)),
    Row("describes slower than the time-out", faults=call("DescribeEndpoint", "slow", first=1, seconds=2.5)),
    Row("killed between any two calls", control={"kill": True}),
    Row("killed, and no capacity", control={"kill": True}, faults={FIRST: {"mode": "capacity"}}),
    Row("every event twice", control={"twice": True}),
    Row(
        "role too young for CreateEndpoint",
        faults=call("CreateEndpoint", "young-role", first=2) | call("UpdateEndpoint", "young-role", first=2),
    ),
    Row(
        "role too young for CreateModel",
        faults=call("CreateModel", "young-role", first=1),
        create="Could not assume role",
    ),
    Row("repository's policy", faults=call("CreateModel", "repository-access"), create=REPOSITORY),
    Row(
        "rights missing",
        faults=call("CreateEndpoint", "denied") | call("UpdateEndpoint", "denied"),
        create="access_denied",
        update="access_denied",
        rollback="access_denied",
    ),
    Row(
        "rights seconds old",
        faults=call("CreateEndpoint", "denied", first=3) | call("UpdateEndpoint", "denied", first=3),
    ),
    Row(
        "deletion while Creating",
        faults={FIRST: {"mode": "slow", "seconds": 1.5}},
        control={"give_up_s": 0.3},
        create="Operation timed out",
        update="Operation timed out",
        rollback=None,
    ),
    Row("process dies, the event comes again", control={"die": True}),
    Row("endpoint deleted by hand", create=None, by_hand="delete the endpoint"),
    Row("configuration changed by hand", create=None, by_hand="another configuration"),
    Row(
        "another update under way",
        create=None,
        by_hand="an update under way",
        faults={NEXT: {"mode": "slow", "seconds": 0.7}},
    ),
    Row("scaled variant", create=None, by_hand="scaling"),
    Row("scaled variant, other types", create=None, by_hand="scaling", other_types=True),
    Row(
        "alarm in a canary",
        create=None,
        by_hand="an alarm",
        properties={
            "Update": {"Type": "canary", "CanaryPercent": "50", "WaitIntervalInSeconds": "60"},
            "RollbackAlarm1": ALARM,
        },
        update="alarm_rolled_back",
        rollback="alarm_rolled_back",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_specified(lab: Lab, row: Row, record_property: Any) -> None:
    check(lab, row, 100 + ROWS.index(row), record_property)


def test_two_deployments_race(lab: Lab, record_property: Any) -> None:
    """Two stacks want an endpoint of one name at the same time: one gets it, the other leaves it alone."""
    row, name = Row("two deployments racing"), "matrix-race"
    first, second = Life(lab, row, name), Life(lab, row, name, stack="matrix-race-too")
    ids = [first.begin(), second.begin()]
    cells = [life.cell(stack_id) for life, stack_id in zip((first, second), ids, strict=True)]
    record(record_property, "two deployments racing", 198, {"create": cells[0], "update": cells[1]})
    winner, loser = (first, second) if cells[0].status == "CREATE_COMPLETE" else (second, first)
    assert sorted(cell.status for cell in cells) == ["CREATE_COMPLETE", "ROLLBACK_COMPLETE"]
    assert "endpoint_not_ours" in "".join(cell.message for cell in cells)
    loser.end()
    found = lab.endpoint(name)
    assert found is not None
    assert set(lab.configurations(name)) == {found["EndpointConfigName"]}
    winner.end()
    assert (lab.endpoint(name), lab.configurations(name)) == (None, {})
