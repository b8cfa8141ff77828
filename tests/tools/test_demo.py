"""What the demo prints."""

from datetime import UTC, datetime

from semif.attempts import Attempt
from tools.demo import walk_table


def attempt(instance_type: str, outcome: str, reason: str, seconds: float | None) -> Attempt:
    return Attempt(
        types=(instance_type,),
        outcome=outcome,
        reason=reason,
        seconds=seconds,
        position=1,
        rounds=2,
        skipped=("ml.b.large: quota is 0",) if reason else (),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        configuration="semif-dev-decisions-0123456789-0",
    )


def test_the_walk_is_a_line_for_each_attempt_and_each_skipped_type() -> None:
    lines = walk_table(
        [
            attempt("ml.c7i.2xlarge", "capacity", "no room", 4.2),
            attempt("ml.m5.2xlarge", "in-service", "", None),
        ]
    ).splitlines()

    assert [line.split() for line in lines] == [
        ["instance", "types", "outcome", "seconds", "reason"],
        ["ml.c7i.2xlarge", "capacity", "4", "no", "room"],
        ["skipped", "ml.b.large:", "quota", "is", "0"],
        ["ml.m5.2xlarge", "in-service", "-"],
    ]
