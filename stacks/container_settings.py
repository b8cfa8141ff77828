"""What runs in an endpoint's container: an engine, in an image, on a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stacks.dlc import Flavour
from stacks.images import ImageSettings, read_image
from stacks.instance_types import check_gpu_memory, check_one_architecture, flavour_of
from stacks.mapping_reader import MappingReader
from stacks.model_settings import BuiltModel, ModelSettings, read_model
from stacks.notes import Note
from stacks.semif_settings import SEMIF_KEYS, SemIfEngine, read_semif_engine
from stacks.standard_settings import (
    STANDARD_KEYS,
    LlamaCppEngine,
    StandardEngine,
    StandardEngineName,
    read_standard_engine,
)

EngineName = Literal["semif"] | StandardEngineName
ENGINES: Final[tuple[EngineName, ...]] = ("semif", "llama-cpp", "vllm", "strands-decider")
EngineSettings = SemIfEngine | StandardEngine


@dataclass(frozen=True)
class ContainerSettings:
    """`image` is somebody else's; where it is None, `flavour` says which stock image of the engine runs."""

    engine: EngineSettings
    image: ImageSettings | None
    flavour: Flavour | None
    model: ModelSettings

    @property
    def fetches_model(self) -> bool:
        """Whether the container downloads the model from the Hub by itself, so that it has no archive."""
        return isinstance(self.engine, LlamaCppEngine) and self.engine.download_at_start is not None

    @property
    def built_flavour(self) -> Flavour | None:
        """The image that a build of this project makes for it; None where there is no build."""
        return self.flavour if self.engine.name == "semif" else None

    @property
    def built_model(self) -> BuiltModel | None:
        """The model whose archive a build makes for it; None where there is no build."""
        if self.fetches_model or not isinstance(self.model, BuiltModel):
            return None
        return self.model


def engine_keys(engine: EngineName) -> tuple[str, ...]:
    """Settings that only this engine has."""
    return SEMIF_KEYS if engine == "semif" else STANDARD_KEYS[engine]


def read_container(
    reader: MappingReader,
    *,
    engine: EngineName,
    pool: Sequence[str],
    region: str,
    default_model: ModelSettings,
) -> tuple[ContainerSettings, tuple[Note, ...]]:
    """Read image, engine and model of an endpoint or of its last resort, and hold them against its types."""
    image = read_image(reader, "image", region)
    flavour: Flavour | None = None
    if image is None:
        flavour = flavour_of(pool, reader.at("pool"))
    else:
        check_one_architecture(pool, reader.at("pool"))
    container = ContainerSettings(
        engine=read_semif_engine(reader, flavour)
        if engine == "semif"
        else read_standard_engine(reader, engine, pool=pool, image=image, flavour=flavour, region=region),
        image=image,
        flavour=flavour,
        model=read_model(reader, region) if reader.has("model") else default_model,
    )
    notes = check_gpu_memory(
        pool,
        reader.at("pool"),
        # A model that the container fetches is not the environment's.
        model_bytes=None if container.fetches_model else container.model.size_bytes,
        gpu_layers=container.engine.gpu_layers,
    )
    return container, notes
