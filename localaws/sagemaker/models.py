"""Records of SageMaker's resources, without behaviour that waits or calls out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Model:
    """A model: the request that made it, read-only, and what hosting needs of it."""

    name: str
    arn: str
    created_at: datetime
    request: Mapping[str, Any]
    image: str
    environment: Mapping[str, str]
    role: str
    container_name: str
    """How runtime errors call the container: its hostname, or ``primary``."""
    data: ModelData | None


class DataForm(StrEnum):
    """How model data lies in S3."""

    PREFIX = "prefix"
    OBJECT = "object"
    GZIP_TAR = "gzip-tar"


@dataclass(frozen=True, slots=True)
class ModelData:
    """Where model data lies: everything under a prefix, one object, or one gzipped tar to unpack."""

    bucket: str
    key: str
    form: DataForm

    @property
    def url(self) -> str:
        """The data's S3 URL."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """One choice of instance type, and the model that a type of its own may name."""

    instance_type: str
    model_name: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A production variant: its instance types in the order they are tried (one without InstancePools)."""

    name: str
    pool: tuple[PoolEntry, ...]
    native_pool: bool
    instance_count: int
    weight: float
    download_timeout_s: int
    startup_timeout_s: int
    provision_timeout_s: int | None = None
    """How long a native pool may look for instances."""

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The types alone, in order."""
        return tuple(entry.instance_type for entry in self.pool)


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """An endpoint configuration: the request that made it, and its variants."""

    name: str
    arn: str
    created_at: datetime
    request: Mapping[str, Any]
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class ServingVariant:
    """A variant in service: the types that were found (the first one's container runs) and its image."""

    name: str
    instance_type: str
    native_pool: bool
    instance_count: int
    weight: float
    image: str
    resolved_image: str
    resolved_at: datetime
    fleet: tuple[tuple[str, int], ...] = ()
    """How many instances of each type of the pool, in the pool's order; empty: all of `instance_type`."""
    desired_count: int | None = None
    """What UpdateEndpointWeightsAndCapacities is bringing about, None when nothing is under way."""

    @property
    def instances(self) -> tuple[tuple[str, int], ...]:
        """The instances that there are, by type."""
        return self.fleet or ((self.instance_type, self.instance_count),)


def arn(account: str, region: str, kind: str, name: str) -> str:
    """Return a resource's ARN; SageMaker writes names in it in lower case."""
    partition = {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(region.rsplit("-", 2)[0], "aws")
    return f"arn:{partition}:sagemaker:{region}:{account}:{kind}/{name.lower()}"


def container_of(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the one container definition of a CreateModel request, or None."""
    containers = [*([request["PrimaryContainer"]] if request.get("PrimaryContainer") else [])]
    containers.extend(request.get("Containers") or [])
    return containers[0] if len(containers) == 1 else None


def data_of(container: Mapping[str, Any]) -> ModelData | None:
    """Return where the container's model data lies, None without any.

    Raises:
        ValueError: with the reason, if the URL is not of S3 or does not fit its data type.
    """
    source = (container.get("ModelDataSource") or {}).get("S3DataSource")
    url = source["S3Uri"] if source else container.get("ModelDataUrl")
    if not url:
        return None
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"Invalid model data URL {url}: it must start with s3:// and a bucket.")
    if source is None:
        return ModelData(bucket, key, DataForm.GZIP_TAR)
    gzipped, prefix = source["CompressionType"] == "Gzip", source["S3DataType"] == "S3Prefix"
    if prefix and gzipped:
        raise ValueError("S3DataType S3Prefix requires CompressionType None.")
    if prefix and not url.endswith("/"):
        raise ValueError(f"Invalid model data URL {url}: a S3Prefix must end with a forward slash.")
    form = DataForm.PREFIX if prefix else DataForm.GZIP_TAR if gzipped else DataForm.OBJECT
    return ModelData(bucket, key, form)


def variant_of(request: Mapping[str, Any]) -> Variant:
    """Read one production variant with an instance type or a pool."""
    model = request.get("ModelName", "")
    pools = request.get("InstancePools") or []
    entries = [
        PoolEntry(entry["InstanceType"], entry.get("ModelNameOverride") or model)
        for entry in sorted(pools, key=lambda entry: int(entry["Priority"]))
    ]
    return Variant(
        name=request["VariantName"],
        pool=tuple(entries) or (PoolEntry(request["InstanceType"], model),),
        native_pool=bool(entries),
        instance_count=request.get("InitialInstanceCount", 1),
        weight=request.get("InitialVariantWeight", 1.0),
        download_timeout_s=request.get("ModelDataDownloadTimeoutInSeconds", 3600),
        startup_timeout_s=request.get("ContainerStartupHealthCheckTimeoutInSeconds", 600),
        provision_timeout_s=request.get("VariantInstanceProvisionTimeoutInSeconds"),
    )
