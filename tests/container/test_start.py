"""From the settings to the first ready answer, and every way in which a start is refused."""

import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from semif_server.engine.task import RequestOutcome
from semif_server.errors import (
    BugError,
    ModelError,
    RequestError,
    SettingsError,
    busy,
    deadline_exceeded,
    engine_stopped,
    shutting_down,
)
from semif_server.warm_up import warm_up
from tests.container.process import ServerProcess, run_to_exit
from tests.container.serving import PASSWORD_RESET, Serving
from tests.container.test_model_files import refused


@contextmanager
def serving(path: Path, **settings: Any) -> Iterator[Serving]:
    one = Serving(path, **settings)
    try:
        yield one
    finally:
        one.close()


def test_one_line_says_what_this_server_is(hybrid_process: ServerProcess) -> None:
    [ready] = hybrid_process.lines("ready")
    assert ready["devices"][0].startswith("CPU: ")
    assert "CPU" in ready["system_info"]
    assert ready["batching"] == "exact"
    assert ready["can_cut_tail"] is False
    assert ready["sequences"] == 16
    assert (ready["n_ctx_seq"], ready["n_ctx"]) == (4096, 16 * 4096)
    assert ready["kv_bytes"] + ready["state_bytes"] <= ready["cache_bytes"]
    assert ready["cache_bytes_from"] in {"cgroup", "machine"}
    assert ready["options_in_one_step"] >= 16
    assert (ready["deadline_s"], ready["max_queue_tokens"]) == (55.0, 1_048_576)
    assert (ready["verify"], ready["emf"]) == ("sizes", False)
    assert ready["start_s"] > 0


def test_the_warm_up_is_a_decision_that_the_engine_evaluates(tiny_hybrid_gguf: Path) -> None:
    with serving(tiny_hybrid_gguf) as one:
        before = one.assembly.engine.snapshot().decoded_tokens_total
        warm_up(one.assembly.preparer, one.assembly.engine)
        assert one.assembly.engine.snapshot().decoded_tokens_total > before
        assert one.decide({"decision": PASSWORD_RESET})


ASK_PING_FIRST = """
import http.client, os, pathlib
import semif_server.warm_up as module
warm_up = module.warm_up
def ask_ping_first(*arguments):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["SEMIF_PORT"]), timeout=30)
    connection.request("GET", "/ping")
    pathlib.Path({path!r}).write_text(str(connection.getresponse().status))
    connection.close()
    warm_up(*arguments)
module.warm_up = ask_ping_first
"""


def test_ping_is_503_until_the_warm_up_has_run(tiny_hybrid_gguf: Path, tmp_path: Path) -> None:
    status = tmp_path / "status"
    prelude = ASK_PING_FIRST.format(path=str(status))
    server = ServerProcess(tmp_path / "log", prelude=prelude, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    server.stop()
    assert status.read_text() == "503"


def test_sequences_and_cache_are_the_operators(tiny_hybrid_gguf: Path) -> None:
    with serving(tiny_hybrid_gguf, sequences=4, cache_bytes=10_000_000) as one:
        assert one.assembly.context.sequences == 4
        assert one.assembly.memory.budget_bytes == 10_000_000
        assert one.assembly.memory.budget_from == "SEMIF_CACHE_BYTES"
        assert one.decide({"decision": PASSWORD_RESET})


def test_the_trained_context_is_had_and_no_more(tiny_hybrid_gguf: Path) -> None:
    with serving(tiny_hybrid_gguf, max_tokens=4096) as one:
        assert one.assembly.context.n_ctx_seq == 4096
    said = refused(tiny_hybrid_gguf, max_tokens=4097, max_request_tokens=10_000)
    assert said.startswith("SEMIF_MAX_TOKENS=4097: the model was trained on 4096 tokens")


def test_a_context_that_does_not_fit_ends_the_process_with_the_sum(tiny_hybrid_gguf: Path) -> None:
    ended = run_to_exit(SEMIF_GGUF_PATH=str(tiny_hybrid_gguf), SEMIF_CACHE_BYTES="1000000")
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        "semif_server: SEMIF_MAX_TOKENS=4096: its memory does not fit. 3 sequences"
    )
    assert "and there are 1,000,000 (SEMIF_CACHE_BYTES)" in ended.stderr
    assert ended.stderr.count("\n") == 1
    would_do = ended.stderr.partition("SEMIF_MAX_TOKENS=")[2].partition("SEMIF_MAX_TOKENS=")[2].rstrip(".\n")
    with serving(tiny_hybrid_gguf, cache_bytes=1_000_000, max_tokens=int(would_do)) as one:
        assert one.assembly.context.sequences == 3


