"""Which of the project's images an instance type can run, and whether the model fits its GPUs."""

from collections.abc import Mapping, Sequence
from typing import Final

from stacks.dlc import Flavour
from stacks.instance_facts import GIB, Kind, facts_of
from stacks.mapping_reader import SettingsError
from stacks.notes import Note

CUDA_13_AMI: Final = "al2023-ami-sagemaker-inference-gpu-4-1"
"""The host AMI whose driver runs the CUDA image; the default AMIs have older drivers."""
ALL_LAYERS: Final = 999
"""From here on, like -1, so many GPU layers mean the whole model."""
_KINDS: Final[Mapping[Kind, str]] = {
    "arm": "Arm",
    "cpu": "x86 CPU",
    "cuda": "NVIDIA GPU",
    "other": "neither x86 CPU nor NVIDIA GPU by its name",
}


def flavour_of(pool: Sequence[str], path: str) -> Flavour:
    """The image that every type of the pool can run.

    Raises SettingsError where there is no such image: GPU beside CPU types, Arm, other accelerators, GPUs
    that CUDA 13 has left behind, or a family whose name is not understood.
    """
    advice = "give the endpoint's image.uri"
    for i, instance_type in enumerate(pool):
        facts = facts_of(instance_type)
        if facts.kind not in {"cpu", "cuda"}:
            raise SettingsError(
                f"{path}[{i}]",
                f"{instance_type} is {_KINDS[facts.kind]}: there is no image for it; {advice}",
            )
        if facts.before_cuda_13:
            raise SettingsError(
                f"{path}[{i}]",
                f"{instance_type} has a GPU of the {facts.before_cuda_13} generation, which the CUDA 13 image"
                f" does not support; {advice}",
            )
    gpu = [name for name in pool if facts_of(name).kind == "cuda"]
    cpu = [name for name in pool if facts_of(name).kind == "cpu"]
    if gpu and cpu:
        raise SettingsError(
            path,
            f"mixes GPU types ({', '.join(gpu)}) with CPU types ({', '.join(cpu)}): no one image serves both;"
            f" use one kind, put the other into last_resort, or {advice}",
        )
    return "cuda" if gpu else "cpu"


def check_one_architecture(pool: Sequence[str], path: str) -> None:
    """Raise SettingsError where Arm stands beside other types: an image by digest is for one of the two."""
    arm = [name for name in pool if facts_of(name).kind == "arm"]
    others = [name for name in pool if name not in arm]
    if arm and others:
        raise SettingsError(
            path,
            f"mixes Arm types ({', '.join(arm)}) with x86 types ({', '.join(others)}), and SageMaker takes"
            " images for one architecture only: use one of the two",
        )


def families_without_ami(ami_versions: Mapping[str, str | None]) -> tuple[str, ...]:
    """Families of GPU types that have no AMI version of their own, in the pool's order."""
    lacking = [
        facts_of(name).family
        for name, version in ami_versions.items()
        if version is None and facts_of(name).kind == "cuda"
    ]
    return tuple(dict.fromkeys(lacking))


def needed_gpu_memory_bytes(model_bytes: int) -> int:
    """The model, and a margin for the KV cache and the compute buffers: a fifth, at least 1 GiB."""
    return model_bytes + max(GIB, model_bytes // 5)


def check_gpu_memory(
    pool: Sequence[str], path: str, *, model_bytes: int | None, gpu_layers: int | None
) -> tuple[Note, ...]:
    """Raise SettingsError where a type's GPUs cannot hold the model; `gpu_layers` None means all layers.

    What cannot be known is a note: a type whose GPU memory is not in the table, a model of unknown size, and
    a part of the layers, since their sizes are in the file.
    """
    gpu_types = [name for name in pool if facts_of(name).kind == "cuda"]
    if not gpu_types or gpu_layers == 0:
        return ()
    if model_bytes is None:
        return (
            Note(
                "gpu-memory",
                "info",
                f"{path}: whether the model fits the GPUs' memory is not checked, because model.bytes, the"
                " size of the GGUF, is not set.",
            ),
        )
    needed_bytes = needed_gpu_memory_bytes(model_bytes)
    memory_bytes = {name: facts_of(name).gpu_memory_bytes for name in gpu_types}
    small = {name: size for name, size in memory_bytes.items() if size is not None and size < needed_bytes}
    notes = []
    if small:
        problem = (
            f"a model of {_gib(model_bytes)} needs {_gib(needed_bytes)} of GPU memory with its caches, and "
            + ", ".join(f"{name} has {_gib(size)}" for name, size in small.items())
        )
        if gpu_layers is None or gpu_layers == -1 or gpu_layers >= ALL_LAYERS:
            raise SettingsError(
                path, f"{problem}. Take larger types, a smaller quantization, or fewer gpu_layers"
            )
        notes.append(
            Note(
                "gpu-memory-part",
                "warning",
                f"{path}: {problem}. Whether {gpu_layers} layers of it fit is not known here.",
            )
        )
    unknown = [name for name, size in memory_bytes.items() if size is None]
    if unknown:
        notes.append(
            Note(
                "gpu-memory-unknown",
                "info",
                f"{path}: the GPU memory of {', '.join(unknown)} is not known to this project, so whether the"
                " model fits is not checked.",
            )
        )
    return tuple(notes)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
