"""What the SemIf engine has of its own."""

from dataclasses import dataclass
from typing import Final, Literal

from stacks.dlc import Flavour
from stacks.mapping_reader import MappingReader, SettingsError

SEMIF_KEYS: Final = (
    "gpu_layers",
    "max_tokens",
    "max_request_tokens",
    "max_shared_decisions",
    "max_body_bytes",
    "threads",
    "batching",
    "cache_bytes",
    "sequences",
    "deadline_s",
)

Batching = Literal["exact", "throughput"]
_BATCHINGS: Final[tuple[Batching, ...]] = ("exact", "throughput")


@dataclass(frozen=True)
class SemIfEngine:
    """Limits of the decision server; `gpu_layers` -1 is all, None of the others the server's choice."""

    gpu_layers: int
    max_tokens: int
    max_request_tokens: int
    max_shared_decisions: int
    max_body_bytes: int
    threads: int | None = None
    batching: Batching | None = None
    cache_bytes: int | None = None
    sequences: int | None = None
    deadline_s: int | None = None
    name: Literal["semif"] = "semif"


def read_semif_engine(reader: MappingReader, flavour: Flavour | None) -> SemIfEngine:
    """Read what SEMIF_KEYS name; `flavour` is None where the image is somebody else's."""
    max_tokens = reader.whole("max_tokens", 4096, 64, 1_048_576)
    max_request_tokens = reader.whole("max_request_tokens", 8192, 64, 16_777_216)
    if max_request_tokens < max_tokens:
        raise SettingsError(
            reader.at("max_request_tokens"),
            f"must be at least max_tokens ({max_tokens}), not {max_request_tokens}",
        )
    gpu_layers = reader.whole("gpu_layers", -1 if flavour == "cuda" else 0, -1, 10_000)
    if gpu_layers != 0 and flavour == "cpu":
        raise SettingsError(reader.at("gpu_layers"), "must be 0: the pool has no GPU, and so the CPU image")
    return SemIfEngine(
        gpu_layers=gpu_layers,
        max_tokens=max_tokens,
        max_request_tokens=max_request_tokens,
        max_shared_decisions=reader.whole("max_shared_decisions", 64, 1, 4096),
        max_body_bytes=reader.whole("max_body_bytes", 262_144, 1024, 26_214_400),
        threads=reader.optional_whole("threads", 1, 512),
        batching=reader.choice("batching", _BATCHINGS),
        cache_bytes=reader.optional_whole("cache_bytes", 1, 2**50),
        sequences=reader.optional_whole("sequences", 2, 256),
        deadline_s=reader.optional_whole("deadline_s", 1, 3600),
    )
