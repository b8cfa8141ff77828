"""Settings, archive and profile → a server that is ready to be run. Wires; decides nothing."""

import platform
from dataclasses import dataclass

from fastapi import FastAPI

from semif_server import __version__, llama
from semif_server.archive import ModelArchive
from semif_server.contract.semif import SemifContract
from semif_server.encoding import PromptEncoder
from semif_server.engine.engine import Engine
from semif_server.engine.prepare import Preparer
from semif_server.http import create_app
from semif_server.profile import Profile
from semif_server.settings import Settings
from semif_server.template import ChatTemplate


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one server process. The engine is not started yet."""

    model: llama.LlamaModel
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
    """Load the model and wire all parts. Raises ModelError when this model can't serve this profile."""
    model = llama.LlamaModel(archive.gguf, n_gpu_layers=settings.n_gpu_layers)
    vocabulary = model.vocabulary
    template = ChatTemplate(
        model.chat_template(), bos_token=vocabulary.bos_text(), eos_token=vocabulary.eos_text()
    )
    encoder = PromptEncoder(vocabulary, template, profile)
    context = model.new_context(
        sequences=settings.sequences or 8, sequence_tokens=settings.max_tokens, threads=settings.threads
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
        model={
            "gguf": {"file": archive.gguf.name, "sha256": archive.sha256},
            "architecture": model.architecture,
            "name": model.name,
        },
    )
    engine = Engine(
        context,
        encoder.head,
        batching=settings.batching,
        deadline_s=settings.deadline_s,
        max_queue_tokens=settings.max_queue_tokens,
    )
    app = create_app(engine, preparer, contract, max_body_bytes=settings.max_body_bytes)
    return Assembly(model, context, encoder, preparer, engine, app)


def describe(
    assembly: Assembly, settings: Settings, archive: ModelArchive, profile: Profile
) -> dict[str, object]:
    """What the start-up line says."""
    return {
        "server": __version__,
        **llama.versions(),
        "system_info": llama.system_info(),
        "python": platform.python_version(),
        "model": archive.gguf.name,
        "shards": len(archive.shards),
        "sha256": archive.sha256,
        "sha256_from": archive.sha256_from,
        "architecture": assembly.model.architecture,
        "hybrid": assembly.model.is_hybrid,
        "profile": profile.name,
        "options_in_one_step": assembly.encoder.options_in_one_step,
        "max_options": assembly.encoder.max_options,
        "head_tokens": len(assembly.encoder.head),
        "threads": settings.threads,
        "gpu_layers": settings.n_gpu_layers,
        "n_ctx": assembly.context.n_ctx,
        "n_ctx_seq": assembly.context.n_ctx_seq,
        "max_tokens": settings.max_tokens,
        "max_request_tokens": settings.max_request_tokens,
        "max_shared_decisions": settings.max_shared_decisions,
        "max_body_bytes": settings.max_body_bytes,
        "host": settings.host,
        "port": settings.port,
    }
