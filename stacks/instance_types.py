"""Which of the project's images an instance type can run."""

import re
from collections.abc import Sequence
from typing import Final

from stacks.dlc import Flavour
from stacks.mapping_reader import SettingsError

_FAMILY: Final = re.compile(r"ml\.(?P<series>[a-z]+)(?P<generation>[0-9]+)(?P<traits>[a-z0-9-]*)\.[a-z0-9]+")
_GPU_SERIES: Final = frozenset({"g", "gr", "p"})
_OTHER_ACCELERATORS: Final = frozenset({"inf", "trn", "dl", "vt", "f"})
_ARM_SERIES: Final = frozenset({"a"})


def flavour_of(pool: Sequence[str], path: str) -> Flavour:
    """The image that every type of the pool can run.

    Raises SettingsError where there is no such image: GPU beside CPU types, Arm, other accelerators, or a
    family whose name is not understood.
    """
    kinds = {instance_type: _kind(instance_type) for instance_type in pool}
    advice = "give the endpoint's image.uri"
    for i, (instance_type, kind) in enumerate(kinds.items()):
        if kind not in {"cpu", "cuda"}:
            raise SettingsError(
                f"{path}[{i}]", f"{instance_type} is {kind}: this project builds no image for it; {advice}"
            )
    if len(set(kinds.values())) == 1:
        return "cuda" if "cuda" in kinds.values() else "cpu"
    gpu = ", ".join(name for name, kind in kinds.items() if kind == "cuda")
    cpu = ", ".join(name for name, kind in kinds.items() if kind == "cpu")
    raise SettingsError(
        path,
        f"mixes GPU types ({gpu}) with CPU types ({cpu}): no one image serves both;"
        f" use one kind, or {advice}",
    )


def _kind(instance_type: str) -> str:
    family = _FAMILY.fullmatch(instance_type)
    if family is None or family["series"] in _OTHER_ACCELERATORS:
        return "neither x86 CPU nor NVIDIA GPU by its name"
    # Graviton shows as a g among the traits: c7gn, m6gd, and g5g, which has a GPU as well.
    if family["series"] in _ARM_SERIES or "g" in family["traits"]:
        return "Arm"
    return "cuda" if family["series"] in _GPU_SERIES else "cpu"
