"""`semif climb`: asks the endpoint's own function to try preferred instance types again, poll by poll.

The function alone touches the endpoint. A poll that is lost or throttled decides nothing: the next one asks
the same, and the function finds what it has done by the request's id. No AWS in here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from semif.errors import (
    CredentialsExpiredError,
    ExitCode,
    NotReadableError,
    RetryableError,
    SemifError,
    ServiceError,
    UnreachableError,
)
from semif.terminal import duration, printable

INTERVAL_S: Final = 15.0
PATIENCE_S: Final = 300.0
"""How long polls may fail one after the other."""
LIMIT_S: Final = 3600.0
"""The function itself ends a climb after 50 minutes."""

# What the function's own words begin with, as against a crash of the runtime.
_OWN_ERRORS: Final = frozenset({"InstancePoolError", "PropertyError"})
_NOT_NOW: Final = frozenset(
    {"alarm_active", "endpoint_not_in_service", "pool_changed", "scaling_under_way", "stack_in_progress"}
)


class ClimbFailedError(SemifError):
    """The climb ended and what served before serves on."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True)
class Target:
    """One endpoint: `key` in the settings, its `pool` (the custom resource's properties), its function."""

    key: str
    stack_id: str
    pool: Mapping[str, Any]
    function_name: str

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name in SageMaker."""
        return str(self.pool.get("EndpointName", ""))

    def event(self, request_id: str, started_at: str) -> bytes:
        """What each poll of one climb sends; `started_at` is ISO in UTC."""
        event = {
            "RequestType": "Climb",
            "RequestId": request_id,
            "StackId": self.stack_id,
            "PhysicalResourceId": self.endpoint_name,
            "ResourceProperties": self.pool,
            "Data": {"StartedAt": started_at},
        }
        return json.dumps(event).encode()


@dataclass(frozen=True)
class Ports:
    """What the loop needs from outside.

    `poll` invokes the function once and returns its answer and whether that is an error; `look` says what is
    new of a target; `renew` opens the credentials anew and says whether that can help; `say` prints a line,
    `tell` an error; `sleep` and `monotonic` are in seconds.
    """

    poll: Callable[[Target], tuple[bytes, bool]]
    look: Callable[[Target], Sequence[str]]
    renew: Callable[[], bool]
    say: Callable[[str], None]
    tell: Callable[[SemifError], None]
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]


def read_answer(payload: bytes, *, is_error: bool) -> Mapping[str, str] | None:
    """The data of a climb that ended; None while it goes on.

    Raises ClimbFailedError or RetryableError for the function's own word, UnreachableError for a crash.
    """
    try:
        answer = json.loads(payload)
        if is_error:
            kind, message = str(answer.get("errorType", "")), str(answer.get("errorMessage", ""))
        else:
            complete, data = bool(answer["IsComplete"]), answer.get("Data") or {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotReadableError(
            "answer_not_readable",
            f"the function answered {payload[:200]!r}",
            next_step="check that the stack is of this version of the project, and deploy again",
        ) from error
    if not is_error:
        return {str(key): str(value) for key, value in data.items()} if complete else None
    if kind not in _OWN_ERRORS:
        raise UnreachableError("function_crashed", message or kind, next_step="read the function's log group")
    code, _, rest = message.partition(": ")
    reason, _, advice = rest.partition(" Next: ")
    kind_of_error = RetryableError if code in _NOT_NOW else ClimbFailedError
    raise kind_of_error(code, reason, next_step=advice.rstrip("."))


def ended_text(data: Mapping[str, str]) -> str:
    """The climb's result in words."""
    types, place = data.get("InstanceType", ""), data.get("Round", "")
    if not data.get("Attempts"):
        return printable(f"{types} serves (round {place}); the pool prefers nothing to it")
    degraded = data.get("Degraded", "no")
    warning = "" if degraded == "no" else f"; {degraded}"
    return printable(f"{types} serves now (round {place}); tried: {data['Attempts']}{warning}")


@dataclass
class _Climb:
    target: Target
    failing_since: float | None = None
    told: str = ""
    exit_code: ExitCode | None = None


@dataclass
class Climbing:
    """The climbs of one command, side by side."""

    targets: Sequence[Target]
    ports: Ports
    interval_s: float = INTERVAL_S
    _climbs: list[_Climb] = field(init=False)

    def __post_init__(self) -> None:
        self._climbs = [_Climb(target) for target in self.targets]

    def run(self) -> ExitCode:
        """Poll until each climb has ended; the exit code is the worst one's."""
        ports, began = self.ports, self.ports.monotonic()
        while True:
            for climb in self._climbs:
                if climb.exit_code is None:
                    self._step(climb)
            codes = [climb.exit_code for climb in self._climbs if climb.exit_code is not None]
            if len(codes) == len(self._climbs):
                return max(codes, default=ExitCode.OK)
            if ports.monotonic() - began >= LIMIT_S:
                ports.say(f"stopped asking after {duration(LIMIT_S)}; what is under way goes on")
                return ExitCode.RETRYABLE
            ports.sleep(self.interval_s)

    def _step(self, climb: _Climb) -> None:
        name = climb.target.key
        try:
            payload, is_error = self.ports.poll(climb.target)
            data = read_answer(payload, is_error=is_error)
        except (ClimbFailedError, RetryableError) as error:
            if error.code in _NOT_NOW or isinstance(error, ClimbFailedError):
                self._tell(climb)
                self._end(climb, error)
            else:
                self._retry(climb, error)
        except (UnreachableError, CredentialsExpiredError) as error:
            self._retry(climb, error)
        except SemifError as error:
            self._end(climb, error)
        else:
            climb.failing_since, climb.told = None, ""
            self._tell(climb)
            if data is not None:
                self.ports.say(f"{name}: {ended_text(data)}")
                climb.exit_code = ExitCode.OK

    def _tell(self, climb: _Climb) -> None:
        try:
            lines = self.ports.look(climb.target)
        except SemifError:
            return  # it only tells; the next look may succeed
        for line in lines:
            self.ports.say(f"{climb.target.key}: {line}")

    def _retry(self, climb: _Climb, error: SemifError) -> None:
        now = self.ports.monotonic()
        climb.failing_since = climb.failing_since if climb.failing_since is not None else now
        hopeless = isinstance(error, CredentialsExpiredError) and not self.ports.renew()
        if hopeless or now - climb.failing_since >= PATIENCE_S:
            self._end(climb, error)
        elif climb.told != error.code:
            climb.told = error.code
            words = printable(error.message)
            self.ports.say(f"{climb.target.key}: {words}; trying again for {duration(PATIENCE_S)}")

    def _end(self, climb: _Climb, error: SemifError) -> None:
        named = type(error)(
            error.code, f"{climb.target.key}: {error.message}", next_step=error.next_step, field=error.field
        )
        self.ports.tell(named)
        climb.exit_code = error.exit_code


def parse_pool(text: str, parameter: str) -> Mapping[str, Any]:
    """The pool that a deployment left in SSM. Raises ServiceError."""
    try:
        pool = json.loads(text)
    except ValueError:
        pool = None
    if not isinstance(pool, dict) or not pool.get("EndpointName"):
        raise ServiceError(
            "pool_not_readable",
            f"{parameter} holds no pool",
            next_step=f"put its value before back (aws ssm get-parameter-history --name {parameter})",
        )
    return pool
