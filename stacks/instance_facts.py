"""What is known of an instance type: by AWS's naming scheme, and GPU memory by a table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["cpu", "cuda", "arm", "other"]
GIB: Final = 1024**3

_NAME: Final = re.compile(
    r"ml\.(?P<family>(?P<series>[a-z]+)(?P<generation>[0-9]+)(?P<traits>[a-z0-9-]*))\.(?P<size>[a-z0-9]+)"
)
_GPU_SERIES: Final = frozenset({"g", "gr", "p"})
_OTHER_ACCELERATORS: Final = frozenset({"inf", "trn", "dl", "vt", "f"})
_ARM_SERIES: Final = frozenset({"a"})
_NVME_WITHOUT_A_D: Final = frozenset({"g5", "g6", "g6e", "gr6", "p5", "p5e", "p5en"})
"""Families with local disks whose name does not say so; in others it is a d among the traits."""
_BEFORE_CUDA_13: Final[Mapping[str, str]] = {
    "g3": "Maxwell",
    "g3s": "Maxwell",
    "p2": "Kepler",
    "p3": "Volta",
    "p3dn": "Volta",
}
"""GPU architectures that CUDA 13 no longer supports, by family."""
_ONE_GPU_UP_TO_16: Final = dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1)
_MANY: Final = _ONE_GPU_UP_TO_16 | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8}
_GPUS: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "g4dn": (15, _ONE_GPU_UP_TO_16 | {"12xlarge": 4}),
    "g5": (22, _MANY),
    "g6": (22, _MANY),
    "gr6": (22, {"4xlarge": 1, "8xlarge": 1}),
    "g6e": (44, _MANY),
    "p4d": (40, {"24xlarge": 8}),
    "p4de": (80, {"24xlarge": 8}),
    "p5": (80, {"4xlarge": 1, "48xlarge": 8}),
    "p5e": (141, {"48xlarge": 8}),
    "p5en": (141, {"48xlarge": 8}),
}
"""GiB of one GPU that a program can use (a T4 of 16 GB has 15), and how many GPUs each size has."""


@dataclass(frozen=True)
class InstanceFacts:
    """`accelerated`: it has a GPU or the like, whose driver is the host AMI's.

    `gpu_memory_bytes` is of all GPUs together; None, like `nvme` None, means not known here.
    """

    family: str
    kind: Kind
    accelerated: bool
    nvme: bool | None
    gpu_memory_bytes: int | None
    before_cuda_13: str | None


def facts_of(instance_type: str) -> InstanceFacts:
    """Facts of a type such as ml.g6e.xlarge. A name that is not understood has the kind `other`."""
    name = _NAME.fullmatch(instance_type)
    if name is None:
        return InstanceFacts(
            family=instance_type.split(".")[1],
            kind="other",
            accelerated=True,
            nvme=None,
            gpu_memory_bytes=None,
            before_cuda_13=None,
        )
    family = name["family"]
    memory_gib, sizes = _GPUS.get(family, (0, {}))
    gpus = sizes.get(name["size"])
    kind = _kind(name["series"], name["traits"])
    nvme = family in _NVME_WITHOUT_A_D or "d" in name["traits"].split("-")[0]
    return InstanceFacts(
        family=family,
        kind=kind,
        accelerated=name["series"] in _GPU_SERIES | _OTHER_ACCELERATORS,
        nvme=nvme if nvme or kind == "cpu" or family in _GPUS else None,
        gpu_memory_bytes=None if gpus is None else gpus * memory_gib * GIB,
        before_cuda_13=_BEFORE_CUDA_13.get(family),
    )


def _kind(series: str, traits: str) -> Kind:
    if series in _OTHER_ACCELERATORS or (series == "g" and traits == "ad"):
        return "other"
    # Graviton shows as a g among the traits: c7gn, m6gd, and g5g, which has a GPU as well.
    if series in _ARM_SERIES or "g" in traits:
        return "arm"
    return "cuda" if series in _GPU_SERIES else "cpu"
