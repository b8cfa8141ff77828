"""A whole server in this process, without a socket: the real app on the real engine and a real model."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from semif_server.archive import open_archive
from semif_server.assembly import assemble
from semif_server.contract.semif import SemifContract
from semif_server.engine.prepare import PreparedDecision
from semif_server.engine.task import DecisionRequest
from semif_server.profile import load_profile
from semif_server.settings import Settings

JSON = {"content-type": "application/json"}

PASSWORD_RESET: dict[str, Any] = {
    "id": "support-route",
    "state": "The customer cannot receive a password reset email.",
    "question": "Which queue should handle this request?",
    "options": [
        {"id": "account_access", "description": "Account access support."},
        {"id": "billing", "description": "Billing support."},
    ],
}


def decision(**changes: Any) -> dict[str, Any]:
    """The README's decision with some fields changed; None removes a field."""
    changed = {**PASSWORD_RESET, **changes}
    return {name: value for name, value in changed.items() if value is not None}


class Serving:
    """One model, served in-process."""

    def __init__(self, gguf: Path, **settings: Any) -> None:
        self.settings = Settings(gguf_path=gguf, threads=2, **settings)
        self.archive = open_archive(self.settings.model_dir, gguf)
        self.profile = load_profile(self.archive.profile)
        self.assembly = assemble(self.settings, self.archive, self.profile)
        self.assembly.engine.start()
        self.assembly.engine.open()
        self._contract = SemifContract(max_options=255, max_decisions=64, prompt_version="x", model={})

    @property
    def vocabulary(self) -> Any:
        """The model's vocabulary."""
        return self.assembly.model.vocabulary

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One request through the ASGI app."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.assembly.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(send())

    def post(self, body: Any, headers: Mapping[str, str] = JSON) -> httpx.Response:
        """POST /invocations; bytes go as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", "/invocations", content=content, headers=headers)

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        """The response of a request that must succeed."""
        response = self.post(body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def read(self, one: dict[str, Any]) -> DecisionRequest:
        """A decision as the engine's types have it."""
        return self._contract.read(json.dumps({"decision": one}).encode())

    def prepare(self, one: dict[str, Any]) -> PreparedDecision:
        """What the server makes of a decision before it evaluates it."""
        return self.assembly.preparer.prepare(self.read(one)).decisions[0]

    def forget(self) -> None:
        """Begin with an engine that has only the head, as after a start."""
        engine = self.assembly.engine
        with engine._changed:
            assert not len(engine._scheduler)
            self.assembly.context.clear_all()
            engine._decode_head()
            engine._scheduler.reset()

    def close(self) -> None:
        """Stop the engine and free the model."""
        self.assembly.close()


def softmax(logits: list[float]) -> NDArray[np.float64]:
    """The textbook definition, on purpose not the server's code."""
    exponentials = np.exp(np.asarray(logits, dtype=np.float64) - max(logits))
    result: NDArray[np.float64] = exponentials / exponentials.sum()
    return result


__all__ = ["JSON", "PASSWORD_RESET", "Serving", "decision", "softmax"]
