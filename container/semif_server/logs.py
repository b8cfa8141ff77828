"""Structured logging: one JSON object per line on stdout, and never a text of the request.

An exception's message, and a log message of a library, may quote what was being worked on. So of an
exception only its type and frames are written, and of a library only the place that logged.
"""

import json
import logging
import sys
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Final

_OWN: Final = "semif_server"
_SERVER: Final = "uvicorn"


def log_event(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write one line: the event and its fields."""
    logger.info(event, extra={"fields": fields})


def log_document(logger: logging.Logger, document: object) -> None:
    """Write one line that is exactly this JSON, for a reader with a format of its own."""
    logger.info("a document", extra={"document": document})


def frames_of(error: BaseException) -> list[str]:
    """`file:line:function` of each frame, outermost first."""
    return [
        f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON, with the time in UTC."""

    def __init__(self) -> None:
        super().__init__()
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        """Write our own records whole, others as the place they come from."""
        if hasattr(record, "document"):
            return json.dumps(record.document, allow_nan=False, separators=(",", ":"))
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if record.name.partition(".")[0] == _OWN:
            line["event"] = record.getMessage()
            line.update(getattr(record, "fields", {}))
        else:
            line["event"] = "a library logged"
            line["at"] = f"{Path(record.pathname).name}:{record.lineno}"
            if record.name.partition(".")[0] == _SERVER and isinstance(record.msg, str):
                line["message"] = record.msg.strip()  # the pattern, without its arguments
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["error"] = type(error).__name__
            line["frames"] = frames_of(error)
        return json.dumps(line, ensure_ascii=False)


def configure_logging() -> None:
    """Send all logging of this process to stdout, and uncaught exceptions to logging."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_OWN).setLevel(logging.INFO)
    logger = logging.getLogger(f"{_OWN}.uncaught")

    def log_uncaught(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logger.critical("an error nobody handled", exc_info=(kind, error or kind(), trace))

    sys.excepthook = log_uncaught
    threading.excepthook = lambda caught: log_uncaught(
        caught.exc_type, caught.exc_value, caught.exc_traceback
    )
