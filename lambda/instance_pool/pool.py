"""The wanted pool: rounds of instance types, best first, and the names of their configurations. Pure."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Final, Literal

UpdateType = Literal["all-at-once", "canary", "rolling", "recreate"]
PREFIX_LENGTH: Final = 40
"""Characters of the endpoint's name that the names of its configurations begin with."""
_DIGEST_LENGTH: Final = 10
_SUFFIX_LENGTH: Final = 6


@dataclass(frozen=True)
class Round:
    """Types that are tried together (natively; one type where the walk is serial), preferred first."""

    types: tuple[str, ...]
    model_name: str
    initial_instance_count: int
    inference_ami_version: str | None = None
    kms_key_id: str | None = None
    last_resort: bool = False


@dataclass(frozen=True)
class UpdateMode:
    """How an update replaces the fleet: UpdateEndpoint's DeploymentConfig, or `recreate` with downtime."""

    type: UpdateType = "all-at-once"
    canary_percent: int = 10
    batch_percent: int = 50
    wait_s: int = 0
    termination_wait_s: int = 0

    def batches(self, instance_count: int) -> int:
        """Parts in which an update replaces a fleet, one after the other."""
        if self.type != "rolling":
            return 1
        return -(-instance_count // max(1, instance_count * self.batch_percent // 100))

    def waits_s(self, instance_count: int) -> int:
        """Seconds that an update waits by its own settings once the new instances are healthy."""
        if self.type == "recreate":
            return 0
        return self.wait_s * self.batches(instance_count) + self.termination_wait_s


@dataclass(frozen=True)
class Pool:
    """The wanted endpoint. `rounds` are tried in order, those of the last resort at the end."""

    endpoint_name: str
    variant_name: str
    rounds: tuple[Round, ...]
    native: bool
    provision_timeout_s: int | None
    download_timeout_s: int
    startup_timeout_s: int
    left_out: tuple[tuple[str, str], ...] = ()
    update: UpdateMode = UpdateMode()
    rollback_alarms: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Every type of every round, each once."""
        return tuple(dict.fromkeys(name for one in self.rounds for name in one.types))

    @cached_property
    def digest(self) -> str:
        """Ten hex digits of all that makes one fleet differ; tags and the way of updating do not."""
        content = {
            "endpoint": self.endpoint_name,
            "variant": self.variant_name,
            "rounds": [asdict(one) for one in self.rounds],
            "provision_s": self.provision_timeout_s if self.native else "serial",
            "download_s": self.download_timeout_s,
            "startup_s": self.startup_timeout_s,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]

    def round_name(self, index: int) -> str:
        """Name of the configuration for the round at `index` as it is: at most 56 characters."""
        return f"{self.endpoint_name[:PREFIX_LENGTH]}-{self.digest}-{index}"

    def attempt_name(self, index: int, types: Sequence[str], request_id: str, again: int = 0) -> str:
        """Name of the configuration for some types of a round, or for its second try: at most 63."""
        content = json.dumps([list(types), request_id, again])
        return f"{self.round_name(index)}-{hashlib.sha256(content.encode()).hexdigest()[:_SUFFIX_LENGTH]}"

    def index_of(self, configuration_name: str) -> int | None:
        """Place of the round that a configuration belongs to, or None for one of other content."""
        stem = re.escape(self.round_name(0)[:-1])
        found = re.fullmatch(
            rf"{stem}(0|[1-9]\d{{0,2}})(?:-[0-9a-f]{{{_SUFFIX_LENGTH}}})?", configuration_name
        )
        index = int(found[1]) if found else -1
        return index if 0 <= index < len(self.rounds) else None


def configuration_prefix(endpoint_name: str) -> str:
    """What the names of all configurations of an endpoint start with; tags say whose they are."""
    # Up to release 0.2 the prefix of a long name had 48 characters, so there is no hyphen to look for.
    return endpoint_name[:PREFIX_LENGTH] if len(endpoint_name) > PREFIX_LENGTH else f"{endpoint_name}-"
