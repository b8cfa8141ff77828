"""An endpoint as settings describe it: what all engines have in common, and the engine's own part."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from stacks.callers_settings import CallersSettings, read_callers
from stacks.container_settings import (
    ENGINES,
    ContainerSettings,
    EngineName,
    engine_keys,
    read_container,
)
from stacks.mapping_reader import MappingReader, SettingsError
from stacks.model_settings import ModelSettings
from stacks.notes import Note
from stacks.pool_settings import (
    MAX_TYPES_OF_ROUND,
    POOL_KEYS,
    PoolSettings,
    Round,
    read_ami_versions,
    read_instance_types,
    read_pool,
    rounds_of,
    volume_key_notes,
)
from stacks.prices import Affordable, load_prices, read_max_hourly_usd, within_limit
from stacks.time_proof import WalkTimes, prove
from stacks.update_settings import UpdateSettings, read_update

MAX_ENDPOINT_NAME_LENGTH: Final = 63
COMMON_KEYS: Final = (
    "engine",
    "name",
    "image",
    *POOL_KEYS,
    "update",
    "rollback_alarms",
    "last_resort",
    "max_hourly_usd",
    "callers",
)
"""Settings of every endpoint; its engine adds its own."""
MAX_ROLLBACK_ALARMS: Final = 9
"""SageMaker takes ten, and one is the endpoint's own."""
_LAST_RESORT_KEYS: Final = ("pool", "instance_count", "inference_ami_version", "image", "model")
# SageMaker allows capitals here, but its ARNs are in lower case and IAM compares ARNs by case.
_ENDPOINT_NAME: Final = (
    rf"[a-z0-9](-*[a-z0-9]){{0,{MAX_ENDPOINT_NAME_LENGTH - 1}}}",
    f"1 to {MAX_ENDPOINT_NAME_LENGTH} lower-case letters, digits and inner hyphens",
)


@dataclass(frozen=True)
class LastResortSettings:
    """Tried when no type of the pool is to be had: a round with a container of its own."""

    container: ContainerSettings
    round: Round
    instance_count: int
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class EndpointSettings:
    """An endpoint. `key` names its stack, `path` is where it stands in the settings.

    `notes` are what a synth has to say about it.
    """

    key: str
    path: str
    name: str
    container: ContainerSettings
    pool: PoolSettings
    update: UpdateSettings
    rollback_alarms: tuple[str, ...]
    last_resort: LastResortSettings | None
    callers: CallersSettings | None
    notes: tuple[Note, ...]

    @property
    def containers(self) -> tuple[ContainerSettings, ...]:
        """The endpoint's own container, and that of its last resort."""
        return (self.container, *([self.last_resort.container] if self.last_resort else []))

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds of the walk, the last resort included."""
        return (*self.pool.rounds, *([self.last_resort.round] if self.last_resort else []))

    @property
    def left_out(self) -> Mapping[str, str]:
        """Types of the settings that are never tried, and why."""
        return {**self.pool.left_out, **(self.last_resort.left_out if self.last_resort else {})}

    @property
    def walk_times(self) -> WalkTimes:
        """What the longest walk depends on."""
        return WalkTimes(
            rounds=len(self.rounds),
            strategy=self.pool.strategy,
            provision_timeout_s=self.pool.provision_timeout_s,
            download_timeout_s=self.pool.download_timeout_s,
            startup_timeout_s=self.pool.startup_timeout_s,
            update=self.update,
            instance_count=self.pool.instance_count,
        )


def read_endpoint(
    endpoints: MappingReader, key: str, *, environment_name: str, region: str, model: ModelSettings
) -> EndpointSettings:
    """Read one endpoint of `endpoints`; `model` is the environment's. Raises SettingsError with the path."""
    engine = endpoints.mapping(key, None).choice("engine", ENGINES) or "semif"
    reader = endpoints.mapping(key, COMMON_KEYS + engine_keys(engine))
    types = _affordable(reader, reader, region)
    container, notes = read_container(
        reader, engine=engine, pool=types.kept, region=region, default_model=model
    )
    pool = read_pool(
        reader,
        types=types.kept,
        left_out=types.left_out,
        region=region,
        cuda_13=container.flavour == "cuda",
    )
    last_resort, last_notes = _last_resort(reader, engine, region, pool, model)
    smallest = min(pool.instance_count, last_resort.instance_count if last_resort else pool.instance_count)
    endpoint = EndpointSettings(
        key=key,
        path=reader.path,
        name=reader.optional_text("name", *_ENDPOINT_NAME) or f"semif-{environment_name}-{key}",
        container=container,
        pool=pool,
        update=read_update(reader, instance_count=smallest),
        rollback_alarms=_rollback_alarms(reader),
        last_resort=last_resort,
        callers=read_callers(reader, region=region),
        notes=(),
    )
    prove(endpoint.walk_times, reader.at("pool"))
    return replace(endpoint, notes=notes + last_notes + volume_key_notes(pool, endpoint.rounds, reader.path))


def _affordable(reader: MappingReader, limits: MappingReader, region: str) -> Affordable:
    """The types of a pool within the limit of `limits`, and the others."""
    return within_limit(
        read_instance_types(reader),
        read_max_hourly_usd(limits),
        region=region,
        prices=load_prices(),
        path=reader.at("pool"),
    )


def _rollback_alarms(reader: MappingReader) -> tuple[str, ...]:
    if not reader.has("rollback_alarms"):
        return ()
    names = reader.texts("rollback_alarms", r"(?!ASG:)[^\x00-\x1f]{1,255}", "the name of a CloudWatch alarm")
    if len(names) > MAX_ROLLBACK_ALARMS:
        raise SettingsError(
            reader.at("rollback_alarms"),
            f"has {len(names)} names; at most {MAX_ROLLBACK_ALARMS} are possible",
        )
    return names


def _last_resort(
    parent: MappingReader, engine: EngineName, region: str, pool: PoolSettings, model: ModelSettings
) -> tuple[LastResortSettings | None, tuple[Note, ...]]:
    if not parent.has("last_resort"):
        return None, ()
    reader = parent.mapping("last_resort", _LAST_RESORT_KEYS + engine_keys(engine))
    affordable = _affordable(reader, parent, region)
    types = affordable.kept
    container, notes = read_container(reader, engine=engine, pool=types, region=region, default_model=model)
    rounds = rounds_of(
        types,
        read_ami_versions(reader, types, cuda_13=container.flavour == "cuda"),
        strategy=pool.strategy,
        volume_key=pool.volume_key,
    )
    if len(rounds) != 1:
        most = f"at most {MAX_TYPES_OF_ROUND} types alike" if pool.strategy == "native" else "one type"
        raise SettingsError(
            reader.at("pool"),
            f"must be one round: {most} with pool_strategy {pool.strategy}, not {len(types)}",
        )
    settings = LastResortSettings(
        container=container,
        round=rounds[0],
        instance_count=reader.whole("instance_count", pool.instance_count, 1, 100),
        left_out=affordable.left_out,
    )
    return settings, notes
