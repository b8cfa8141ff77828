"""HTTP as the benchmark's callers use it: one kept connection each, timed from sending to the last byte."""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any, Final

_TIMEOUT_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One response. seconds: from before the request was written until its body was read."""

    status: int
    body: Any
    seconds: float


class Caller:
    """One client with a connection to 127.0.0.1; a server that closes it gets a new one."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)

    def post(self, path: str, body: object) -> Answer:
        """Send JSON and read the JSON that comes back."""
        content = json.dumps(body).encode()
        begun_s = time.perf_counter()
        self._connection.request("POST", path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        seconds = time.perf_counter() - begun_s
        return Answer(response.status, json.loads(data), seconds)

    def expect(self, path: str, body: object) -> Answer:
        """As post. Raises RuntimeError unless the answer is 200."""
        answer = self.post(path, body)
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path} answered {answer.status}: {json.dumps(answer.body)[:500]}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
