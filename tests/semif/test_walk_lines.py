"""What `semif watch` prints of rounds, skipped and dropped types, the last resort and walks side by side."""

from datetime import UTC
from textwrap import dedent

from semif.deployment import Endpoint, is_endpoint_stack, stacks_of
from semif.progress import Progress
from tests.semif.recording import RecordedStack, Watcher

NAME, STANDARD = "semif-dev-decisions", "semif-dev-standard"
G6E, G6, G5, CPU = "ml.g6e.xlarge", "ml.g6.xlarge", "ml.g5.2xlarge", "ml.c6i.2xlarge"
ROUNDS = [(G6E, G6), (G5,), (CPU,)]


def golden(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def walking(name: str = NAME) -> RecordedStack:
    stack = RecordedStack(name)
    stack.own(0, "CREATE_IN_PROGRESS")
    stack.pool(2, "CREATE_IN_PROGRESS", endpoint=name)
    return stack


def test_dropped_and_skipped_types_and_a_last_resort() -> None:
    stack = walking()
    watcher = Watcher([stack])
    stack.try_round(10, ROUNDS, 1, skipped=("ml.p5.48xlarge: not offered in this region",))
    stack.end_type(11, "quota", "The account-level service limit", dropped=G6E)
    watcher.look(12)
    stack.try_round(14, [(G6,), *ROUNDS[1:]], 1)
    stack.endpoint = Endpoint(NAME, "Creating")
    watcher.look(44)
    stack.end_type(1214, "capacity", "no capacity")
    watcher.look(1215)
    stack.try_round(1230, ROUNDS, 3, last_resort=True, skipped=("ml.g5.2xlarge: quota is 0",))
    watcher.look(1231)
    stack.end_type(1430, "in-service")
    stack.endpoint = Endpoint(NAME, "InService", serving_types=(CPU,))
    watcher.look(1431)
    stack.pool(1432, "CREATE_COMPLETE")
    stack.own(1434, "CREATE_COMPLETE")
    stack.outputs = {"InstanceType": CPU, "Degraded": f"DEGRADED: the last resort {CPU} serves"}
    watcher.look(1435)

    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:10 ml.p5.48xlarge skipped: not offered in this region
        12:00:10 ml.g6e.xlarge or ml.g6.xlarge, 1 of 3, 49 min left
        12:00:11 ml.g6e.xlarge or ml.g6.xlarge no quota for ml.g6e.xlarge → ml.g6.xlarge, 1 of 3, 49 min left
        12:00:44 ml.g6.xlarge for 30 s, 1 of 3, endpoint Creating, 49 min left
        12:20:14 ml.g6.xlarge no capacity after 20 m 0 s → ml.g5.2xlarge, 2 of 3, 29 min left
        12:20:30 ml.g5.2xlarge skipped: quota is 0
        12:20:30 ml.c6i.2xlarge, 3 of 3, the last resort, 29 min left
        12:23:50 ml.c6i.2xlarge in service after 3 m 20 s, DEGRADED: it is the last resort
        12:23:54 semif-dev-decisions CREATE_COMPLETE after 23 m 54 s
        semif-dev-decisions CREATE_COMPLETE
          Degraded      DEGRADED: the last resort ml.c6i.2xlarge serves
          InstanceType  ml.c6i.2xlarge
        DEGRADED: the last resort ml.c6i.2xlarge serves
        next: when there is capacity again, semif climb moves the endpoint to a preferred type
        """
    )
    assert watcher.exit_code == 0


def test_the_type_that_won_in_a_native_round_is_named() -> None:
    stack = walking()
    stack.try_round(10, ROUNDS, 1)
    stack.end_type(400, "in-service")
    stack.endpoint = Endpoint(NAME, "InService", serving_types=(G6,))
    watcher = Watcher([stack])
    watcher.look(401)

    assert watcher.said[-1] == "12:06:40 ml.g6.xlarge in service after 6 m 30 s"


def test_walks_side_by_side_say_whose_they_are() -> None:
    decisions, standard = walking(), walking(STANDARD)
    watcher = Watcher([decisions, standard], Progress("dev", "eu-central-1", tz=UTC))
    decisions.try_round(10, ROUNDS, 1)
    standard.try_round(12, [(CPU,)], 1)
    watcher.look(13)
    watcher.look(43)
    for stack in (standard, decisions):
        stack.end_type(50, "in-service")
        stack.pool(51, "CREATE_COMPLETE")
        stack.own(52, "CREATE_COMPLETE")
    watcher.look_until(53, 63)

    assert watcher.said == golden(
        """
        12:00:00 semif-dev-decisions CREATE_IN_PROGRESS
        12:00:00 semif-dev-standard CREATE_IN_PROGRESS
        12:00:10 semif-dev-decisions: ml.g6e.xlarge or ml.g6.xlarge, 1 of 3, 49 min left
        12:00:12 semif-dev-standard: ml.c6i.2xlarge, 1 of 1, 49 min left
        12:00:43 semif-dev-decisions: ml.g6e.xlarge or ml.g6.xlarge for 33 s, 1 of 3, no endpoint, 49 min left
        12:00:43 semif-dev-standard: ml.c6i.2xlarge for 31 s, 1 of 1, no endpoint, 49 min left
        12:00:50 semif-dev-decisions: ml.g6e.xlarge or ml.g6.xlarge in service after 40 s
        12:00:50 semif-dev-standard: ml.c6i.2xlarge in service after 38 s
        12:00:52 semif-dev-decisions CREATE_COMPLETE after 52 s
        12:00:52 semif-dev-standard CREATE_COMPLETE after 52 s
        semif-dev-decisions CREATE_COMPLETE
        semif-dev-standard CREATE_COMPLETE
        """
    )
    assert watcher.exit_code == 0


def test_one_endpoint_that_is_done_is_not_the_end_while_another_may_begin() -> None:
    decisions = walking()
    watcher = Watcher([decisions], Progress("dev", "eu-central-1", tz=UTC))
    watcher.look(3)
    decisions.own(4, "CREATE_COMPLETE")
    watcher.look_until(5, 21)
    standard = RecordedStack(STANDARD)
    watcher.stacks.append(standard)
    standard.own(22, "CREATE_IN_PROGRESS")
    watcher.look(23)
    standard.own(24, "ROLLBACK_COMPLETE", "why")
    watcher.look(25)

    assert watcher.exit_code == 1
    assert "semif-dev-standard failed: ROLLBACK_COMPLETE" in watcher.said


def test_stacks_of_an_environment() -> None:
    names = [
        "semif-dev-observability",
        "semif-dev-standard",
        "semif-dev-my-own",
        "semif-dev-builds",
        "semif-dev-artifacts",
        "semif-dev-two-artifacts",
        "semif-dev-two-decisions",
        "semif-prod-artifacts",
        "semif-devel-artifacts",
        "dev",
    ]

    assert stacks_of("dev", names) == (
        "semif-dev-artifacts",
        "semif-dev-builds",
        "semif-dev-my-own",
        "semif-dev-standard",
        "semif-dev-observability",
    )
    assert stacks_of("dev-two", names) == ("semif-dev-two-artifacts", "semif-dev-two-decisions")
    assert [name for name in stacks_of("dev", names) if is_endpoint_stack("dev", name)] == [
        "semif-dev-my-own",
        "semif-dev-standard",
    ]