def test_a_prompt_limit_that_the_head_reaches_refuses_the_start(tiny_hybrid_gguf: Path) -> None:
    with serving(tiny_hybrid_gguf) as one:
        n_tokens = len(one.assembly.encoder.head)
    said = refused(tiny_hybrid_gguf, max_tokens=n_tokens)
    assert said.startswith(f"SEMIF_MAX_TOKENS={n_tokens}: every prompt begins with {n_tokens} tokens")


def test_a_prompt_limit_below_any_decision_ends_the_process(tiny_hybrid_gguf: Path) -> None:
    with serving(tiny_hybrid_gguf) as one:
        n_tokens = len(one.assembly.encoder.head) + 10
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = run_to_exit(
        SEMIF_GGUF_PATH=str(tiny_hybrid_gguf), SEMIF_MAX_TOKENS=str(n_tokens), SEMIF_PORT=str(port)
    )
    assert ended.returncode == 2
    assert "SEMIF_MAX_TOKENS, SEMIF_MAX_REQUEST_TOKENS: not even a short decision fits." in ended.stderr
    assert '"ready"' not in ended.stdout


class Preparer:
    """Stands for one that can prepare anything."""

    def prepare(self, request: Any) -> Any:
        return request


class Engine:
    """Answers each submission with the next of its outcomes."""

    def __init__(self, *outcomes: RequestError, is_closing: bool = False, has_stopped: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.is_closing, self.has_stopped = is_closing, has_stopped

    def submit(self, _prepared: Any, _arrived_s: float) -> Any:
        future: Future[RequestOutcome] = Future()
        future.set_exception(self.outcomes.pop(0))
        return SimpleNamespace(future=future)


def warm_up_on(engine: Any) -> None:
    preparer: Any = Preparer()
    warm_up(preparer, engine)
    assert engine.outcomes == []


@pytest.mark.parametrize("late", [busy(9.0, 0.1, 1.0), deadline_exceeded(0.1)])
def test_a_deadline_that_is_never_kept_refuses_the_start(late: RequestError) -> None:
    with pytest.raises(SettingsError, match=r"^SEMIF_DEADLINE_S: not even a short decision .*; raise it\. "):
        warm_up_on(Engine(late, late, late))


def test_a_slow_first_decode_is_forgiven(tiny_hybrid_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tiny_hybrid_gguf) as one:
        engine = one.assembly.engine
        refusals, submit = [deadline_exceeded(0.1), busy(9.0, 0.1, 1.0)], engine.submit

        def submit_late(*arguments: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return submit(*arguments)

        monkeypatch.setattr(engine, "submit", submit_late)
        warm_up(one.assembly.preparer, engine)
        assert refusals == []


def test_any_other_failure_refuses_the_start_at_once() -> None:
    with pytest.raises(ModelError, match=r"^The warm-up decision failed: This is a bug in the server"):
        warm_up_on(Engine(BugError("0123")))


def test_a_stop_during_the_warm_up_is_none_of_its_business() -> None:
    warm_up_on(Engine(shutting_down(), is_closing=True))
    warm_up_on(Engine(engine_stopped(), has_stopped=True))
