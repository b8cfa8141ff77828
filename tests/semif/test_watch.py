"""The loop: patience, back-off, time-out; with a clock that only sleeping moves."""

from collections.abc import Callable
from datetime import UTC

import pytest

from semif.deployment import Snapshot
from semif.errors import CredentialsExpiredError, ExitCode, SemifError, ServiceError, ThrottledError
from semif.progress import Progress
from semif.watch import Ports, follow
from tests.semif.recording import RecordedStack, at


class World:
    """Time and AWS: `look` says what a look at a second gives."""

    def __init__(self, look: Callable[[float], Snapshot], *, renewable: bool = True) -> None:
        self.look = look
        self.renewable = renewable
        self.now_s = 0.0
        self.said: list[str] = []
        self.looks: list[float] = []

    def follow(self, *, timeout_s: float | None = None) -> ExitCode:
        ports = Ports(self._read, lambda: self.renewable, self.said.append, self._sleep, lambda: self.now_s)
        return follow(
            Progress("dev", "eu-central-1", tz=UTC, expected=["semif-dev-decisions"]),
            ports,
            interval_s=2,
            timeout_s=timeout_s,
        )

    def _read(self) -> Snapshot:
        self.looks.append(self.now_s)
        return self.look(self.now_s)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


def deploying(second: float) -> Snapshot:
    stack = RecordedStack("semif-dev-decisions")
    stack.own(0, "CREATE_IN_PROGRESS")
    if second >= 60:
        stack.own(60, "CREATE_COMPLETE")
    return Snapshot(at(second), (stack.view(),))


def test_follows_to_the_end() -> None:
    world = World(deploying)
    assert world.follow() == ExitCode.OK
    assert world.looks == [float(second) for second in range(0, 61, 2)]
    assert world.said[0] == "12:00:00 semif-dev-decisions CREATE_IN_PROGRESS"
    assert world.said[-1] == "semif-dev-decisions CREATE_COMPLETE"
    assert len(world.said) == len(set(world.said))


def test_throttle_is_said_once_and_looks_become_rare() -> None:
    def throttled_for_a_minute(second: float) -> Snapshot:
        if 10 <= second < 50:
            raise ThrottledError("Throttling", "Rate exceeded")
        return deploying(second)

    world = World(throttled_for_a_minute)
    assert world.follow() == ExitCode.OK
    assert sum("Rate exceeded" in line for line in world.said) == 1
    assert world.looks[5:10] == [10, 14, 22, 38, 68]


def test_gives_up_without_one_look_in_five_minutes() -> None:
    def down(_second: float) -> Snapshot:
        raise ThrottledError("Throttling", "Rate exceeded")

    world = World(down)
    with pytest.raises(ThrottledError):
        world.follow()
    assert 300 <= world.now_s <= 330


def test_renewed_credentials_go_on() -> None:
    def expired_for_a_while(second: float) -> Snapshot:
        if 10 <= second < 30:
            raise CredentialsExpiredError("credentials_expired", "the token expired")
        return deploying(second)

    world = World(expired_for_a_while)
    assert world.follow() == ExitCode.OK
    assert "the token expired; trying again for 5 m 0 s" in world.said


@pytest.mark.parametrize(
    "error",
    [CredentialsExpiredError("credentials_expired", "expired"), ServiceError("AccessDenied", "not allowed")],
)
def test_what_waiting_cannot_cure_ends_at_once(error: SemifError) -> None:
    def denied(_second: float) -> Snapshot:
        raise error

    world = World(denied, renewable=False)
    with pytest.raises(type(error)):
        world.follow()
    assert world.looks == [0]


def test_timeout_stops_watching_only() -> None:
    world = World(deploying)
    assert world.follow(timeout_s=10) == ExitCode.RETRYABLE
    assert world.said[-1] == "stopped watching after 10 s; the deployment goes on"
