import json
import logging
from typing import Any

import pytest

from semif_server.logs import JsonFormatter, log_event


def line(record: logging.LogRecord) -> dict[str, Any]:
    written = JsonFormatter().format(record)
    assert "\n" not in written
    parsed: dict[str, Any] = json.loads(written)
    return parsed


def test_an_event_is_written_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(logging.getLogger("semif_server.x"), "ready", port=1, name="m")
    written = line(caplog.records[0])
    assert written.pop("time").endswith("Z")
    assert written == {"level": "info", "logger": "semif_server.x", "event": "ready", "port": 1, "name": "m"}


def test_a_library_is_named_by_its_place_only(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("asyncio").error("Task failed: SECRET %s", "SECRET")
    written = line(caplog.records[0])
    assert written["at"].startswith("test_logs.py:")
    assert "SECRET" not in json.dumps(written)


def test_of_the_web_servers_messages_only_the_pattern_is_written(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("uvicorn.error").warning("Refused %s", "SECRET")
    written = line(caplog.records[0])
    assert written["message"] == "Refused %s"
    assert "SECRET" not in json.dumps(written)


def test_an_exception_is_its_type_and_frames(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("SECRET")
    except ValueError:
        logging.getLogger("semif_server.x").exception("failed")
    written = line(caplog.records[0])
    assert written["error"] == "ValueError"
    assert written["frames"][0].startswith("test_logs.py:")
    assert written["frames"][0].endswith(":test_an_exception_is_its_type_and_frames")
    assert "SECRET" not in json.dumps(written)
