"""DecisionsStack: the SemIf endpoint."""

from collections.abc import Mapping

from stacks.container_settings import ContainerSettings
from stacks.endpoint_stack import MODEL_DIR, EndpointStack
from stacks.example_decision import example_command
from stacks.semif_settings import SemIfEngine


class DecisionsStack(EndpointStack):
    """A decision endpoint on a model and an image, given or built."""

    ENDPOINT_ID = "Decisions"

    def variables(self, container: ContainerSettings, gguf_path: str | None) -> Mapping[str, str]:
        """Environment of the server's container."""
        if not isinstance(container.engine, SemIfEngine) or gguf_path is None:
            raise TypeError(f"bug: {container.engine.name} is no engine of a DecisionsStack")
        return server_environment(container.engine, gguf_path)

    def example_command(self, endpoint_name: str, region: str) -> str:
        """Send the README's decision."""
        return example_command(endpoint_name, region)


def server_environment(engine: SemIfEngine, gguf_path: str) -> dict[str, str]:
    """Environment of the server's container; the address to listen on is the image's own affair."""
    values: dict[str, object | None] = {
        "SEMIF_GGUF_PATH": gguf_path,
        "SEMIF_MODEL_DIR": MODEL_DIR,
        "SEMIF_N_GPU_LAYERS": engine.gpu_layers,
        "SEMIF_MAX_TOKENS": engine.max_tokens,
        "SEMIF_MAX_REQUEST_TOKENS": engine.max_request_tokens,
        "SEMIF_MAX_SHARED_DECISIONS": engine.max_shared_decisions,
        "SEMIF_MAX_BODY_BYTES": engine.max_body_bytes,
        "SEMIF_THREADS": engine.threads,
        "SEMIF_BATCHING": engine.batching,
        "SEMIF_CACHE_BYTES": engine.cache_bytes,
        "SEMIF_SEQUENCES": engine.sequences,
        "SEMIF_DEADLINE_S": engine.deadline_s,
    }
    return {name: str(value) for name, value in values.items() if value is not None}
