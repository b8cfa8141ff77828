"""The stand-in as a process: its nginx before a real llama-server with the small model."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from localaws.hub import Hub
from localaws.llama_cpp_container.nginx import BODY_LIMIT_BYTES
from tests.localaws.hosted_llama import model_path

QUESTION = {"messages": [{"role": "user", "content": "Say one word."}], "max_tokens": 2}
FAST = {"SM_LLAMA_CPP_CTX_SIZE": "512", "SM_LLAMA_CPP_PARALLEL": "1", "SM_LLAMA_CPP_NO_WARMUP": "true"}


@contextmanager
def container(home: Path, log: Path, environment: dict[str, str]) -> Iterator[str]:
    """The process with exactly these variables; gives its URL once nginx answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "SM_LLAMA_CPP_PORT": str(port), **environment}
    command = [sys.executable, "-m", "localaws.llama_cpp_container", "serve"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=home, env=variables, stdout=output, stderr=output, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: answers(url), log)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def answers(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/ping", timeout=5).status_code)
    except httpx.TransportError:
        return False


def wait_for(met: object, log: Path, limit_s: float = 90) -> None:
    assert callable(met)
    deadline = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)


def wait_until_healthy(url: str, log: Path) -> None:
    wait_for(lambda: httpx.get(f"{url}/ping", timeout=30).status_code == 200, log)


def test_it_serves_the_model_it_finds_and_these_paths_alone(tmp_path: Path) -> None:
    folder, log = tmp_path / "model", tmp_path / "log"
    folder.mkdir()
    (folder / "found.gguf").symlink_to(model_path())
    environment = {"SM_LLAMA_CPP_MODEL_DIR": str(folder), **FAST, "SM_LLAMA_CPP_ALIAS": "small"}
    with container(tmp_path, log, environment) as url, httpx.Client(base_url=url, timeout=60) as client:
        wait_until_healthy(url, log)
        answer = client.post("/invocations", json=QUESTION)
        assert answer.json()["choices"][0]["message"]["content"]
        assert answer.json()["model"] == "small"
        for path in ("/v1/models", "/health", "/", "/completion", "/props"):
            assert client.get(path).status_code == 404, path
        assert client.post("/ping").status_code == 404
        assert client.get("/invocations").status_code == 404
        refused = client.post("/invocations", content=b"{")
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")

        too_large = http.client.HTTPConnection("127.0.0.1", int(url.rsplit(":", 1)[1]), timeout=30)
        too_large.putrequest("POST", "/invocations")
        too_large.putheader("Content-Length", str(BODY_LIMIT_BYTES + 1))
        too_large.endheaders()
        assert too_large.getresponse().status == 413
        too_large.close()
    assert "auto-detected GGUF model" in log.read_text(errors="replace")


def test_with_an_api_key_every_call_that_sagemaker_can_make_is_401(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {"SM_LLAMA_CPP_MODEL": str(model_path()), **FAST, "SM_LLAMA_CPP_API_KEY": "secret"}
    with container(tmp_path, log, environment) as url:
        wait_until_healthy(url, log)  # so SageMaker would call it healthy
        assert httpx.post(f"{url}/invocations", json=QUESTION).status_code == 401


def test_a_download_from_the_hub_at_start(tmp_path: Path) -> None:
    log, repository = tmp_path / "log", tmp_path / "hub" / "org" / "small"
    repository.mkdir(parents=True)
    (repository / "m.gguf").symlink_to(model_path())
    with Hub(tmp_path / "hub", licenses={"org/small": "apache-2.0"}) as hub:
        environment = {
            **FAST,
            "SM_LLAMA_CPP_MODEL_DIR": str(tmp_path / "empty"),
            "SM_LLAMA_CPP_HF_REPO": "org/small",
            "SM_LLAMA_CPP_HF_FILE": "m.gguf",
            "HF_ENDPOINT": hub.url,
        }
        with container(tmp_path, log, environment) as url:
            wait_until_healthy(url, log)
            assert httpx.post(f"{url}/invocations", json=QUESTION, timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SM_LLAMA_CPP_MODEL": "/nowhere.gguf"}, "Failed to init server"),
        ({"SM_LLAMA_CPP_MODEL": str(model_path()), "SM_LLAMA_CPP_CTX_SIZE": "many"}, "'many'"),
        (
            {"SM_LLAMA_CPP_HF_REPO": "a/b", "SM_LLAMA_CPP_HF_FILE": "c", "HF_ENDPOINT": "http://127.0.0.1:9"},
            "a/b",
        ),
    ],
)
def test_when_llama_server_ends_nginx_answers_502_for_ever(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    log = tmp_path / "log"
    with container(tmp_path, log, environment) as url:
        wait_for(lambda: said in log.read_text(errors="replace"), log)
        assert httpx.get(f"{url}/ping").status_code == 502
        assert httpx.post(f"{url}/invocations", json=QUESTION).status_code == 502
