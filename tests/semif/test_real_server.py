"""`semif decide` against the real server process with the real model."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from semif.archive import read_archive
from semif.cli import app

ROOT = Path(__file__).parents[2]
MODEL = ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
REQUEST = {
    "id": "support-route",
    "state": {"subject": "Cannot log in", "body": "I forgot my password and the reset mail never comes."},
    "question": "Which team handles this message?",
    "options": [
        {"id": "account_access", "description": "login, password, locked account"},
        {"id": "billing", "description": "invoices and payments"},
    ],
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SEMIF_")},
        "PYTHONPATH": str(ROOT / "container"),
        "SEMIF_GGUF_PATH": str(MODEL),
        "SEMIF_PORT": str(port),
        "SEMIF_MAX_TOKENS": "512",
        "SEMIF_MAX_REQUEST_TOKENS": "1024",
    }
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "semif_server"], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            address = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 90
            while not _ready(address):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield address
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ping", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def test_decision_of_the_real_model(url: str) -> None:
    runner = CliRunner()
    text = json.dumps(REQUEST)
    printed = runner.invoke(app, ["decide", "-", "--url", url], input=text, env={"COLUMNS": "80"})
    assert printed.exit_code == 0, printed.output
    raw = runner.invoke(app, ["decide", "-", "--url", url, "--json"], input=text)
    result = json.loads(raw.stdout)["result"]
    assert sum(result["probabilities"]) == pytest.approx(1)
    assert result["model"]["gguf"]["sha256"] == read_archive(MODEL).sha256
    head, *rows = printed.stdout.splitlines()
    best = max(range(2), key=lambda i: result["probabilities"][i])
    assert head == f"support-route: {result['option_ids'][best]}"
    assert [row.split()[:2] for row in rows] == [
        [option, f"{p:.6f}"] for option, p in zip(result["option_ids"], result["probabilities"], strict=True)
    ]


def test_refusals_of_the_real_server(url: str) -> None:
    flags = ["decide", "--state", "x", "--question", "q", "--option", "a=1", "--url", url]
    one_option = CliRunner().invoke(app, flags)
    assert one_option.exit_code == 3
    assert "decision.options" in one_option.stderr
    too_long = CliRunner().invoke(app, [*flags, "--option", "b=2", "--question", "word " * 2000])
    assert too_long.exit_code == 3
    assert "512" in too_long.stderr
