"""Many clients at once on one server, every answer held against the one that the decision gets alone."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tools.server_process import ServerProcess
from tools.soak_cases import Decision, Kind, Request, RequestMix
from tools.soak_client import Answer, Client, request_bytes
from tools.soak_fuzz import fuzzed_body

CLIENTS: Final = 16
_CLOCKS: Final = frozenset({"cached_tokens", "forward_seconds", "total_seconds"})
_SETTLED_REQUESTS: Final = 1000  # memory is compared with what it was then
_MIXED_TOLERANCE: Final = 0.05  # logits, where decodes are shared

Result = dict[str, Any]


class SoakError(Exception):
    """A promise was broken; the message has all that is needed to see it again."""


@dataclass(slots=True)
class Figures:
    """What a run came to. memory: resident bytes of the server after _SETTLED_REQUESTS and at the end."""

    requests: int
    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    memory: list[int] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Share by which the memory grew; 0 for a run too short to have settled."""
        return self.memory[-1] / self.memory[0] - 1 if len(self.memory) > 1 else 0.0


def resident_bytes(server: ServerProcess) -> int:
    """Physical memory of the server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def fresh_results(server: ServerProcess, decisions: Sequence[Decision]) -> list[Result]:
    """Each decision's answer with nothing but the head in the cache, from a server with the fewest sequences.

    Raises SoakError if one was not fresh, or if two can't be told apart.
    """
    [ready] = server.lines("ready")
    results: dict[int, Result] = {}
    filler = {"id": "filler", "state": "filler " * 80, "question": "filler?", "options": _TWO_OPTIONS}
    for index, one in _spread(decisions):
        for _ in range(2):
            status, body = server.post({"decision": one})
            if status != 200:
                raise SoakError(f"decision {index} alone: {status} {body}")
            result = json.loads(body)["result"]
            if result["cached_tokens"] == ready["head_tokens"]:
                results[index] = result
                break
            server.post({"decision": filler})
        if index not in results:
            raise SoakError(f"decision {index} is not fresh: {result['cached_tokens']} tokens were cached")
    ordered = [results[index] for index in range(len(decisions))]
    if len({tuple(one["option_logits"]) for one in ordered}) < len(ordered):
        raise SoakError("two markers have the same logits: a mix-up of them would not be seen")
    return ordered


_TWO_OPTIONS: Final = [{"id": "a", "description": "a"}, {"id": "b", "description": "b"}]


def _spread(decisions: Sequence[Decision]) -> Iterator[tuple[int, Decision]]:
    """All decisions, those over one state far apart."""
    asked: Counter[str] = Counter()
    rounds = []
    for index, one in enumerate(decisions):
        state = json.dumps(one["state"])
        rounds.append((asked[state], index))
        asked[state] += 1
    return ((index, decisions[index]) for _, index in sorted(rounds))


def run_mix(
    server: ServerProcess, mix: RequestMix, fresh: Sequence[Result], requests: int, *, exact: bool
) -> Figures:
    """Requests 0 to `requests` of a mix. Raises SoakError for the first answer that is not its own."""
    figures = Figures(requests)

    async def serve(client: Client, number: int) -> None:
        request = mix.request(number)
        figures.kinds[request.kind] += 1
        if request.kind is Kind.INVALID:
            body = fuzzed_body(
                number, number, {"decision": {"id": "x", "state": "y", "options": _TWO_OPTIONS}}
            )
            _expect_no_fault(figures, await client.post(body), f"invalid request {number}")
            return
        body = mix.body(request)
        if request.kind is Kind.LEFT:
            whole = request_bytes(body)
            await client.send_and_leave(
                whole,
                send_bytes=int(len(whole) * request.send_share),
                stay_s=request.stay_s,
                reset=request.reset,
            )
            return
        others = [Client(server.port) for _ in range(request.copies - 1)]
        answers = await asyncio.gather(*(one.post(body) for one in (client, *others)))
        for one in others:
            await one.close()
        for answer in answers:
            _check(figures, request, answer, fresh, exact=exact)

    asyncio.run(_drive(server, figures, requests, serve))
    return figures


def run_fuzz(server: ServerProcess, valid: dict[str, Any], requests: int, seed: int) -> Figures:
    """Fuzzed bodies 0 to `requests`. Raises SoakError for the first 5xx, and for a body that is no answer."""
    figures = Figures(requests)

    async def serve(client: Client, number: int) -> None:
        answer = await client.post(fuzzed_body(seed, number, valid))
        _expect_no_fault(figures, answer, f"fuzzed body {number} of seed {seed}")

    asyncio.run(_drive(server, figures, requests, serve))
    return figures


async def _drive(
    server: ServerProcess,
    figures: Figures,
    requests: int,
    serve: Callable[[Client, int], Awaitable[None]],
) -> None:
    numbers = iter(range(requests))
    done = 0

    async def work() -> None:
        nonlocal done
        client = Client(server.port)
        for number in numbers:
            try:
                await serve(client, number)
            except (ConnectionError, TimeoutError) as error:
                raise SoakError(f"request {number}: {error!r}") from None
            done += 1
            if done == _SETTLED_REQUESTS:
                figures.memory.append(resident_bytes(server))
        await client.close()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    if server.process.poll() is not None or server.request("GET", "/ping")[0] != 200:
        raise SoakError(f"the server is not well at the end: {server.output()[-2000:]}")
    if bugs := [line for line in server.output().splitlines() if '"a bug' in line]:
        raise SoakError(f"the server logged a bug: {bugs[0]}")
    if figures.memory:
        figures.memory.append(resident_bytes(server))


def _expect_no_fault(figures: Figures, answer: Answer, what: str) -> None:
    figures.statuses[answer.status] += 1
    content = answer.json()
    if answer.status >= 500 or ("error" in content) != (answer.status >= 400):
        raise SoakError(f"{what}: {answer.status} {answer.body[:500]!r}")


def _check(
    figures: Figures, request: Request, answer: Answer, fresh: Sequence[Result], *, exact: bool
) -> None:
    figures.statuses[answer.status] += 1
    if answer.status != 200:
        raise SoakError(f"request {request}: {answer.status} {answer.body[:500]!r}")
    content = answer.json()
    results = content["results"] if request.shared else [content["result"]]
    check_answer(figures, f"request {request}", request.decisions, results, fresh, exact=exact)


def check_answer(
    figures: Figures,
    what: str,
    numbers: Sequence[int],
    results: Sequence[Result],
    fresh: Sequence[Result],
    *,
    exact: bool,
) -> None:
    """Hold results against the fresh ones of their decisions. Raises SoakError for one that is another's."""
    for number, result in zip(numbers, results, strict=True):
        figures.compared += 1
        wanted = fresh[number]
        if exact:
            same = _without_clocks(result) == _without_clocks(wanted)
        else:
            same = result["id"] == wanted["id"] and _is_nearest(result, number, fresh)
        if not same:
            raise SoakError(f"{what}, decision {number}: {result} instead of {wanted}")


def _is_nearest(result: Result, number: int, fresh: Sequence[Result]) -> bool:
    """Whether the answer lies within the tolerance of its own marker and of no other."""
    logits = np.asarray(result["option_logits"])
    alike = [index for index, one in enumerate(fresh) if len(one["option_logits"]) == len(logits)]
    distances = [float(np.abs(logits - fresh[index]["option_logits"]).max()) for index in alike]
    nearest = alike[int(np.argmin(distances))]
    return nearest == number and min(distances) <= _MIXED_TOLERANCE


def _without_clocks(result: Result) -> Result:
    return {name: value for name, value in result.items() if name not in _CLOCKS}
