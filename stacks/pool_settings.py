"""The pool of an endpoint: which instance types, in which rounds, for how long."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stacks.instance_facts import facts_of
from stacks.instance_types import CUDA_13_AMI, families_without_ami
from stacks.mapping_reader import MappingReader, SettingsError, matching
from stacks.notes import Note
from stacks.regions import INSTANCE_POOL_REGIONS, POOL_STRATEGIES, PoolStrategy

POOL_KEYS: Final = (
    "pool",
    "pool_strategy",
    "instance_count",
    "inference_ami_version",
    "provision_timeout_s",
    "download_timeout_s",
    "startup_timeout_s",
    "volume_key",
)
MAX_TYPES_OF_ROUND: Final = 5
"""As many as an instance pool of SageMaker has."""
_INSTANCE_TYPE: Final = (r"ml\.[a-z0-9-]+\.[a-z0-9]+", "an instance type such as ml.c6i.2xlarge")
_AMI: Final = (r"[a-z0-9][a-z0-9-]{0,127}", f"an AMI version such as {CUDA_13_AMI}")
_FAMILY: Final = (r"default|[a-z]+[0-9][a-z0-9-]*", "an instance family such as g5, or default")
_KEY: Final = (
    r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]{1,128}",
    "the ARN of a KMS key: arn:aws:kms:REGION:ACCOUNT:key/ID",
)


@dataclass(frozen=True)
class Round:
    """Types that one configuration offers to SageMaker, best first; `kms_key` encrypts their volumes."""

    instance_types: tuple[str, ...]
    inference_ami_version: str | None
    kms_key: str | None


@dataclass(frozen=True)
class PoolSettings:
    """`rounds` are tried in their order; `left_out` are types of the setting that never are, and why."""

    strategy: PoolStrategy
    rounds: tuple[Round, ...]
    left_out: Mapping[str, str]
    instance_count: int
    provision_timeout_s: int
    download_timeout_s: int
    startup_timeout_s: int
    volume_key: str | None

    @property
    def instance_types(self) -> tuple[str, ...]:
        """All types that are tried, best first."""
        return tuple(name for item in self.rounds for name in item.instance_types)


def read_instance_types(reader: MappingReader) -> tuple[str, ...]:
    """Read `pool`. Raises SettingsError with the key's path."""
    return reader.texts("pool", *_INSTANCE_TYPE)


def read_pool(
    reader: MappingReader,
    *,
    types: Sequence[str],
    left_out: Mapping[str, str],
    region: str,
    cuda_13: bool,
) -> PoolSettings:
    """Read what else POOL_KEYS name; `cuda_13`: the container is this project's or AWS's CUDA image."""
    strategy = reader.choice("pool_strategy", POOL_STRATEGIES)
    if strategy == "native" and region not in INSTANCE_POOL_REGIONS:
        raise SettingsError(
            reader.at("pool_strategy"), f"native: SageMaker has no instance pools in {region}; use serial"
        )
    strategy = strategy or ("native" if region in INSTANCE_POOL_REGIONS else "serial")
    volume_key = read_volume_key(reader, region)
    return PoolSettings(
        strategy=strategy,
        rounds=rounds_of(
            types,
            read_ami_versions(reader, types, cuda_13=cuda_13),
            strategy=strategy,
            volume_key=volume_key,
        ),
        left_out=left_out,
        instance_count=reader.whole("instance_count", 1, 1, 100),
        provision_timeout_s=reader.whole("provision_timeout_s", 1200, 300, 3600),
        download_timeout_s=reader.whole("download_timeout_s", 900, 60, 3600),
        startup_timeout_s=reader.whole("startup_timeout_s", 600, 60, 3600),
        volume_key=volume_key,
    )


def rounds_of(
    types: Sequence[str],
    ami_versions: Mapping[str, str | None],
    *,
    strategy: PoolStrategy,
    volume_key: str | None,
) -> tuple[Round, ...]:
    """Put neighbours together that one configuration can hold: the order of the types is never changed.

    A native round has one AMI version. With a key it also has either types with local disks, which no key of
    a configuration encrypts, or types without; together, the key would have to stay away from both.
    """
    rounds: list[Round] = []
    for name in types:
        key = volume_key if facts_of(name).nvme is False else None
        own = Round((name,), ami_versions[name], key)
        last = rounds[-1] if rounds else None
        if (
            strategy == "native"
            and last is not None
            and len(last.instance_types) < MAX_TYPES_OF_ROUND
            and (last.inference_ami_version, last.kms_key) == (own.inference_ami_version, own.kms_key)
        ):
            rounds[-1] = Round((*last.instance_types, name), own.inference_ami_version, key)
        else:
            rounds.append(own)
    return tuple(rounds)


def read_ami_versions(
    reader: MappingReader, types: Sequence[str], *, cuda_13: bool
) -> Mapping[str, str | None]:
    """The host AMI of each type: its family's, the default one, or None. CPU types have none of their own.

    Raises SettingsError where a GPU type would get an AMI whose driver cannot run CUDA 13.
    """
    key = "inference_ami_version"
    by_family: dict[str, str] = {}
    if not reader.has(key):
        by_family = {"default": CUDA_13_AMI} if cuda_13 else {}
    elif isinstance(reader.value[key], str):
        by_family = {"default": reader.text(key, *_AMI)}
    else:
        families = reader.mapping(key, None)
        for family in families.value:
            matching(family, families.at(family), *_FAMILY)
            by_family[family] = families.text(family, *_AMI)
    versions = {}
    for name in types:
        facts = facts_of(name)
        default = by_family.get("default") if facts.accelerated else None
        versions[name] = by_family.get(facts.family, default)
    lacking = families_without_ami(versions) if cuda_13 else ()
    if lacking:
        raise SettingsError(
            reader.at(key),
            f"names no AMI for {', '.join(lacking)}, whose own driver is too old for the CUDA 13 image: the"
            f' container would not start. Add "default": "{CUDA_13_AMI}"',
        )
    return versions


def read_volume_key(reader: MappingReader, region: str) -> str | None:
    """Read `volume_key`, or None where it is absent."""
    arn = reader.optional_text("volume_key", *_KEY)
    if arn is not None and arn.split(":")[3] != region:
        raise SettingsError(
            reader.at("volume_key"),
            f"is a key of {arn.split(':')[3]}; SageMaker takes keys of its own region only: {region}",
        )
    return arn


def volume_key_notes(pool: PoolSettings, rounds: Sequence[Round], path: str) -> tuple[Note, ...]:
    """Say whose disks the key does not cover."""
    if pool.volume_key is None:
        return ()
    uncovered = [name for item in rounds for name in item.instance_types if item.kms_key is None]
    if not uncovered:
        return ()
    return (
        Note(
            "volume-key",
            "info",
            f"{path}.volume_key does not cover the disks of {', '.join(uncovered)}: they are local, or not"
            " known to be others, and no configuration's key encrypts local disks; the hardware does, with"
            " a key of its own.",
        ),
    )
