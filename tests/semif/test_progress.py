"""What `semif watch` prints for whole deployments, line by line."""

from datetime import UTC
from textwrap import dedent

import pytest

from semif.deployment import Endpoint
from semif.progress import Progress
from tests.semif.recording import RecordedStack, Watcher

POOL = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge", "ml.c6i.4xlarge")
NAME = "semif-dev-decisions"


PROVIDER_REASON = """\
Received response status [FAILED] from custom resource. Message returned: Error: No type is left.

Logs: /aws/lambda/X

    at invokeUserFunction (/var/task/framework.js:2:6)
    at process.processTicksAndRejections (node:internal/process/task_queues:104:5)
    at async isComplete (/var/task/framework.js:1:2631)
 (RequestId: 1)"""


def golden(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def deployed(name: str = NAME, *, began: int = -3600) -> RecordedStack:
    """A stack that was made an hour ago."""
    stack = RecordedStack(name, outputs={"EndpointName": NAME, "InstanceType": "ml.c6i.2xlarge"})
    stack.own(began, "CREATE_IN_PROGRESS")
    if name == NAME:
        stack.pool(began + 5, "CREATE_IN_PROGRESS")
        stack.try_type(began + 6, POOL[:2], 1, walk="aaaaaaaaaa")
        stack.end_type(began + 200, "in-service")
        stack.pool(began + 210, "CREATE_COMPLETE")
        stack.endpoint = Endpoint(NAME, "InService")
    stack.own(began + 215, "CREATE_COMPLETE")
    return stack


def test_third_type_succeeds() -> None:
    stack = RecordedStack(NAME)
    watcher = Watcher()
    watcher.look_until(0, 34)
    watcher.stacks.append(stack)
    stack.own(34, "REVIEW_IN_PROGRESS")
    watcher.look(36)
    stack.own(38, "CREATE_IN_PROGRESS", "User Initiated")
    stack.resource(39, "Role", "CREATE_IN_PROGRESS")
    watcher.look_until(40, 70)
    stack.resource(71, "Role", "CREATE_COMPLETE")
    stack.pool(72, "CREATE_IN_PROGRESS")
    stack.try_type(80, POOL, 1)
    stack.endpoint = Endpoint(NAME, "Creating")
    watcher.look_until(82, 144)
    watcher.look(630)
    stack.end_type(632, "capacity", "Unable to provision requested ML compute capacity")
    stack.endpoint = Endpoint(NAME, "Deleting")
    watcher.look(633)
    watcher.look(664)
    stack.endpoint = None
    stack.try_type(670, POOL, 2)
    stack.end_type(671, "quota", "The account-level service limit")
    watcher.look(672)
    stack.try_type(685, POOL, 3)
    stack.endpoint = Endpoint(NAME, "Creating")
    watcher.look(687)
    stack.end_type(927, "in-service")
    stack.endpoint = Endpoint(NAME, "InService")
    watcher.look(928)
    stack.pool(935, "CREATE_COMPLETE")
    stack.own(937, "CREATE_COMPLETE")
    stack.outputs = {"InstanceType": "ml.c6i.2xlarge", "EndpointName": NAME}
    watcher.look(938)
    assert watcher.said == golden(
        """
        12:00:00 dev has no endpoint's stack yet in eu-central-1; waiting for one, 5 min left
        12:00:30 dev has no endpoint's stack yet in eu-central-1; waiting for one, 4 min left
        12:00:38 semif-dev-decisions CREATE_IN_PROGRESS
        12:01:10 semif-dev-decisions CREATE_IN_PROGRESS for 32 s, 0 resources done, now Role
        12:01:20 ml.g6e.xlarge, 1 of 4, 49 min left
        12:01:52 ml.g6e.xlarge for 32 s, 1 of 4, endpoint Creating, 49 min left
        12:02:22 ml.g6e.xlarge for 1 m 2 s, 1 of 4, endpoint Creating, 48 min left
        12:10:30 ml.g6e.xlarge for 9 m 10 s, 1 of 4, endpoint Creating, 40 min left
        12:10:32 ml.g6e.xlarge no capacity after 9 m 12 s → ml.g6.2xlarge, 2 of 4, 40 min left
        12:11:04 ml.g6.2xlarge, 2 of 4, next, endpoint Deleting, 40 min left
        12:11:11 ml.g6.2xlarge no quota → ml.c6i.2xlarge, 3 of 4, 40 min left
        12:15:27 ml.c6i.2xlarge in service after 4 m 2 s
        12:15:37 semif-dev-decisions CREATE_COMPLETE after 14 m 59 s
        semif-dev-decisions CREATE_COMPLETE
          EndpointName  semif-dev-decisions
          InstanceType  ml.c6i.2xlarge
        """
    )
    assert watcher.exit_code == 0


def test_all_types_exhausted_rolls_back() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.resource(1, "Role", "CREATE_COMPLETE")
    stack.pool(2, "CREATE_IN_PROGRESS")
    stack.try_type(3, POOL[:2], 1)
    watcher = Watcher([stack])
    watcher.look(4)
    stack.end_type(10, "capacity", "no capacity")
    stack.try_type(12, POOL[:2], 2)
    watcher.look(13)
    stack.end_type(20, "capacity", "no capacity")
    watcher.look(21)
    stack.pool(22, "CREATE_FAILED", PROVIDER_REASON)
    stack.resource(23, "Param", "CREATE_FAILED", "Resource creation cancelled", kind="AWS::SSM::Parameter")
    stack.own(24, "ROLLBACK_IN_PROGRESS", "Failed to create: [Endpoint]")
    stack.pool(25, "DELETE_IN_PROGRESS")
    stack.attempts.clear()
    watcher.look_until(26, 56)
    stack.pool(57, "DELETE_COMPLETE")
    stack.own(60, "ROLLBACK_COMPLETE")
    watcher.look(61)
    cause = "No type is left. Logs: /aws/lambda/X (RequestId: 1)"
    assert watcher.said == golden(
        f"""
        12:00:00 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:03 ml.g6e.xlarge, 1 of 2, 49 min left
        12:00:10 ml.g6e.xlarge no capacity after 7 s → ml.g6.2xlarge, 2 of 2, 49 min left
        12:00:20 ml.g6.2xlarge no capacity after 8 s, 2 of 2, no type is left
        12:00:22 semif-dev-decisions Endpoint CREATE_FAILED: {cause}
        12:00:24 semif-dev-decisions ROLLBACK_IN_PROGRESS: Failed to create: [Endpoint]
        12:00:56 semif-dev-decisions deletes its endpoint, no endpoint, 49 min left
        12:01:00 semif-dev-decisions ROLLBACK_COMPLETE after 1 m 0 s
        semif-dev-decisions failed: ROLLBACK_COMPLETE
        cause: Endpoint Custom::InstancePoolEndpoint CREATE_FAILED: {cause}
        next: remove the cause and deploy again
        """
    )
    assert watcher.exit_code == 1


def test_failed_update_goes_back() -> None:
    stack = deployed()
    watcher = Watcher([stack])
    stack.own(0, "UPDATE_IN_PROGRESS")
    stack.pool(2, "UPDATE_IN_PROGRESS")
    stack.try_type(3, POOL[:1], 1, walk="bbbbbbbbbb")
    stack.endpoint = Endpoint(NAME, "Updating")
    watcher.look(4)
    stack.end_type(40, "failed", "The primary container did not pass the ping health check")
    watcher.look(41)
    stack.pool(42, "UPDATE_FAILED", "the container did not answer")
    stack.own(43, "UPDATE_ROLLBACK_IN_PROGRESS", "Failed to update: [Endpoint]")
    stack.pool(44, "UPDATE_IN_PROGRESS")
    stack.endpoint = Endpoint(NAME, "InService")
    watcher.look_until(45, 75, every=30)
    stack.pool(76, "UPDATE_COMPLETE")
    stack.own(77, "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
    watcher.look(78)
    stack.own(79, "UPDATE_ROLLBACK_COMPLETE")
    watcher.look(80)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions UPDATE_IN_PROGRESS
        12:00:03 ml.g6e.xlarge, 1 of 1, 49 min left
        12:00:40 ml.g6e.xlarge failed after 37 s: The primary container did not pass the ping health check
        12:00:42 semif-dev-decisions Endpoint UPDATE_FAILED: the container did not answer
        12:00:43 semif-dev-decisions UPDATE_ROLLBACK_IN_PROGRESS: Failed to update: [Endpoint]
        12:01:15 semif-dev-decisions goes back to the endpoint before, endpoint InService, 49 min left
        12:01:17 semif-dev-decisions UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS
        12:01:19 semif-dev-decisions UPDATE_ROLLBACK_COMPLETE after 1 m 19 s
        semif-dev-decisions failed: UPDATE_ROLLBACK_COMPLETE
        cause: Endpoint Custom::InstancePoolEndpoint UPDATE_FAILED: the container did not answer
        endpoint semif-dev-decisions is InService with what was deployed before
        next: remove the cause and deploy again
        """
    )
    assert watcher.exit_code == 1


def test_destroy() -> None:
    artifacts, stack = deployed("semif-dev-artifacts"), deployed()
    watcher = Watcher([artifacts, stack])
    stack.own(0, "DELETE_IN_PROGRESS", "User Initiated")
    stack.pool(1, "DELETE_IN_PROGRESS")
    stack.endpoint = Endpoint(NAME, "Deleting")
    watcher.look(2)
    stack.pool(8, "DELETE_COMPLETE")
    stack.endpoint = None
    stack.own(10, "DELETE_COMPLETE")
    watcher.look_until(11, 19)
    artifacts.own(20, "DELETE_IN_PROGRESS")
    watcher.look(21)
    artifacts.own(22, "DELETE_COMPLETE")
    watcher.look_until(23, 41)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions DELETE_IN_PROGRESS
        12:00:10 semif-dev-decisions DELETE_COMPLETE after 10 s
        12:00:20 semif-dev-artifacts DELETE_IN_PROGRESS
        12:00:22 semif-dev-artifacts DELETE_COMPLETE after 2 s
        semif-dev-artifacts is deleted
        semif-dev-decisions is deleted
        """
    )
    assert watcher.exit_code == 0


def test_watch_that_sees_only_the_end_of_a_destroy() -> None:
    artifacts = deployed("semif-dev-artifacts")
    artifacts.own(0, "DELETE_IN_PROGRESS")
    watcher = Watcher([artifacts])
    watcher.look(1)
    artifacts.own(2, "DELETE_COMPLETE")
    watcher.look_until(3, 21)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-artifacts DELETE_IN_PROGRESS
        12:00:02 semif-dev-artifacts DELETE_COMPLETE after 2 s
        semif-dev-artifacts is deleted
        """
    )
    assert watcher.exit_code == 0


def test_attempt_is_told_after_the_event_that_caused_it() -> None:
    stack = deployed()
    stack.own(0.4, "UPDATE_IN_PROGRESS")
    stack.pool(0.8, "UPDATE_IN_PROGRESS")
    stack.try_type(0, POOL[:1], 1, walk="bbbbbbbbbb")
    watcher = Watcher([stack])
    watcher.look(2)
    assert watcher.said == [
        "12:00:00 semif-dev-decisions UPDATE_IN_PROGRESS",
        "12:00:00 ml.g6e.xlarge, 1 of 1, 50 min left",
    ]


def test_nothing_under_way_after_success() -> None:
    watcher = Watcher([deployed("semif-dev-artifacts"), deployed()])
    watcher.look(0)
    assert watcher.said == golden(
        """
        nothing is under way in dev (eu-central-1); the last result:
        semif-dev-artifacts CREATE_COMPLETE
          EndpointName  semif-dev-decisions
          InstanceType  ml.c6i.2xlarge
        semif-dev-decisions CREATE_COMPLETE
          EndpointName  semif-dev-decisions
          InstanceType  ml.c6i.2xlarge
        """
    )
    assert watcher.exit_code == 0


def test_nothing_under_way_after_a_failure() -> None:
    stack = RecordedStack(NAME)
    stack.own(-100, "CREATE_IN_PROGRESS")
    stack.resource(-90, "Model", "CREATE_FAILED", "Could not assume role", kind="AWS::SageMaker::Model")
    stack.own(-80, "ROLLBACK_IN_PROGRESS")
    stack.own(-70, "ROLLBACK_COMPLETE")
    watcher = Watcher([stack])
    watcher.look(0)
    assert watcher.said == golden(
        """
        nothing is under way in dev (eu-central-1); the last result:
        semif-dev-decisions failed: ROLLBACK_COMPLETE
        cause: Model AWS::SageMaker::Model CREATE_FAILED: Could not assume role
        next: remove the cause and deploy again
        """
    )
    assert watcher.exit_code == 1


def test_stack_without_a_failed_resource_names_its_own_reason() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "UPDATE_IN_PROGRESS")
    stack.own(1, "UPDATE_ROLLBACK_COMPLETE", "Export X cannot be updated")
    watcher = Watcher([stack])
    watcher.look(2)
    assert "cause: Export X cannot be updated" in watcher.said


def test_missing_environment_gives_up_after_the_wait() -> None:
    watcher = Watcher(progress=Progress("dev", "eu-central-1", tz=UTC, wait_s=10))
    watcher.look_until(0, 10)
    assert watcher.said == golden(
        """
        12:00:00 dev has no endpoint's stack yet in eu-central-1; waiting for one, under 1 min left
        dev has no endpoint's stack in eu-central-1 after 10 s
        next: deploy it (cdk deploy 'dev/*'), or check the name and the region
        """
    )
    assert watcher.exit_code == 1


def test_waits_from_the_first_stack_to_the_next() -> None:
    artifacts = RecordedStack("semif-dev-artifacts")
    artifacts.own(0, "CREATE_IN_PROGRESS")
    watcher = Watcher([artifacts])
    watcher.look(1)
    artifacts.own(2, "CREATE_COMPLETE")
    watcher.look_until(3, 33)
    stack = RecordedStack(NAME)
    watcher.stacks.append(stack)
    watcher.look(34)
    stack.own(35, "CREATE_IN_PROGRESS")
    watcher.look(36)
    stack.own(40, "CREATE_COMPLETE")
    watcher.look(41)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-artifacts CREATE_IN_PROGRESS
        12:00:02 semif-dev-artifacts CREATE_COMPLETE after 2 s
        12:00:33 dev has no endpoint's stack yet in eu-central-1; waiting for one, 4 min left
        12:00:35 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:40 semif-dev-decisions CREATE_COMPLETE after 5 s
        semif-dev-artifacts CREATE_COMPLETE
        semif-dev-decisions CREATE_COMPLETE
        """
    )


