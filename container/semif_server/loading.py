"""Archive → a model in memory with the context that requests are evaluated in.

Apart from the assembly, because it imports no web framework: most of its time llama.cpp reads and clears
memory, and meanwhile Python can import the rest.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from semif_server import llama
from semif_server.archive import ModelArchive
from semif_server.engine.prefix_cache import FEWEST_SEQUENCES_COPYING, FEWEST_SEQUENCES_CUTTING
from semif_server.library_check import check_decode, check_vocabulary
from semif_server.library_defaults import check_defaults
from semif_server.llama_memory import free_gpu_bytes, measure_memory
from semif_server.machine import memory_limit
from semif_server.memory_budget import (
    CELL_PAD_TOKENS,
    Budget,
    MemoryPlan,
    check_trained_context,
    given_budget,
    gpu_budget,
    host_budget,
    plan_memory,
)
from semif_server.settings import Settings


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, how its memory was divided, and the context that has it."""

    model: llama.LlamaModel
    memory: MemoryPlan
    context: llama.LlamaContext

    def close(self) -> None:
        """Free both."""
        self.context.close()
        self.model.close()


def load_model(settings: Settings, archive: ModelArchive) -> LoadedModel:
    """Load the model, try it, and make its context. Raises StartError when it can't serve like this."""
    check_defaults(llama.llama_cpp)
    model = llama.LlamaModel(archive.gguf, n_gpu_layers=settings.n_gpu_layers)
    model.chat_template()  # refused before anything takes long
    check_trained_context(settings.max_tokens, model.n_ctx_train)
    memory = _plan_memory(settings, archive, model)
    context = model.new_context(
        sequences=memory.sequences, sequence_tokens=memory.sequence_tokens, threads=settings.threads
    )
    return LoadedModel(model, memory, context)


def begin_to_load(settings: Settings, archive: ModelArchive) -> Future[LoadedModel]:
    """load_model in a thread of its own, which does not hold up the process's end."""
    loaded: Future[LoadedModel] = Future()

    def load() -> None:
        try:
            loaded.set_result(load_model(settings, archive))
        except BaseException as error:
            loaded.set_exception(error)

    threading.Thread(target=load, name="loader", daemon=True).start()
    return loaded


def _plan_memory(settings: Settings, archive: ModelArchive, model: llama.LlamaModel) -> MemoryPlan:
    """Try the model in a small context, measure its memory there, and divide what there is."""
    probe = model.new_context(sequences=1, sequence_tokens=CELL_PAD_TOKENS, threads=settings.threads)
    try:
        check_vocabulary(model.vocabulary)
        check_decode(probe, model.vocabulary.n_tokens)
        cost = measure_memory(probe)
        # While the probe holds the buffers that every decode computes in, so that they are not counted on.
        gpu_bytes = free_gpu_bytes() if settings.n_gpu_layers else None
    finally:
        probe.close()
    return plan_memory(
        cost,
        _budget(settings, archive, gpu_bytes),
        max_tokens=settings.max_tokens,
        sequences=settings.sequences,
        fewest=FEWEST_SEQUENCES_CUTTING if probe.can_cut_tail else FEWEST_SEQUENCES_COPYING,
    )


def _budget(settings: Settings, archive: ModelArchive, gpu_bytes: int | None) -> Budget:
    if settings.cache_bytes is not None:
        return given_budget(settings.cache_bytes)
    if gpu_bytes is not None:
        return gpu_budget(gpu_bytes)
    limit = memory_limit()
    weights_bytes = sum(shard.stat().st_size for shard in archive.shards)
    return host_budget(limit.limit_bytes, limit.limit_from, weights_bytes)
