"""The setting `update`: how a new fleet takes over from the one that serves."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from stacks.mapping_reader import MappingReader, SettingsError

UpdateType = Literal["all-at-once", "canary", "rolling", "recreate"]
UPDATE_TYPES: Final[tuple[UpdateType, ...]] = ("all-at-once", "canary", "rolling", "recreate")
_KEYS: Final = ("type", "canary_percent", "batch_percent", "wait_s", "termination_wait_s")
_ALLOWED: Final[dict[UpdateType, tuple[str, ...]]] = {
    "all-at-once": ("type", "termination_wait_s"),
    "canary": ("type", "canary_percent", "wait_s", "termination_wait_s"),
    "rolling": ("type", "batch_percent", "wait_s"),
    "recreate": ("type",),
}
_DEFAULT_WAIT_S: Final[dict[UpdateType, int]] = {"canary": 300, "rolling": 60}
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
    """Read `update`, a word or an object; `instance_count` is that of its smallest fleet.

    Raises SettingsError with the key's path.
    """
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
            f"{kind} shifts at most half of the fleet at a time, so it needs instance_count 2 or more, of"
            " the last resort too; use all-at-once, or recreate where the quota is 1",
        )

    def part(key: str, default: int, low: int, high: int) -> int | None:
        return reader.whole(key, default, low, high) if key in allowed else None

    return UpdateSettings(
        type=kind,
        canary_percent=part("canary_percent", 10, 1, 50),
        batch_percent=part("batch_percent", 50, 5, 50),
        wait_s=part("wait_s", _DEFAULT_WAIT_S.get(kind, 0), 0, MAX_WAIT_S),
        termination_wait_s=part("termination_wait_s", 0, 0, MAX_WAIT_S),
    )
