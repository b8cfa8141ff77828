"""Many clients of one server process: slow ones, two hundred at once, and such as leave halfway."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.process import ServerProcess
from tests.container.serving import PASSWORD_RESET, decision
from tools.soak_client import Answer, Client, read_answer, request_bytes

# Each decode says so in the log and takes its time, from the first request on.
COUNTED_DECODES = """
import time
from semif_server import llama, logs
from semif_server.engine.engine import Engine
open_engine, decode = Engine.open, llama.LlamaContext.decode
is_open = []
def opened(self):
    is_open.append(True)
    open_engine(self)
Engine.open = opened
def counted(self, pieces):
    if is_open:
        logs.log_event(logs.logging.getLogger("semif_server"), "decode")
        time.sleep(0.2)
    return decode(self, pieces)
llama.LlamaContext.decode = counted
"""
BODY = json.dumps({"decision": PASSWORD_RESET}).encode()


@pytest.fixture
def counting(tiny_hybrid_gguf: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(
        tmp_path / "server.log", prelude=COUNTED_DECODES, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf)
    )
    yield server
    server.stop()


def logits(answer: Answer) -> list[float]:
    assert answer.status == 200, answer.body
    values: list[float] = answer.json()["result"]["option_logits"]
    return values


async def send_byte_by_byte(port: int, body: bytes, has_begun: asyncio.Barrier) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = request_bytes(body)
    for position in range(len(request)):
        writer.write(request[position : position + 1])
        await writer.drain()
        await asyncio.sleep(0.001)
        if position == len(request) // 2:
            await has_begun.wait()
            await has_begun.wait()
    answer = await read_answer(reader)
    writer.close()
    return answer


def test_slow_senders_keep_nobody_waiting_and_are_answered(hybrid_process: ServerProcess) -> None:
    slow_clients = 60

    async def run() -> tuple[list[Answer], list[Answer]]:
        halfway = asyncio.Barrier(slow_clients + 1)
        async with asyncio.timeout(60):
            slow = [
                asyncio.create_task(send_byte_by_byte(hybrid_process.port, BODY, halfway))
                for _ in range(slow_clients)
            ]
            await halfway.wait()  # all have sent half
            quick = Client(hybrid_process.port)
            answers = [await quick.post(BODY) for _ in range(5)]
            assert not any(one.done() for one in slow)
            await halfway.wait()
            await quick.close()
            return answers, await asyncio.gather(*slow)

    quick, slow = asyncio.run(run())
    assert {tuple(logits(one)) for one in quick + slow} == {tuple(logits(quick[0]))}


def test_two_hundred_connections_at_once_each_get_their_own_answer(hybrid_process: ServerProcess) -> None:
    bodies = [
        json.dumps({"decision": decision(id=f"{index}", state=f"customer number {index}")}).encode()
        for index in range(20)
    ]

    async def run() -> tuple[list[Answer], list[Answer]]:
        clients = [Client(hybrid_process.port) for _ in range(200)]
        async with asyncio.timeout(90):
            alone = [await clients[0].post(body) for body in bodies]
            together = await asyncio.gather(
                *(client.post(bodies[index % len(bodies)]) for index, client in enumerate(clients))
            )
            for client in clients:
                await client.close()
        return alone, together

    alone, together = asyncio.run(run())
    expected = [(one.json()["result"]["id"], logits(one)) for one in alone]
    assert len({tuple(values) for _, values in expected}) == len(bodies), "a mix-up would not be seen"
    for index, answer in enumerate(together):
        assert (answer.json()["result"]["id"], logits(answer)) == expected[index % len(bodies)]


@pytest.mark.parametrize("reset", [False, True])
def test_the_work_for_a_client_that_leaves_ends(counting: ServerProcess, reset: bool) -> None:
    asked = [decision(id=f"{index}", state="s" * 2500, question=f"{index}" * 400) for index in range(8)]
    request = request_bytes(json.dumps({"decisions": asked}).encode())

    async def leave() -> None:
        await Client(counting.port).send_and_leave(request, send_bytes=len(request), stay_s=0.5, reset=reset)

    asyncio.run(leave())
    deadline_s = time.monotonic() + 10
    while not any(line["code"] == "client_disconnected" for line in counting.lines("request")):
        assert time.monotonic() < deadline_s, counting.output()
        time.sleep(0.02)
    begun = len(counting.lines("decode"))
    assert 1 <= begun < 12, "at least 12 chunks are there to be decoded"

    time.sleep(1)
    # The one that ran then ends; what another request asks comes at once.
    assert len(counting.lines("decode")) <= begun + 1
    assert counting.post({"decision": PASSWORD_RESET})[0] == 200
    assert len(counting.lines("decode")) < 12
