"""The transport to a server, over a real socket."""

import socket

import pytest

from semif.client import Server
from semif.errors import ExitCode, RefusedError, UnreachableError, UsageError
from tests.semif.contract_server import ContractServer, error_body

BODY = (
    b'{"decision": {"id": "d", "state": "s", "question": "q", "options": [{"id": "a", "description": "x"}]}}'
)


@pytest.mark.parametrize("suffix", ["", "/"])
def test_posts_the_bytes_to_invocations(server: ContractServer, suffix: str) -> None:
    answer = Server(server.url + suffix, timeout_s=5).invoke(BODY)
    assert b'"probabilities": [1.0]' in answer
    assert server.bodies == [BODY]
    assert server.paths == ["/invocations"]


def test_base_path_is_kept(server: ContractServer) -> None:
    with pytest.raises(RefusedError):
        Server(f"{server.url}/behind/a/proxy/", timeout_s=5).invoke(BODY)
    assert server.paths == ["/behind/a/proxy/invocations"]


def test_refusal_has_code_and_field(server: ContractServer) -> None:
    server.answer = (400, error_body("duplicate_option_id", "twice: a", "decision.options[1].id"))
    with pytest.raises(RefusedError) as raised:
        Server(server.url, timeout_s=5).invoke(BODY)
    assert raised.value.report().startswith(
        "error: duplicate_option_id (decision.options[1].id): twice: a\nnext: "
    )


def test_proxy_of_the_environment_is_not_asked_for_this_machine(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert Server(server.url, timeout_s=5).invoke(BODY)


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UnreachableError) as raised:
            Server(url, timeout_s=5).invoke(BODY)
    assert raised.value.code == "no_connection"
    assert "python -m semif_server" in raised.value.next_step


def test_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=r"within 0\.1 s") as raised:
            Server(url, timeout_s=0.1).invoke(BODY)
    assert raised.value.exit_code == ExitCode.SERVICE


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://x:99999999", ""])
def test_bad_address(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        Server(url, timeout_s=1)
    assert raised.value.field == "--url"


def test_host_that_cannot_be_a_name() -> None:
    with pytest.raises(UsageError):
        Server("http://a..b", timeout_s=1).invoke(BODY)
