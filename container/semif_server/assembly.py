"""Settings, archive and profile → a server that is ready to be run. Wires; decides nothing."""

import concurrent.futures
import platform
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI

from semif_server import __version__, llama
from semif_server.archive import ModelArchive
from semif_server.contract.semif import SemifContract
from semif_server.emf import EmfReporter
from semif_server.encoding import PromptEncoder
from semif_server.engine.engine import Engine
from semif_server.engine.prepare import Preparer
from semif_server.http import create_app
from semif_server.llama_memory import devices
from semif_server.loading import LoadedModel, load_model
from semif_server.memory_budget import MemoryPlan, check_head
from semif_server.metrics import Metrics
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


def assemble(
    settings: Settings, archive: ModelArchive, profile: Profile, loaded: LoadedModel | None = None
) -> Assembly:
    """Wire all parts around the model, which is loaded if it is not given.

    Raises StartError when this model can't serve like this.
    """
    loaded = loaded or load_model(settings, archive)
    model, context = loaded.model, loaded.context
    vocabulary = model.vocabulary
    template = ChatTemplate(
        model.chat_template(), bos_token=vocabulary.bos_text(), eos_token=vocabulary.eos_text()
    )
    encoder = PromptEncoder(vocabulary, template, profile)
    check_head(settings.max_tokens, len(encoder.head))
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
    app = create_app(
        engine,
        preparer,
        contract,
        max_body_bytes=settings.max_body_bytes,
        metrics=Metrics(engine),
        emf=EmfReporter(engine, model=archive.gguf.name) if settings.emf else None,
    )
    return Assembly(model, loaded.memory, context, encoder, preparer, engine, app)


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
