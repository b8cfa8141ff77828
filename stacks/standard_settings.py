"""Settings of endpoints that run AWS's containers as they are: llama.cpp's, vLLM's and Strands Decider's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stacks.container_environment import Refusal, read_environment
from stacks.dlc import Flavour, base_image_uri, other_image_hint
from stacks.images import ImageSettings, ecr_image
from stacks.instance_facts import facts_of
from stacks.mapping_reader import MappingReader, SettingsError
from stacks.notes import Note

MODEL_DIR: Final = "/opt/ml/model"
_LONGEST_PATH: Final = f"{MODEL_DIR}/{'x' * 220}"
"""As long as the path of an archive's first file can get (see `model.file`, and a shard's number)."""
ALL_LAYERS: Final = 999
"""More layers than any model has: what llama-server takes as all."""

StandardEngineName = Literal["llama-cpp", "vllm", "strands-decider"]
STANDARD_KEYS: Final[Mapping[StandardEngineName, tuple[str, ...]]] = {
    "llama-cpp": (
        "context_tokens",
        "parallel",
        "gpu_layers",
        "threads",
        "environment",
        "download_at_start",
    ),
    "vllm": ("environment",),
    "strands-decider": ("environment",),
}
"""Settings that only these engines have, of an endpoint and of its last resort."""

_LLAMA_PREFIX: Final = r"^(SM_LLAMA_CPP|LLAMA_ARG)_"
_LLAMA_REFUSALS: Final = (
    Refusal(rf"{_LLAMA_PREFIX}(CTX_SIZE|N_CTX)$", "is the setting context_tokens: set that"),
    Refusal(rf"{_LLAMA_PREFIX}(PARALLEL|N_PARALLEL)$", "is the setting parallel: set that"),
    Refusal(rf"{_LLAMA_PREFIX}(N_)?GPU_LAYERS(_DRAFT)?$", "is the setting gpu_layers: set that"),
    Refusal(rf"{_LLAMA_PREFIX}(N_)?THREADS$", "is the setting threads: set that"),
    Refusal(
        rf"{_LLAMA_PREFIX}(HF|HFR|HFF|DOCKER)_", "is set by download_at_start: set repository and file there"
    ),
    Refusal(
        rf"{_LLAMA_PREFIX}MODEL(_DIR|_URL|S_DIR)?$",
        "is set by the deployment, to the archive's (first) GGUF: change the environment's model",
    ),
    Refusal(r"_(SSL_|API_PREFIX)", "may not be set: the container's proxy speaks http to the root path"),
)


@dataclass(frozen=True)
class HubFile:
    """A file that the container downloads from the Hugging Face Hub when it starts."""

    repository: str
    file: str


@dataclass(frozen=True)
class LlamaCppEngine:
    """llama-server's settings: `parallel` slots divide `context_tokens` among them, -1 layers are all."""

    context_tokens: int
    parallel: int
    gpu_layers: int
    threads: int | None
    environment: Mapping[str, str]
    download_at_start: HubFile | None
    name: Literal["llama-cpp"] = "llama-cpp"


@dataclass(frozen=True)
class VllmEngine:
    """vLLM's container, whose variables are its user's affair."""

    environment: Mapping[str, str]
    gpu_layers: None = None
    name: Literal["vllm"] = "vllm"


@dataclass(frozen=True)
class StrandsDeciderEngine:
    """Strands Decider's container, whose variables are its user's affair."""

    environment: Mapping[str, str]
    gpu_layers: None = None
    name: Literal["strands-decider"] = "strands-decider"


StandardEngine = LlamaCppEngine | VllmEngine | StrandsDeciderEngine


def read_standard_engine(
    reader: MappingReader,
    name: StandardEngineName,
    *,
    pool: Sequence[str],
    image: ImageSettings | None,
    flavour: Flavour | None,
    region: str,
) -> StandardEngine:
    """Read what STANDARD_KEYS name, of an endpoint or of its last resort, which runs on `pool`.

    `flavour` is None where there is an `image`. Raises SettingsError with the key's path, also where the
    engine has no container to run.
    """
    kinds = {facts_of(instance_type).kind for instance_type in pool}
    if name == "llama-cpp":
        if image is None:
            stock_image(region, flavour, path=reader.path)
        return _llama_cpp(reader, cuda=kinds == {"cuda"}, image=image)
    if image is None:
        raise SettingsError(
            f"{reader.at('image')}.uri",
            f"is missing: AWS's {name} container by digest, {other_image_hint(region, name)}",
        )
    if name == "vllm":
        own = container_environment(VllmEngine({}), _LONGEST_PATH)
        return VllmEngine(read_environment(reader, "environment", (), own))
    if kinds != {"cuda"}:
        raise SettingsError(
            reader.at("pool"),
            "must have NVIDIA GPU types alone: Strands Decider's container runs on no other",
        )
    return StrandsDeciderEngine(read_environment(reader, "environment", (), {}))


