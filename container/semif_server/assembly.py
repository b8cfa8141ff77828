"""Settings, archive and profile → a server that is ready to be run. Wires; decides nothing."""

import concurrent.futures
import platform
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI

from semif_server import __version__, llama
from semif_server.archive import ModelArchive
from semif_server.contract.semif import SemifContract
from semif_server.encoding import PromptEncoder
from semif_server.engine.engine import Engine
from semif_server.engine.prefix_cache import FEWEST_SEQUENCES_COPYING, FEWEST_SEQUENCES_CUTTING
from semif_server.engine.prepare import Preparer
from semif_server.http import create_app
from semif_server.library_check import check_decode, check_vocabulary
from semif_server.library_defaults import check_defaults
from semif_server.llama_memory import devices, free_gpu_bytes, measure_memory
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
from semif_server.profile import Profile
from semif_server.settings import Settings
from semif_server.template import ChatTemplate

# So long the start waits for a checksum that is being computed: a small model's is in its first answer.
_CHECKSUM_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one server process. The engine is not started yet."""

    model: llama.LlamaModel
    memory: MemoryPlan
    context: llama.LlamaContext
    encoder: PromptEncoder
    preparer: Preparer
    engine: Engine
    app: FastAPI

    def close(self) -> None:
        """Stop the engine and free the model."""
        self.engine.abort()
        self.engine.join(None)
        self.context.close()
        self.model.close()


def assemble(settings: Settings, archive: ModelArchive, profile: Profile) -> Assembly:
    """Load the model and wire all parts. Raises StartError when this model can't serve like this."""
    check_defaults(llama.llama_cpp)
    model = llama.LlamaModel(archive.gguf, n_gpu_layers=settings.n_gpu_layers)
    check_trained_context(settings.max_tokens, model.n_ctx_train)
    vocabulary = model.vocabulary
    template = ChatTemplate(
        model.chat_template(), bos_token=vocabulary.bos_text(), eos_token=vocabulary.eos_text()
    )
    encoder = PromptEncoder(vocabulary, template, profile)
    memory = _plan_memory(settings, archive, model)
    context = model.new_context(
        sequences=memory.sequences, sequence_tokens=memory.sequence_tokens, threads=settings.threads
    )
    preparer = Preparer(
        encoder,
        micro_batch=context.micro_batch,
        max_tokens=settings.max_tokens,
        max_request_tokens=settings.max_request_tokens,
    )
    contract = SemifContract(
        max_options=encoder.max_options,
        max_decisions=settings.max_shared_decisions,
        prompt_version=profile.name,
        model={"gguf": _gguf_facts(archive), "architecture": model.architecture, "name": model.name},
    )
    engine = Engine(
        context,
        encoder.head,
        batching=settings.batching,
        deadline_s=settings.deadline_s,
        max_queue_tokens=settings.max_queue_tokens,
    )
    concurrent.futures.wait([archive.checksum], _CHECKSUM_S)
    app = create_app(engine, preparer, contract, max_body_bytes=settings.max_body_bytes)
    return Assembly(model, memory, context, encoder, preparer, engine, app)


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


def _gguf_facts(archive: ModelArchive) -> dict[str, object]:
    """What answers say about the file; its checksum joins in as soon as it is known."""
    facts: dict[str, object] = {"file": archive.gguf.name, "sha256": None}
    archive.checksum.add_done_callback(lambda _: facts.update(sha256=archive.sha256))
    return facts


def describe(
    assembly: Assembly, settings: Settings, archive: ModelArchive, profile: Profile
) -> dict[str, object]:
    """What the start-up line says."""
    return {
        "server": __version__,
        **llama.versions(),
        "system_info": llama.system_info(),
        "devices": devices(),
        "python": platform.python_version(),
        "model": archive.gguf.name,
        "shards": len(archive.shards),
        "sha256": archive.sha256,
        "sha256_from": archive.sha256_from,
        "architecture": assembly.model.architecture,
        "hybrid": assembly.model.is_hybrid,
        "can_cut_tail": assembly.context.can_cut_tail,
        "profile": profile.name,
        "options_in_one_step": assembly.encoder.options_in_one_step,
        "single_token_codes": assembly.encoder.single_token_codes,
        "max_options": assembly.encoder.max_options,
        "head_tokens": len(assembly.encoder.head),
        "threads": settings.threads,
        "gpu_layers": settings.n_gpu_layers,
        "batching": settings.batching,
        "micro_batch": assembly.context.micro_batch,
        "sequences": assembly.context.sequences,
        "n_ctx": assembly.context.n_ctx,
        "n_ctx_seq": assembly.context.n_ctx_seq,
        "n_ctx_train": assembly.model.n_ctx_train,
        "kv_bytes": assembly.memory.kv_bytes,
        "state_bytes": assembly.memory.state_bytes,
        "cache_bytes": assembly.memory.budget_bytes,
        "cache_bytes_from": assembly.memory.budget_from,
        "max_tokens": settings.max_tokens,
        "max_request_tokens": settings.max_request_tokens,
        "max_shared_decisions": settings.max_shared_decisions,
        "max_body_bytes": settings.max_body_bytes,
        "max_queue_tokens": settings.max_queue_tokens,
        "deadline_s": settings.deadline_s,
        "verify": settings.verify,
        "emf": settings.emf,
        "host": settings.host,
        "port": settings.port,
    }
