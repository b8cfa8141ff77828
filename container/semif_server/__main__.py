"""Composition root: settings → model → engine → app → server. Run with `python -m semif_server [serve]`."""

import logging
import os
import platform
import signal
import sys
import time
from types import FrameType
from typing import Final, NoReturn

from semif_server import __version__
from semif_server.archive import ModelArchive, open_archive
from semif_server.errors import StartError
from semif_server.logs import configure_logging, log_event
from semif_server.profile import load_profile
from semif_server.settings import Settings, load_settings

EXIT_ENGINE_STOPPED: Final = 1
EXIT_NOT_STARTED: Final = 2
_JOIN_S: Final = 2.0

_log = logging.getLogger("semif_server")


def main() -> int:
    """Serve until told to stop; gives the exit code."""
    if sys.argv[1:] not in ([], ["serve"]):
        print("usage: python -m semif_server [serve]   (settings: SEMIF_* variables)", file=sys.stderr)
        return EXIT_NOT_STARTED
    signal.signal(signal.SIGTERM, _stop_while_starting)
    configure_logging()
    try:
        return _serve(load_settings())
    except StartError as error:
        print(f"semif_server: {error}", file=sys.stderr, flush=True)
        return EXIT_NOT_STARTED


def _serve(settings: Settings) -> int:
    started_s = time.perf_counter()
    archive = open_archive(settings.model_dir, settings.gguf_path)
    profile = load_profile(archive.profile)

    # Late, so that a wrong setting or archive is told at once: these imports take longest.
    from semif_server import llama  # noqa: PLC0415
    from semif_server.contract.semif import SemifContract  # noqa: PLC0415
    from semif_server.encoding import PromptEncoder  # noqa: PLC0415
    from semif_server.engine.engine import Engine  # noqa: PLC0415
    from semif_server.engine.prepare import Preparer  # noqa: PLC0415
    from semif_server.http import create_app  # noqa: PLC0415
    from semif_server.server import DrainingServer, bind  # noqa: PLC0415
    from semif_server.template import ChatTemplate  # noqa: PLC0415

    listener = bind(settings.host, settings.port)
    model = llama.LlamaModel(archive.gguf, n_gpu_layers=settings.n_gpu_layers)
    source = model.chat_template()
    template = ChatTemplate(
        source, bos_token=model.vocabulary.bos_text(), eos_token=model.vocabulary.eos_text()
    )
    encoder = PromptEncoder(model.vocabulary, template, source, profile)
    context = model.new_context(max_tokens=settings.max_tokens, threads=settings.threads)
    preparer = Preparer(
        encoder,
        micro_batch=context.micro_batch,
        max_tokens=settings.max_tokens,
        max_request_tokens=settings.max_request_tokens,
    )
    contract = SemifContract(
        max_options=len(encoder.slot_ids),
        max_decisions=settings.max_shared_decisions,
        prompt_version=profile.name,
        model=_model_identity(archive, model.architecture, model.name),
    )
    engine = Engine(context, encoder.head)
    engine.start()
    log_event(
        _log,
        "ready",
        server=__version__,
        llama_cpp_python=llama.binding_version(),
        system_info=llama.system_info(),
        python=platform.python_version(),
        model=archive.gguf.name,
        shards=len(archive.shards),
        sha256=archive.sha256,
        sha256_from=archive.sha256_from,
        architecture=model.architecture,
        hybrid=model.is_hybrid,
        profile=profile.name,
        options_in_one_step=len(encoder.slot_ids),
        head_tokens=len(encoder.head),
        threads=settings.threads,
        gpu_layers=settings.n_gpu_layers,
        n_ctx=context.n_ctx,
        n_ctx_seq=context.n_ctx_seq,
        max_tokens=settings.max_tokens,
        max_request_tokens=settings.max_request_tokens,
        max_shared_decisions=settings.max_shared_decisions,
        max_body_bytes=settings.max_body_bytes,
        host=settings.host,
        port=settings.port,
        start_s=round(time.perf_counter() - started_s, 3),
    )
    app = create_app(engine, preparer, contract, max_body_bytes=settings.max_body_bytes)
    DrainingServer(app, engine).run(sockets=[listener])

    code = EXIT_ENGINE_STOPPED if engine.has_failed else 0
    engine.abort()
    log_event(_log, "stopped", exit_code=code)
    if not engine.join(_JOIN_S):
        # A decode is still running and can't be interrupted; everybody has been answered.
        _exit_now(code)
    return code


def _model_identity(archive: ModelArchive, architecture: str, name: str) -> dict[str, object]:
    return {
        "gguf": {"file": archive.gguf.name, "sha256": archive.sha256},
        "architecture": architecture,
        "name": name,
    }


def _stop_while_starting(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _exit_now(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
