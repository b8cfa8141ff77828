"""Where an invocation goes: the variant of an endpoint in service, held until its answer has ended."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from localaws.protocol import Scope
from localaws.sagemaker import messages
from localaws.sagemaker.hosting import HostedVariant
from localaws.sagemaker.lifecycle import SERVING, EndpointState

BODY_LIMIT_BYTES = 25 * 1024 * 1024
_FORWARDED = (
    "Content-Type",
    "Accept",
    "X-Amzn-SageMaker-Custom-Attributes",
    "X-Amzn-SageMaker-Inference-Id",
)
_ACCEPT_OF_STREAMS = "x-amzn-sagemaker-accept"

Target = tuple[EndpointState, Sequence[HostedVariant]]
Look = Callable[[], Target | None]
Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Reached:
    """A variant that takes this invocation: `release` it when its answer has ended.

    `endpoint` is the endpoint's name as it was created, `headers` what SageMaker passes on.
    """

    endpoint: str
    variant: HostedVariant
    headers: Mapping[str, str]

    @property
    def port(self) -> int:
        """Where the container listens."""
        return self.variant.container.port

    @property
    def invoked(self) -> dict[str, str]:
        """The answer's header that names the variant."""
        return {"x-Amzn-Invoked-Production-Variant": self.variant.placement.variant.name}


def reach(scope: Scope, name: str, look: Look, headers: Mapping[str, str], body: bytes) -> Reached | Answer:
    """Find the variant that takes an invocation, or the answer that refuses it.

    Args:
        scope: the caller's account and region.
        name: the endpoint's name as in the request.
        look: gives the endpoint's state and running variants, None if there is no such endpoint.
        headers: the request's headers, in any case.
        body: the request's body.
    """
    given = {key.lower(): value for key, value in headers.items()}
    if len(body) > BODY_LIMIT_BYTES:
        return error(413, "RequestEntityTooLarge", f"The body has more than {BODY_LIMIT_BYTES} bytes.")
    while True:
        target = look()
        if target is None:
            return error(400, "ValidationError", messages.endpoint_unknown(name, scope.account))
        state, hosted = target
        if state.status not in SERVING or not hosted:
            return error(400, "ValidationError", messages.endpoint_not_in_service(name, scope.account))
        wanted = given.get("x-amzn-sagemaker-target-variant")
        variant = _choose(hosted, wanted)
        if variant is None:
            return error(400, "ValidationError", messages.variant_unknown(wanted or "", name))
        if variant.acquire():
            break
    passed = {key: given[key.lower()] for key in _FORWARDED if key.lower() in given}
    if _ACCEPT_OF_STREAMS in given:
        passed["Accept"] = given[_ACCEPT_OF_STREAMS]
    return Reached(state.name, variant, passed)


def _choose(hosted: Sequence[HostedVariant], wanted: str | None) -> HostedVariant | None:
    if wanted is not None:
        return next((one for one in hosted if one.placement.variant.name == wanted), None)
    weights = [one.placement.variant.weight for one in hosted]
    if not any(weights):
        weights = [1.0] * len(hosted)
    return secrets.SystemRandom().choices(hosted, weights)[0]


def error(status: int, code: str, message: str) -> Answer:
    """An error of the runtime itself, as the SDKs read it."""
    return status, error_headers(code), json.dumps({"Message": message}).encode()


def error_headers(code: str) -> dict[str, str]:
    """Headers of an error with this code."""
    return {"Content-Type": "application/json", "x-amzn-ErrorType": code}
