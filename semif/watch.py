"""The loop of `semif watch`: look, say what is new, wait; until there is an outcome. No AWS in here.

A throttle or a lost connection makes it look less often; it gives up after `PATIENCE_S` without one look.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semif.deployment import Snapshot
from semif.errors import CredentialsExpiredError, ExitCode, RetryableError, SemifError, UnreachableError
from semif.progress import Progress
from semif.terminal import duration

PATIENCE_S = 300
MAX_INTERVAL_S = 30


@dataclass(frozen=True)
class Ports:
    """What the loop needs from outside.

    `read` looks once; `renew` opens the credentials anew and says whether that can help; `say` prints a line;
    `sleep` waits (seconds); `monotonic` is a clock in seconds.
    """

    read: Callable[[], Snapshot]
    renew: Callable[[], bool]
    say: Callable[[str], None]
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]


def follow(progress: Progress, ports: Ports, *, interval_s: float, timeout_s: float | None) -> ExitCode:
    """Watch until the deployment ends, and return its exit code; raises `SemifError` when it cannot look."""
    began = last_look = ports.monotonic()
    wait_s, told = interval_s, ""
    while True:
        try:
            step = progress.step(ports.read())
        except SemifError as error:
            if not _may_pass(error, ports) or ports.monotonic() - last_look >= PATIENCE_S:
                raise
            if told != error.code:
                told = error.code
                ports.say(f"{error.message}; trying again for {duration(PATIENCE_S)}")
            wait_s = min(MAX_INTERVAL_S, wait_s * 2)
        else:
            last_look, told, wait_s = ports.monotonic(), "", interval_s
            for line in step.lines:
                ports.say(line)
            if step.outcome:
                for line in step.outcome.lines:
                    ports.say(line)
                return step.outcome.exit_code
        if timeout_s is not None and ports.monotonic() - began >= timeout_s:
            ports.say(f"stopped watching after {duration(timeout_s)}; the deployment goes on")
            return ExitCode.RETRYABLE
        ports.sleep(wait_s)


def _may_pass(error: SemifError, ports: Ports) -> bool:
    if isinstance(error, CredentialsExpiredError):
        return ports.renew()
    return isinstance(error, RetryableError | UnreachableError)
