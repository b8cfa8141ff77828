"""Composition root: settings → model → engine → app → server. Run with `python -m semif_server [serve]`."""

import logging
import os
import signal
import sys
import time
from types import FrameType
from typing import Final, NoReturn

from semif_server.archive import open_archive
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_while_starting)
    configure_logging()
    try:
        return _serve(load_settings())
    except StartError as error:
        print(f"semif_server: {error}", file=sys.stderr, flush=True)
        # At once: in its thread llama.cpp may still be loading, and its library must not be taken down.
        _exit_now(EXIT_NOT_STARTED)


def _serve(settings: Settings) -> int:
    started_s = time.perf_counter()
    archive = open_archive(settings.model_dir, settings.gguf_path, settings.verify)
    profile = load_profile(archive.profile)

    # Late, so that a wrong setting or archive is told at once: llama.cpp and the web server take longest. And
    # side by side: llama.cpp reads and clears memory while Python imports.
    from semif_server.loading import begin_to_load  # noqa: PLC0415

    loading = begin_to_load(settings, archive)

    from semif_server.assembly import assemble, describe  # noqa: PLC0415
    from semif_server.server import DrainingServer, bind  # noqa: PLC0415
    from semif_server.warm_up import warm_up  # noqa: PLC0415

    listener = bind(settings.host, settings.port)
    assembly = assemble(settings, archive, profile, loading.result())
    engine = assembly.engine
    engine.start()

    def say_ready() -> None:
        facts = describe(assembly, settings, archive, profile)
        log_event(_log, "ready", **facts, start_s=round(time.perf_counter() - started_s, 3))

    if not engine.has_failed:
        server = DrainingServer(
            assembly.app,
            engine,
            lambda: warm_up(assembly.preparer, engine),
            say_ready,
            max_body_bytes=settings.max_body_bytes,
        )
        server.run(sockets=[listener])

    code = EXIT_ENGINE_STOPPED if engine.has_failed else 0
    engine.abort()
    log_event(_log, "stopped", exit_code=code)
    if not engine.join(_JOIN_S):
        # A decode is still running and can't be interrupted; everybody has been answered.
        _exit_now(code)
    assembly.close()
    return code


def _stop_while_starting(_signal: int, _frame: FrameType | None) -> NoReturn:
    _exit_now(0)


def _exit_now(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