def test_update_of_the_first_stack_does_not_end_the_watch() -> None:
    artifacts, stack = deployed("semif-dev-artifacts"), deployed()
    artifacts.own(0, "UPDATE_IN_PROGRESS")
    watcher = Watcher([artifacts, stack])
    watcher.look(1)
    artifacts.own(2, "UPDATE_COMPLETE")
    watcher.look_until(3, 15)
    assert watcher.exit_code is None
    stack.own(16, "UPDATE_IN_PROGRESS")
    watcher.look(17)
    stack.own(18, "UPDATE_COMPLETE")
    watcher.look(19)
    assert watcher.exit_code == 0


def test_operation_between_two_looks_is_not_missed() -> None:
    artifacts, stack = deployed("semif-dev-artifacts"), deployed()
    artifacts.own(0, "UPDATE_IN_PROGRESS")
    watcher = Watcher([artifacts, stack])
    watcher.look(1)
    artifacts.own(2, "UPDATE_COMPLETE")
    watcher.look(3)
    stack.own(4, "UPDATE_IN_PROGRESS")
    stack.resource(5, "Param", "UPDATE_FAILED", "Parameter is too long", kind="AWS::SSM::Parameter")
    stack.own(6, "UPDATE_ROLLBACK_COMPLETE")
    watcher.look(7)
    assert watcher.exit_code == 1
    assert "12:00:04 semif-dev-decisions UPDATE_IN_PROGRESS" in watcher.said


