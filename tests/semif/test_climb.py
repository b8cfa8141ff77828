"""The polls of `semif climb`: what is said, what is repeated, and the exit code."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from semif.climb import LIMIT_S, PATIENCE_S, Climbing, Ports, Target, parse_pool
from semif.errors import (
    CredentialsExpiredError,
    ExitCode,
    SemifError,
    ServiceError,
    ThrottledError,
    UnreachableError,
)

PENDING = (b'{"IsComplete": false}', False)
DATA = {
    "InstanceType": "ml.g6e.xlarge",
    "Round": "1 of 2",
    "Attempts": "ml.g6e.xlarge: in service after 6 m 0 s",
    "Degraded": "no",
}
POOL = {"EndpointName": "semif-dev-decisions", "Round1": {"Type1": "ml.g6e.xlarge"}}
TARGET = Target("decisions", "arn:stack", POOL, "walk")


def done(**data: str) -> tuple[bytes, bool]:
    return json.dumps({"IsComplete": True, "Data": DATA | data}).encode(), False


def failed(message: str, kind: str = "InstancePoolError") -> tuple[bytes, bool]:
    return json.dumps({"errorType": kind, "errorMessage": message, "stackTrace": []}).encode(), True


@dataclass
class World:
    """A function that answers from a script, or by the time, and a clock that only sleep moves."""

    answers: list[Any] | Callable[[float], Any]
    targets: Sequence[Target] = (TARGET,)
    renews: bool = True
    now: float = 0.0
    polls: list[tuple[float, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    told: list[SemifError] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)

    def run(self) -> ExitCode:
        ports = Ports(
            self.poll, self.look, lambda: self.renews, self.said.append, self.told.append, self.sleep,
            lambda: self.now,
        )  # fmt: skip
        return Climbing(self.targets, ports).run()

    def poll(self, target: Target) -> tuple[bytes, bool]:
        self.polls.append((self.now, target.key))
        answer = self.answers(self.now) if callable(self.answers) else self.answers.pop(0)
        if isinstance(answer, SemifError):
            raise answer
        assert isinstance(answer, tuple)
        return answer

    def look(self, _target: Target) -> Sequence[str]:
        return self.lines.pop(0) if self.lines else []

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_polls_until_it_has_ended() -> None:
    world = World([PENDING, PENDING, done()], lines=[["ml.g6e.xlarge, 1 of 2"], [], ["in service"]])

    assert world.run() == ExitCode.OK
    assert [at for at, _ in world.polls] == [0, 15, 30]
    assert world.said == [
        "decisions: ml.g6e.xlarge, 1 of 2",
        "decisions: in service",
        "decisions: ml.g6e.xlarge serves now (round 1 of 2); tried: ml.g6e.xlarge: in service after 6 m 0 s",
    ]


def test_nothing_better_is_no_failure() -> None:
    world = World([done(Attempts="")])

    assert world.run() == ExitCode.OK
    assert world.said == ["decisions: ml.g6e.xlarge serves (round 1 of 2); the pool prefers nothing to it"]


def test_a_last_resort_that_is_better_than_before_still_says_degraded() -> None:
    world = World([done(Degraded="DEGRADED: the last resort serves")])

    world.run()
    assert world.said[0].endswith("; DEGRADED: the last resort serves")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("stack_in_progress", ExitCode.RETRYABLE),
        ("alarm_active", ExitCode.RETRYABLE),
        ("no_capacity", ExitCode.FAILED),
        ("health_check_failed", ExitCode.FAILED),
        ("endpoint_not_ours", ExitCode.FAILED),
    ],
)
def test_the_functions_own_words_decide(code: str, exit_code: ExitCode) -> None:
    world = World([failed(f"{code}: No preferred type can be had. Next: Run it again.")])

    assert world.run() == exit_code
    (error,) = world.told
    assert error.report() == (f"error: {code}: decisions: No preferred type can be had.\nnext: Run it again")


def test_lost_throttled_and_crashed_polls_are_repeated() -> None:
    world = World(
        [
            UnreachableError("aws_unreachable", "no answer"),
            ThrottledError("TooManyRequestsException", "slow down"),
            failed("2026-12-01 Task timed out after 300 seconds", kind="Sandbox.Timedout"),
            PENDING,
            done(),
        ]
    )

    assert world.run() == ExitCode.OK
    assert world.told == []
    assert len(world.polls) == 5


def test_patience_ends() -> None:
    world = World(lambda _now: ThrottledError("Throttling", "slow down"))

    assert world.run() == ExitCode.RETRYABLE
    assert world.now == PATIENCE_S
    assert world.said == ["decisions: slow down; trying again for 5 m 0 s"]


def test_patience_begins_anew_after_an_answer() -> None:
    def throttled_mostly(now: float) -> Any:
        if now > 3 * PATIENCE_S:
            return done()
        return PENDING if now % 240 == 0 else ThrottledError("Throttling", "slow down")

    assert World(throttled_mostly).run() == ExitCode.OK


@pytest.mark.parametrize(("renews", "exit_code"), [(True, ExitCode.OK), (False, ExitCode.SERVICE)])
def test_expired_credentials_are_renewed_where_that_can_help(renews: bool, exit_code: ExitCode) -> None:
    world = World([CredentialsExpiredError("credentials_expired", "expired"), done()], renews=renews)

    assert world.run() == exit_code


def test_other_errors_of_aws_end_it() -> None:
    world = World([ServiceError("AccessDeniedException", "not allowed to invoke")])

    assert world.run() == ExitCode.SERVICE
    assert world.told[0].message == "decisions: not allowed to invoke"


def test_it_does_not_poll_for_ever() -> None:
    world = World(lambda _now: PENDING)

    assert world.run() == ExitCode.RETRYABLE
    assert world.now == LIMIT_S


def test_an_answer_of_something_else_is_refused() -> None:
    world = World([(b'{"statusCode": 200}', False)])

    assert world.run() == ExitCode.SERVICE
    assert world.told[0].code == "answer_not_readable"


def test_several_endpoints_climb_side_by_side_and_the_worst_counts() -> None:
    other = Target("standard", "arn:other", POOL, "walk-2")
    world = World([PENDING, failed("no_capacity: none. Next: Later."), done()], targets=(TARGET, other))

    assert world.run() == ExitCode.FAILED
    assert [key for _, key in world.polls] == ["decisions", "standard", "decisions"]
    assert world.said[-1].startswith("decisions: ml.g6e.xlarge serves now")


def test_each_poll_sends_the_same_event() -> None:
    event = json.loads(TARGET.event("climb-1", "2026-12-01T12:00:00+00:00"))

    assert event == {
        "RequestType": "Climb",
        "RequestId": "climb-1",
        "StackId": "arn:stack",
        "PhysicalResourceId": "semif-dev-decisions",
        "ResourceProperties": POOL,
        "Data": {"StartedAt": "2026-12-01T12:00:00+00:00"},
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_parameter_without_a_pool(text: str) -> None:
    with pytest.raises(ServiceError, match="/semif/dev/decisions/pool holds no pool"):
        parse_pool(text, "/semif/dev/decisions/pool")
