"""Start and stop, as a container's host sees them."""

import hashlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from semif_server.__main__ import main
from semif_server.errors import SettingsError
from semif_server.server import bind
from tests.container.conftest import SMOLLM2_SHA256
from tests.container.process import ServerProcess, run_to_exit
from tests.container.serving import PASSWORD_RESET, Serving, decision
from tools.make_tiny_hybrid import write_tiny_hybrid

Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ServerProcess] = []

    def start(*arguments: str, **settings: str) -> ServerProcess:
        started.append(ServerProcess(tmp_path / f"server-{len(started)}.log", *arguments, **settings))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def in_background(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    return thread, results


def wait_until_busy(server: ServerProcess) -> None:
    """Until the request sent before is being evaluated: its body was taken and time has passed."""
    time.sleep(0.15)
    assert server.process.poll() is None


def test_a_container_starts_decides_and_stops(
    start: Start, smollm2: Serving, smollm2_gguf: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / smollm2_gguf.name).symlink_to(smollm2_gguf)
    manifest = {
        "version": 1,
        "files": [
            {"file": smollm2_gguf.name, "bytes": smollm2_gguf.stat().st_size, "sha256": SMOLLM2_SHA256}
        ],
    }
    (directory / "model-manifest.json").write_text(json.dumps(manifest))
    server = start("serve", SEMIF_MODEL_DIR=str(directory), SEMIF_THREADS="2", SEMIF_MAX_TOKENS="2048")

    status, body = server.post({"decision": PASSWORD_RESET})
    assert status == 200
    result = json.loads(body)["result"]
    assert result["model"]["gguf"] == {"file": smollm2_gguf.name, "sha256": SMOLLM2_SHA256}
    # another process, the same bits
    same = smollm2.decide({"decision": PASSWORD_RESET})["result"]
    assert result["option_logits"] == same["option_logits"]
    assert result["prompt_sha256"] == same["prompt_sha256"]

    # One request is running and others wait when the signal comes; together they take seconds.
    long = decision(state="The customer cannot receive a password reset email. " * 20)
    running = [in_background(lambda: server.post({"decision": long})) for _ in range(5)]
    wait_until_busy(server)
    signalled_s = time.monotonic()
    server.signal(signal.SIGTERM)
    time.sleep(0.05)
    for method, path in (("GET", "/ping"), ("POST", "/invocations")):
        status, body = server.request(
            method, path, {"decision": PASSWORD_RESET} if method == "POST" else None
        )
        error = json.loads(body)["error"]
        assert (status, error["code"], error["retryable"]) == (503, "shutting_down", True)
        assert error["retry_after_s"] > 0
    for thread, answers in running:
        thread.join(40)
        [(status, body)] = answers
        assert status == 200
        assert json.loads(body)["result"]["input_tokens"] > 250
    assert server.wait(25) == 0
    assert time.monotonic() - signalled_s < 25
    [ready] = server.lines("ready")
    assert (ready["sha256"], ready["sha256_from"]) == (SMOLLM2_SHA256, "manifest")
    assert (ready["architecture"], ready["hybrid"], ready["threads"]) == ("llama", False, 2)
    assert (ready["n_ctx_seq"], ready["n_ctx"]) == (2048, ready["sequences"] * 2048)
    assert (ready["options_in_one_step"], ready["batching"]) == (255, "exact")
    assert (ready["llama_cpp_python"], ready["llama_cpp"][:7]) == ("0.3.36", "ggml 0.")
    assert ready["libllama"].endswith("/libllama.so")
    assert server.lines("stopped") == [{**server.lines("stopped")[0], "exit_code": 0}]
    assert "Traceback" not in server.output()


def test_an_idle_server_stops_at_once_with_open_connections(start: Start, tiny_hybrid_gguf: Path) -> None:
    server = start(SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    with socket.create_connection(("127.0.0.1", server.port)):
        server.signal(signal.SIGINT)
        assert server.wait(5) == 0


# The warm-up must pass: what misbehaves does so once the engine is open.
_ONCE_OPEN = """
import time
from semif_server import llama, server
from semif_server.engine.engine import Engine
open_engine, decode = Engine.open, llama.LlamaContext.decode
is_open = []
def opened(self):
    is_open.append(True)
    open_engine(self)
Engine.open = opened
"""

BROKEN_DECODE = f"""{_ONCE_OPEN}
def failing(self, pieces):
    if is_open and (failing.broken or any(piece.want_logits for piece in pieces)):
        failing.broken = True
        raise llama.DecodeError(-3)
    return decode(self, pieces)
failing.broken = False
llama.LlamaContext.decode = failing
"""

SLOW_DECODE = f"""{_ONCE_OPEN}
server.DRAIN_S = 0.3
def slow(self, pieces):
    if is_open and any(piece.want_logits for piece in pieces):
        time.sleep(30)
    return decode(self, pieces)
llama.LlamaContext.decode = slow
"""


def test_a_dead_engine_ends_the_process_with_an_error(start: Start, tiny_hybrid_gguf: Path) -> None:
    server = start(prelude=BROKEN_DECODE, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    status, body = server.post({"decision": PASSWORD_RESET})
    assert (status, json.loads(body)["error"]["code"]) == (500, "internal_error")
    assert server.wait(10) == 1
    [died] = server.lines("the engine thread has ended")
    assert (died["level"], died["error"]) == ("critical", "DecodeError")
    assert server.lines("stopped")[0]["exit_code"] == 1
    assert "Traceback" not in server.output()


def test_what_can_not_finish_in_time_is_answered_before_the_end(start: Start, tiny_hybrid_gguf: Path) -> None:
    server = start(prelude=SLOW_DECODE, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    running = [in_background(lambda: server.post({"decision": PASSWORD_RESET})) for _ in range(2)]
    wait_until_busy(server)
    server.signal(signal.SIGTERM)
    assert server.wait(15) == 0
    for thread, answers in running:
        thread.join(10)
        [(status, body)] = answers
        assert (status, json.loads(body)["error"]["code"]) == (503, "shutting_down")
    assert "Traceback" not in server.output()


@pytest.mark.parametrize("text", ["a", " a", "1", "!", "漢"])
def test_a_long_text_never_ends_the_process(start: Start, tmp_path: Path, text: str) -> None:
    """Where a vocabulary's pattern is left to std::regex, llama.cpp recurses once for each character."""
    gguf = write_tiny_hybrid(tmp_path / "regex.gguf", pre_tokenizer="deepseek-llm")
    server = start(SEMIF_GGUF_PATH=str(gguf))
    state = text * (255_000 // len(json.dumps(text)[1:-1]))

    status, body = server.post({"decision": decision(state=state)})

    assert (status, json.loads(body)["error"]["code"]) == (422, "prompt_too_long")
    assert server.post({"decision": PASSWORD_RESET})[0] == 200


@pytest.mark.parametrize(("digits", "status"), [(19, 413), (5000, 400)])
def test_a_content_length_beyond_all_numbers_is_refused(
    hybrid_process: ServerProcess, digits: int, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", hybrid_process.port), timeout=10) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: " + b"9" * digits + b"\r\nConnection: close\r\n\r\n"
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(f"HTTP/1.1 {status}".encode())
    assert hybrid_process.post({"decision": PASSWORD_RESET})[0] == 200


def test_a_client_that_leaves_does_no_harm(hybrid_process: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", hybrid_process.port)) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    deadline_s = time.monotonic() + 10
    while not any(line["code"] == "client_disconnected" for line in hybrid_process.lines("request")):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert hybrid_process.post({"decision": PASSWORD_RESET})[0] == 200


def test_without_a_manifest_the_checksum_is_computed_and_said(
    hybrid_process: ServerProcess, tiny_hybrid_gguf: Path
) -> None:
    [ready] = hybrid_process.lines("ready")
    assert ready["sha256_from"] == "computed"
    assert ready["sha256"] == hashlib.sha256(tiny_hybrid_gguf.read_bytes()).hexdigest()
    assert (ready["architecture"], ready["hybrid"]) == ("qwen35", True)


def test_a_sender_that_never_ends_gets_an_answer_and_does_not_keep_the_server(
    start: Start, tiny_hybrid_gguf: Path
) -> None:
    server = start(SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        time.sleep(0.2)
        server.signal(signal.SIGTERM)
        with connection.makefile("rb") as stream:
            answer = stream.read()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"shutting_down"' in answer
    assert server.wait(10) == 0
    assert "Traceback" not in server.output()


def test_a_body_over_the_limit_is_answered_on_the_wire(hybrid_process: ServerProcess) -> None:
    status, body = hybrid_process.post(b" " * 600_000)
    assert (status, json.loads(body)["error"]["code"]) == (413, "body_too_large")
    with socket.create_connection(("127.0.0.1", hybrid_process.port), timeout=20) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b" " * 65_536 + b"\r\n") * 8
        )
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert hybrid_process.request("GET", "/ping") == (200, "{}")


def test_a_wrong_setting_refuses_the_start_in_one_line() -> None:
    ended = run_to_exit(SEMIF_PORT="eighty")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "semif_server: SEMIF_PORT='eighty': must be a whole number from 1 to 65,535.\n"


def test_another_argument_than_serve_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["semif_server", "train"])
    assert main() == 2
    assert capsys.readouterr().err.startswith("usage: python -m semif_server [serve]")


def test_a_port_in_use_refuses_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SettingsError, match=f"SEMIF_PORT={port}: can't listen there: Address already in use"
        ):
            bind("127.0.0.1", port)