def test_watch_that_begins_late_tells_the_walk_with_its_own_times() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.pool(2, "CREATE_IN_PROGRESS")
    stack.try_type(3, POOL, 1)
    stack.end_type(555, "capacity")
    stack.try_type(560, POOL, 2)
    watcher = Watcher([stack])
    watcher.look(1500)
    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:03 ml.g6e.xlarge, 1 of 4, 49 min left
        12:09:15 ml.g6e.xlarge no capacity after 9 m 12 s → ml.g6.2xlarge, 2 of 4, 40 min left
        """
    )
    watcher.look(1530)
    assert watcher.said[-1] == "12:25:30 ml.g6.2xlarge for 16 m 10 s, 2 of 4, no endpoint, 24 min left"


def test_old_walk_is_not_told_again() -> None:
    stack = deployed(began=-300)
    stack.own(0, "UPDATE_IN_PROGRESS")
    stack.pool(1, "UPDATE_IN_PROGRESS")
    watcher = Watcher([stack])
    watcher.look(2)
    assert watcher.said == ["12:00:00 semif-dev-decisions UPDATE_IN_PROGRESS"]


def test_verbose_prints_resources_once() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.resource(1, "Role", "CREATE_IN_PROGRESS")
    watcher = Watcher([stack], Progress("dev", "eu-central-1", tz=UTC, verbose=True))
    watcher.look_until(2, 8)
    assert watcher.said == [
        "12:00:00 semif-dev-decisions CREATE_IN_PROGRESS",
        "12:00:01 semif-dev-decisions Role CREATE_IN_PROGRESS",
    ]


def test_control_characters_of_a_reason_do_not_reach_the_terminal() -> None:
    stack = RecordedStack(NAME)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.resource(1, "Role", "CREATE_FAILED", "bad \x1b[31mred\nnext line")
    watcher = Watcher([stack])
    watcher.look(2)
    assert watcher.said[-1].endswith("CREATE_FAILED: bad \ufffd[31mred next line")


@pytest.mark.parametrize(
    ("status", "words"), [("UPDATE_ROLLBACK_FAILED", "finish the operation"), ("DELETE_FAILED", "finish")]
)
def test_stuck_stack_says_how_to_go_on(status: str, words: str) -> None:
    stack = deployed()
    stack.own(0, status, "stuck")
    watcher = Watcher([stack])
    watcher.look(1)
    assert watcher.exit_code == 1
    assert words in watcher.said[-1]
