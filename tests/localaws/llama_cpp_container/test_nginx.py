"""The stand-in's nginx before an upstream that misbehaves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from localaws.llama_cpp_container.nginx import Proxy


@contextmanager
def before(*answers: bytes) -> Iterator[str]:
    """nginx before an upstream that sends each answer on a connection of its own, and closes it."""
    upstream = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            connection, _ = upstream.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    proxy = Proxy(0, upstream.getsockname()[1])
    threads = [threading.Thread(target=serve), threading.Thread(target=proxy.serve_forever, args=(0.02,))]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        for thread in threads:
            thread.join()
        proxy.server_close()
        upstream.close()


def test_answers_with_and_without_a_length_pass_on_one_connection() -> None:
    counted = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: 1\r\n\r\nok"
    chunked = b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    until_closed = b"HTTP/1.1 200 OK\r\n\r\nto the end"
    with before(counted, chunked, until_closed) as url, httpx.Client(base_url=url, timeout=30) as client:
        one = client.get("/ping")
        assert (one.status_code, one.text, one.headers["x-one"]) == (200, "ok", "1")
        two = client.post("/invocations", content=b"{}")
        assert (two.status_code, two.text) == (400, "abc")
        assert client.post("/invocations", content=b"{}").text == "to the end"


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n9\r\nrest",
    ],
)
def test_an_answer_that_is_cut_reaches_the_caller_as_cut(cut: bytes) -> None:
    with before(cut) as url, pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{url}/invocations", content=b"{}", timeout=30)


def test_an_upstream_that_says_nothing_is_a_bad_gateway() -> None:
    with before(b"") as url:
        assert httpx.get(f"{url}/ping", timeout=30).status_code == 502
