"""The time proof: a walk that must try all its rounds still ends within CloudFormation's hour.

SageMaker needs up to 30 minutes to say that it has no capacity for one type; a round of a native pool is
given up after its own provisioning time-out. The last round is assumed to find its instances: if it does
not either, the walk fails by itself, before CloudFormation does.
"""

from dataclasses import dataclass
from typing import Final

from stacks.mapping_reader import SettingsError
from stacks.regions import PoolStrategy
from stacks.update_settings import UpdateSettings

BUDGET_S: Final = 3000
"""50 minutes: the custom resource has 55, an operation of CloudFormation 60."""
SERIAL_FAILURE_S: Final = 1800
"""How long SageMaker takes to report that a single type has no capacity."""
MARGIN_S: Final = 120
"""Polls, deletions between rounds, and the calls themselves."""
MIN_PROVISION_S: Final = 300


@dataclass(frozen=True)
class WalkTimes:
    """All that the length of a walk depends on; `rounds` counts the last resort."""

    rounds: int
    strategy: PoolStrategy
    provision_timeout_s: int
    download_timeout_s: int
    startup_timeout_s: int
    update: UpdateSettings
    instance_count: int

    @property
    def failure_s(self) -> int:
        """How long a round without capacity takes."""
        return self.provision_timeout_s if self.strategy == "native" else SERIAL_FAILURE_S

    @property
    def batches(self) -> int:
        """Parts in which an update replaces the fleet, one after the other."""
        return self.update.batches(self.instance_count)

    @property
    def waits_s(self) -> int:
        """What an update waits on purpose."""
        return (self.update.wait_s or 0) * self.batches + (self.update.termination_wait_s or 0)

    @property
    def coming_up_s(self) -> int:
        """From the last round's instances to traffic on all of them."""
        return (self.download_timeout_s + self.startup_timeout_s) * self.batches + self.waits_s

    @property
    def worst_case_s(self) -> int:
        """The longest walk that ends well."""
        return (self.rounds - 1) * self.failure_s + self.coming_up_s + MARGIN_S


def prove(times: WalkTimes, path: str) -> None:
    """Raise SettingsError at `path`, with the sum and the choices, if the walk may not end in time."""
    if times.worst_case_s <= BUDGET_S:
        return
    raise SettingsError(
        path,
        f"the walk may need {times.worst_case_s} s, and a deployment has {BUDGET_S} s for it:"
        f" {_sum(times)}. Choose: {'; '.join(_choices(times))}",
    )


def _sum(times: WalkTimes) -> str:
    what = "provision_timeout_s" if times.strategy == "native" else "for SageMaker to report no capacity"
    repeated = f"{times.batches} batches × " if times.batches > 1 else ""
    parts = [
        *([f"{times.rounds - 1} × {times.failure_s} ({what})"] if times.rounds > 1 else []),
        f"{repeated}{times.download_timeout_s} (download_timeout_s)",
        f"{repeated}{times.startup_timeout_s} (startup_timeout_s)",
        *([f"{times.waits_s} (waits of update {times.update.type})"] if times.waits_s else []),
        f"{MARGIN_S} (margin)",
    ]
    return f"{' + '.join(parts)} = {times.worst_case_s} s for {_rounds(times.rounds)}"


def _choices(times: WalkTimes) -> list[str]:
    excess_s = times.worst_case_s - BUDGET_S
    choices = []
    fitting = 1 + max(0, BUDGET_S - times.coming_up_s - MARGIN_S) // times.failure_s
    if times.rounds > 1:
        choices.append(f"fewer types or no last_resort, so that there are at most {_rounds(fitting)}")
    if times.rounds > 1 and times.strategy == "native":
        provision_s = (BUDGET_S - times.coming_up_s - MARGIN_S) // (times.rounds - 1)
        if provision_s >= MIN_PROVISION_S:
            choices.append(f"provision_timeout_s of at most {provision_s}")
    together_s = times.download_timeout_s + times.startup_timeout_s - -(-excess_s // times.batches)
    if together_s >= 120:
        choices.append(f"download_timeout_s and startup_timeout_s of at most {together_s} s together")
    if times.rounds > 1 and times.strategy == "serial":
        choices.append("pool_strategy native, where the region has instance pools")
    if times.waits_s:
        choices.append("shorter waits in update")
    if times.batches > 1:
        choices.append("a larger batch_percent, or update all-at-once")
    return choices


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"
