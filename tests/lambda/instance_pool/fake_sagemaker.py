# ruff: noqa: N803  (the parameters have SageMaker's own names)
"""A small SageMaker in memory that keeps the protocol of the real one: statuses, error codes and texts.

It stands in for the boto3 client. Every call is checked against botocore's service model. `interruptions`
are taken one per call: a throttle, an answer that gets lost, or the death of the caller.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.validate import ParamValidator

CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)
HEALTH = (
    "The primary container for production variant AllTraffic did not pass the ping health check. "
    "Please check CloudWatch logs for this endpoint."
)
ARN = "arn:aws:sagemaker:us-east-1:123456789012:"


class Crash(BaseException):
    """The function died: no code of its own runs any more."""


@dataclass
class Fault:
    """What happens to an instance type, and after how long."""

    mode: str = "ok"
    seconds: int = 240


@dataclass
class FakeSageMaker:
    """Endpoints, configurations and tags of one account and region."""

    faults: dict[str, Fault] = field(default_factory=dict)
    interruptions: list[str] = field(default_factory=list)
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    truth: list[tuple[str, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = getattr(type(self), f"_op_{name}", None)
        if operation is None:
            raise AttributeError(name)

        def call(**parameters: Any) -> dict[str, Any]:
            self.calls.append(name)
            self._settle()
            problems = ParamValidator().validate(parameters, _input_shape(name))
            assert not problems.has_errors(), problems.generate_report()
            interruption = self.interruptions.pop(0) if self.interruptions else ""
            if interruption == "crash before":
                raise Crash
            if interruption == "throttle":
                raise _error("ThrottlingException", "Rate exceeded", name)
            answer: dict[str, Any] = operation(self, **parameters)
            if interruption == "crash after":
                raise Crash
            if interruption == "lost":
                raise ReadTimeoutError(endpoint_url="https://api.sagemaker")
            return answer

        return call

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self._settle()

    def delete_by_hand(self, name: str) -> None:
        """Take an endpoint away at once, as if somebody had deleted it some time ago."""
        self.endpoints.pop(name, None)
        self.tags.pop(f"{ARN}endpoint/{name}", None)

    def _op_create_endpoint_config(
        self, EndpointConfigName: str, ProductionVariants: list[dict[str, Any]], Tags: list[dict[str, str]]
    ) -> dict[str, Any]:
        if EndpointConfigName in self.configurations:
            raise _error(
                "ValidationException",
                "Cannot create already existing endpoint configuration "
                f'"{ARN}endpoint-config/{EndpointConfigName}".',
            )
        instance_type = ProductionVariants[0]["InstanceType"]
        if self._fault(instance_type).mode == "unknown-type":
            raise _error(
                "ValidationException",
                f"1 validation error detected: Value '{instance_type}' at "
                "'productionVariants.1.member.instanceType' failed to satisfy constraint: "
                "Member must satisfy enum value set: [ml.m5.large, ml.c5.large]",
            )
        arn = f"{ARN}endpoint-config/{EndpointConfigName}"
        self.configurations[EndpointConfigName] = {"arn": arn, "type": instance_type, "created": self.now}
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in Tags}
        return {"EndpointConfigArn": arn}

    def _op_describe_endpoint_config(self, EndpointConfigName: str) -> dict[str, Any]:
        if EndpointConfigName not in self.configurations:
            raise _error(
                "ValidationException", f'Could not find endpoint configuration "{EndpointConfigName}".'
            )
        return {"EndpointConfigArn": self.configurations[EndpointConfigName]["arn"]}

    def _op_list_endpoint_configs(
        self, NameContains: str, MaxResults: int, NextToken: str = "0"
    ) -> dict[str, Any]:
        found = [
            {"EndpointConfigName": name, "EndpointConfigArn": item["arn"], "CreationTime": item["created"]}
            for name, item in sorted(self.configurations.items())
            if NameContains in name
        ]
        begin, page = int(NextToken), min(MaxResults, 2)  # small pages: the caller must follow the token
        more = {"NextToken": str(begin + page)} if begin + page < len(found) else {}
        return {"EndpointConfigs": found[begin : begin + page], **more}

    def _op_delete_endpoint_config(self, EndpointConfigName: str) -> dict[str, Any]:
        if EndpointConfigName not in self.configurations:
            raise _error(
                "ValidationException", f'Could not find endpoint configuration "{EndpointConfigName}".'
            )
        for name, endpoint in self.endpoints.items():
            if EndpointConfigName in {endpoint["configuration"], endpoint.get("target")}:
                self.violations.append(f"{EndpointConfigName} was deleted while {name} uses it")
        self.tags.pop(self.configurations.pop(EndpointConfigName)["arn"])
        return {}

    def _op_create_endpoint(
        self, EndpointName: str, EndpointConfigName: str, Tags: list[dict[str, str]]
    ) -> dict[str, Any]:
        arn = f"{ARN}endpoint/{EndpointName}"
        if EndpointName in self.endpoints:
            raise _error("ValidationException", f'Cannot create already existing endpoint "{arn}".')
        fault = self._admit(EndpointConfigName)
        if any(e["status"] in {"Creating", "Updating"} for e in self.endpoints.values()):
            self.violations.append(f"{EndpointName} was created while another creation was under way")
        self.endpoints[EndpointName] = {
            "arn": arn,
            "status": "Creating",
            "configuration": EndpointConfigName,
            "reason": "",
            "created": self.now,
            "until": self.now + timedelta(seconds=fault.seconds),
        }
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in Tags}
        return {"EndpointArn": arn}

    def _op_update_endpoint(self, EndpointName: str, EndpointConfigName: str) -> dict[str, Any]:
        endpoint = self._existing(EndpointName)
        if endpoint["status"] != "InService":
            raise _error("ValidationException", f'Cannot update in-progress endpoint "{endpoint["arn"]}".')
        if endpoint["configuration"] == EndpointConfigName:
            raise _error(
                "ValidationException",
                f"Cannot update endpoint {EndpointName} with the currently in use endpoint configuration",
            )
        fault = self._admit(EndpointConfigName)
        endpoint |= {
            "status": "Updating",
            "target": EndpointConfigName,
            "until": self.now + timedelta(seconds=fault.seconds),
        }
        return {"EndpointArn": endpoint["arn"]}

    def _op_delete_endpoint(self, EndpointName: str) -> dict[str, Any]:
        endpoint = self._existing(EndpointName)
        if endpoint["status"] in {"Creating", "Updating", "Deleting"}:
            raise _error("ValidationException", f'Cannot update in-progress endpoint "{endpoint["arn"]}".')
        endpoint |= {"status": "Deleting", "until": self.now + timedelta(seconds=20)}
        return {}

    def _op_describe_endpoint(self, EndpointName: str) -> dict[str, Any]:
        endpoint = self._existing(EndpointName)
        answer = {
            "EndpointName": EndpointName,
            "EndpointArn": endpoint["arn"],
            "EndpointConfigName": endpoint["configuration"],
            "EndpointStatus": endpoint["status"],
            "CreationTime": endpoint["created"],
            "LastModifiedTime": self.now,
        }
        return answer | ({"FailureReason": endpoint["reason"]} if endpoint["reason"] else {})

    def _op_list_tags(self, ResourceArn: str, MaxResults: int, NextToken: str = "0") -> dict[str, Any]:
        if ResourceArn not in self.tags:
            raise _error("ValidationException", f"Could not find resource {ResourceArn}.")
        tags = [{"Key": key, "Value": value} for key, value in self.tags[ResourceArn].items()]
        begin, page = int(NextToken), min(MaxResults, 5)
        more = {"NextToken": str(begin + page)} if begin + page < len(tags) else {}
        return {"Tags": tags[begin : begin + page], **more}

    def _op_add_tags(self, ResourceArn: str, Tags: list[dict[str, str]]) -> dict[str, Any]:
        if ResourceArn not in self.tags:
            raise _error("ValidationException", f"Could not find resource {ResourceArn}.")
        for tag in Tags:
            assert re.fullmatch(r"[\w .:/=+\-@]{0,256}", tag["Value"]), tag
        self.tags[ResourceArn] |= {tag["Key"]: tag["Value"] for tag in Tags}
        return {}

    def _fault(self, instance_type: str) -> Fault:
        return self.faults.get(instance_type, Fault())

    def _existing(self, name: str) -> dict[str, Any]:
        if name not in self.endpoints:
            raise _error("ValidationException", f'Could not find endpoint "{ARN}endpoint/{name}".')
        return self.endpoints[name]

    def _admit(self, configuration_name: str) -> Fault:
        if configuration_name not in self.configurations:
            raise _error(
                "ValidationException", f'Could not find endpoint configuration "{configuration_name}".'
            )
        instance_type = self.configurations[configuration_name]["type"]
        fault = self._fault(instance_type)
        if fault.mode == "quota":
            self._tell(instance_type, "no quota")
            raise _error(
                "ResourceLimitExceeded",
                f"The account-level service limit '{instance_type} for endpoint usage' is 0 Instances, "
                "with current utilization of 0 Instances and a request delta of 1 Instances.",
            )
        return fault

    def _tell(self, instance_type: str, words: str) -> None:
        """Note what really happened; a call repeated for the same type stands for the same attempt."""
        if self.truth and self.truth[-1][0] == instance_type:
            self.truth.pop()
        self.truth.append((instance_type, words))

    def _settle(self) -> None:
        for name, endpoint in list(self.endpoints.items()):
            if endpoint["status"] in {"InService", "Failed"} or self.now < endpoint["until"]:
                continue
            if endpoint["status"] == "Deleting":
                self.delete_by_hand(name)
                continue
            target = endpoint.pop("target", endpoint["configuration"])
            instance_type = self.configurations[target]["type"]
            mode = self._fault(instance_type).mode
            words = {"ok": "in service", "capacity": "no capacity"}.get(mode, "failed")
            self._tell(instance_type, words)
            reason = {"ok": "", "silent": "", "capacity": CAPACITY, "health": HEALTH}.get(mode, HEALTH)
            updating = endpoint["status"] == "Updating"
            endpoint["reason"] = reason
            endpoint["status"] = "InService" if mode == "ok" or updating else "Failed"
            if mode == "ok":
                endpoint["configuration"] = target


@cache
def _input_shape(operation: str) -> Any:
    model = _service_model()
    name = next(n for n in model.operation_names if n.lower() == operation.replace("_", ""))
    return model.operation_model(name).input_shape


@cache
def _service_model() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


def _error(code: str, message: str, operation: str = "Operation") -> ClientError:
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
