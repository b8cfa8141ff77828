"""The setting `update`: how a new fleet takes over from the one that serves."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from stacks.mapping_reader import MappingReader, SettingsError

UpdateType = Literal["all-at-once", "canary", "rolling", "recreate"]
UPDATE_TYPES: Final[tuple[UpdateType, ...]] = ("all-at-once", "canary", "rolling", "recreate")
_KEYS: Final = ("type", "canary_percent", "batch_percent", "wait_s", "termination_wait_s")
_ALLOWED: Final[dict[UpdateType, tuple[str, ...]]] = {
    "all-at-once": ("type", "wait_s", "termination_wait_s"),
    "canary": ("type", "canary_percent", "wait_s", "termination_wait_s"),
    "rolling": ("type", "batch_percent", "wait_s"),
    "recreate": ("type",),
}
_DEFAULT_WAIT_S: Final[dict[UpdateType, int]] = {
    "all-at-once": 0,
    "canary": 300,
    "rolling": 60,
    "recreate": 0,
}
MAX_WAIT_S: Final = 1800


@dataclass(frozen=True)
class UpdateSettings:
    """A deployment policy; a part that the type does not have is None.

    `wait_s` is how long the alarms are watched after each shift of traffic, `termination_wait_s` how long the
    old fleet stays after the last one.
    """

    type: UpdateType
    canary_percent: int | None
    batch_percent: int | None
    wait_s: int | None
    termination_wait_s: int | None

    def batches(self, instance_count: int) -> int:
        """In how many parts the fleet is replaced."""
        if self.batch_percent is None:
            return 1
        return math.ceil(instance_count / max(1, instance_count * self.batch_percent // 100))


def read_update(parent: MappingReader, *, instance_count: int) -> UpdateSettings:
    """Read `update`, a word or an object. Raises SettingsError with the key's path."""
    if not parent.has("update"):
        reader = MappingReader({"type": "all-at-once"}, parent.at("update"))
    elif isinstance(parent.value["update"], str):
        reader = MappingReader({"type": parent.choice("update", UPDATE_TYPES)}, parent.at("update"))
    else:
        reader = parent.mapping("update", _KEYS)
    kind = reader.choice("type", UPDATE_TYPES)
    if kind is None:
        raise SettingsError(reader.at("type"), f"is missing: one of {', '.join(UPDATE_TYPES)}")
    allowed = _ALLOWED[kind]
    for key in reader.value:
        if key not in allowed:
            raise SettingsError(reader.at(key), f"is no part of {kind}; it has {', '.join(allowed)}")
    if kind in {"canary", "rolling"} and instance_count < 2:
        raise SettingsError(
            reader.path,
            f"{kind} shifts at most half of the fleet at a time, so it needs instance_count 2 or more;"
            " use all-at-once, or recreate where the quota is 1",
        )
    return UpdateSettings(
        type=kind,
        canary_percent=reader.whole("canary_percent", 10, 1, 50) if "canary_percent" in allowed else None,
        batch_percent=reader.whole("batch_percent", 50, 5, 50) if "batch_percent" in allowed else None,
        wait_s=reader.whole("wait_s", _DEFAULT_WAIT_S[kind], 0, MAX_WAIT_S) if "wait_s" in allowed else None,
        termination_wait_s=reader.whole("termination_wait_s", 0, 0, MAX_WAIT_S)
        if "termination_wait_s" in allowed
        else None,
    )
