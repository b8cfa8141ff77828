"""SIGTERM in the middle of things: whoever asked gets an answer, and the process ends in time."""

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.container.process import ServerProcess
from tests.container.serving import decision
from tests.container.test_connections import COUNTED_DECODES
from tools.soak_client import Answer, Client

CLIENTS = 24
Outcome = tuple[int, str]
Start = Callable[..., ServerProcess]

# The third decode of a request fails, and so does what the engine does to begin anew.
DIES_WHILE_OTHERS_WAIT = f"""{COUNTED_DECODES}
slow = llama.LlamaContext.decode
decodes = []
def dying(self, pieces):
    if is_open:
        decodes.append(1)
        if len(decodes) > 2:
            raise llama.DecodeError(-3)
    return slow(self, pieces)
llama.LlamaContext.decode = dying
"""


@pytest.fixture
def start(tiny_hybrid_gguf: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[ServerProcess] = []

    def start(prelude: str = "") -> ServerProcess:
        started.append(
            ServerProcess(tmp_path / "server.log", prelude=prelude, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
        )
        return started[-1]

    yield start
    for server in started:
        server.stop()


def body_of(number: int, **changes: Any) -> bytes:
    return json.dumps(
        {"decision": decision(id=f"{number}", state=f"{number} " + "s" * 900, **changes)}
    ).encode()


def outcome(answer: Answer) -> Outcome:
    if answer.status == 200:
        return 200, "ok"
    return answer.status, answer.json()["error"]["code"]


async def ask(server: ServerProcess, body: bytes) -> Outcome:
    """One request on a connection of its own."""
    client = Client(server.port, timeout_s=40)
    answer = await client.post(body)
    await client.close()
    return outcome(answer)


async def until_decoding(server: ServerProcess) -> None:
    """Until a decode of a request has begun."""
    async with asyncio.timeout(20):
        while not server.lines("decode"):
            await asyncio.sleep(0.02)


def test_every_request_under_load_is_answered(start: Start) -> None:
    server = start()
    answered: Counter[Outcome] = Counter()

    async def ask_until_refused(number: int) -> None:
        client = Client(server.port, timeout_s=40)
        while True:
            answer = outcome(await client.post(body_of(number)))
            answered[answer] += 1
            if answer != (200, "ok"):
                await client.close()
                return

    async def run() -> float:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(ask_until_refused(number))
            while answered[200, "ok"] < CLIENTS:
                await asyncio.sleep(0.02)
            server.signal(signal.SIGTERM)
            return time.monotonic()

    signalled_s = asyncio.run(run())
    assert server.wait(25) == 0
    assert time.monotonic() - signalled_s < 25
    assert set(answered) == {(200, "ok"), (503, "shutting_down")}
    assert answered[503, "shutting_down"] == CLIENTS
    statuses = [line["status"] for line in server.lines("request")]
    assert len(statuses) >= answered.total()
    assert None not in statuses
    assert "Traceback" not in server.output()


def test_a_long_prefill_that_runs_is_finished(start: Start) -> None:
    server = start(COUNTED_DECODES)

    async def run() -> Outcome:
        asking = asyncio.create_task(ask(server, body_of(1, question="q" * 2500)))
        await until_decoding(server)
        server.signal(signal.SIGTERM)
        return await asking

    assert asyncio.run(run()) == (200, "ok")
    assert len(server.lines("decode")) > 5, "the signal came in its midst"
    assert server.wait(25) == 0


def test_a_long_prefill_that_can_not_finish_is_answered_and_ended(start: Start) -> None:
    server = start(f"{COUNTED_DECODES}\nfrom semif_server import server\nserver.DRAIN_S = 0.3")

    async def run() -> list[Outcome]:
        asking = [
            asyncio.create_task(ask(server, body_of(number, question="q" * 2500))) for number in range(4)
        ]
        await until_decoding(server)
        server.signal(signal.SIGTERM)
        return await asyncio.gather(*asking)

    assert asyncio.run(run()) == [(503, "shutting_down")] * 4
    assert server.wait(25) == 0
    assert len(server.lines("decode")) < 12, "nobody waits for the rest"


def test_everybody_who_waits_for_an_engine_that_dies_is_answered(start: Start) -> None:
    server = start(DIES_WHILE_OTHERS_WAIT)

    async def run() -> Counter[Outcome]:
        return Counter(await asyncio.gather(*(ask(server, body_of(number)) for number in range(8))))

    answered = asyncio.run(run())
    assert answered.total() == 8
    assert set(answered) <= {(500, "internal_error"), (503, "engine_stopped")}
    assert answered[500, "internal_error"] >= 1
    assert answered[503, "engine_stopped"] >= 1
    assert server.wait(25) == 1
    assert server.lines("stopped")[0]["exit_code"] == 1
    assert "Traceback" not in server.output()