def stock_image(region: str, flavour: Flavour | None, *, path: str) -> ImageSettings:
    """AWS's llama.cpp container of the region by its digest. Raises SettingsError where there is none."""
    override_path = f"{path}.image.uri"
    if flavour is None:
        raise SettingsError(override_path, "is missing: AWS has no llama.cpp container for this pool")
    return ecr_image(base_image_uri(region, flavour, region_path=path, override_path=override_path))


def container_environment(engine: StandardEngine, gguf_path: str | None) -> dict[str, str]:
    """The container's environment; `gguf_path` is the archive's (first) GGUF, None without an archive."""
    match engine:
        case LlamaCppEngine():
            return _llama_cpp_environment(engine, gguf_path) | dict(engine.environment)
        case VllmEngine():
            return {"SM_VLLM_MODEL": MODEL_DIR} | dict(engine.environment)
        case StrandsDeciderEngine():
            return dict(engine.environment)


def engine_notes(engine: StandardEngine, path: str) -> tuple[Note, ...]:
    """What a synth has to say about an engine; `path` is that of the endpoint or its last resort."""
    if not isinstance(engine, LlamaCppEngine):
        text = f"{path}: {engine.name} is synthesized and validated only; this project has not run it."
        return (Note(f"{engine.name}-not-run", "info", text),)
    hub = engine.download_at_start
    if hub is None:
        return ()
    text = (
        f"{path}.download_at_start: each instance that starts downloads {hub.file} of {hub.repository} from"
        " the Hugging Face Hub. The endpoint has NO network isolation, the model no fixed revision and no"
        " checksum, and no instance starts while the Hub is away. Without this setting it runs the"
        " environment's model."
    )
    return (Note("download-at-start", "warning", text),)


def _llama_cpp_environment(engine: LlamaCppEngine, gguf_path: str | None) -> dict[str, str]:
    values: dict[str, object] = {
        "SM_LLAMA_CPP_CTX_SIZE": engine.context_tokens,
        "SM_LLAMA_CPP_PARALLEL": engine.parallel,
    }
    if engine.download_at_start is not None:
        # Not with SM_LLAMA_CPP_MODEL: llama-server would download to that path.
        values["SM_LLAMA_CPP_HF_REPO"] = engine.download_at_start.repository
        values["SM_LLAMA_CPP_HF_FILE"] = engine.download_at_start.file
    elif gguf_path is None:
        raise AssertionError("bug: neither an archive nor a download")
    else:
        # The container's own search takes whichever GGUF comes first, a projector too.
        values["SM_LLAMA_CPP_MODEL"] = gguf_path
    if engine.gpu_layers != 0:
        values["SM_LLAMA_CPP_N_GPU_LAYERS"] = ALL_LAYERS if engine.gpu_layers < 0 else engine.gpu_layers
    if engine.threads is not None:
        values["SM_LLAMA_CPP_THREADS"] = engine.threads
    return {name: str(value) for name, value in values.items()}


def _llama_cpp(reader: MappingReader, *, cuda: bool, image: ImageSettings | None) -> LlamaCppEngine:
    context_tokens = reader.whole("context_tokens", 8_192, 256, 16_777_216)
    parallel = reader.whole("parallel", 1, 1, 256)
    if context_tokens < 256 * parallel:
        raise SettingsError(
            reader.at("context_tokens"),
            f"is divided among {parallel} parallel slots: must be at least {256 * parallel}, 256 for each",
        )
    gpu_layers = reader.whole("gpu_layers", -1 if cuda else 0, -1, 10_000)
    if gpu_layers != 0 and not cuda and image is None:
        raise SettingsError(reader.at("gpu_layers"), "must be 0: the pool has no GPU, and so the CPU image")
    engine = LlamaCppEngine(
        context_tokens=context_tokens,
        parallel=parallel,
        gpu_layers=gpu_layers,
        threads=reader.optional_whole("threads", 1, 512),
        environment={},
        download_at_start=_download_at_start(reader),
    )
    own = container_environment(engine, _LONGEST_PATH)
    return replace(engine, environment=read_environment(reader, "environment", _LLAMA_REFUSALS, own))


def _download_at_start(reader: MappingReader) -> HubFile | None:
    if not reader.has("download_at_start"):
        return None
    hub = reader.mapping("download_at_start", ("repository", "file"))
    return HubFile(
        repository=hub.text(
            "repository", r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", "OWNER/NAME on the Hub"
        ),
        file=hub.text(
            "file", r"([A-Za-z0-9][\w.-]{0,99}/)?[A-Za-z0-9][\w.-]{0,199}\.gguf", "a file that ends in .gguf"
        ),
    )
