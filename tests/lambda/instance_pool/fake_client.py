"""What the stand-ins for boto3's clients share: checked parameters, and interruptions of any call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

import botocore.session
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.validate import ParamValidator


class Crash(BaseException):
    """The function died: no code of its own runs any more."""


@dataclass
class World:
    """What all clients of an account share: the time, and what befalls the next calls, one each.

    An interruption is "" (none), "throttle", "lost" (the answer), "crash before" or "crash after".
    """

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    interruptions: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


class FakeClient:
    """A client of `service`: an operation `x` is the method `_op_x`."""

    service: ClassVar[str]
    world: World

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = getattr(type(self), f"_op_{name}", None)
        if operation is None:
            raise AttributeError(name)

        def call(**parameters: Any) -> dict[str, Any]:
            self.world.calls.append(name)
            self.settle()
            problems = ParamValidator().validate(parameters, _input_shape(self.service, name))
            assert not problems.has_errors(), problems.generate_report()
            interruption = self.world.interruptions.pop(0) if self.world.interruptions else ""
            if interruption == "crash before":
                raise Crash
            if interruption == "throttle":
                raise refusal("ThrottlingException", "Rate exceeded", name)
            answer: dict[str, Any] = operation(self, **parameters)
            if interruption == "crash after":
                raise Crash
            if interruption == "lost":
                raise ReadTimeoutError(endpoint_url="https://api")
            return answer

        return call

    def settle(self) -> None:
        """Let what is due happen."""


def refusal(code: str, message: str, operation: str = "Operation") -> ClientError:
    """An error answer as botocore raises it."""
    response: Mapping[str, Any] = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {
            "HTTPStatusCode": 400,
            "RequestId": "r",
            "HostId": "",
            "HTTPHeaders": {},
            "RetryAttempts": 0,
        },
    }
    return ClientError(response, operation)  # type: ignore[arg-type]


@cache
def _input_shape(service: str, operation: str) -> Any:
    model = _service_model(service)
    name = next(n for n in model.operation_names if n.lower() == operation.replace("_", ""))
    return model.operation_model(name).input_shape


@cache
def _service_model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)
