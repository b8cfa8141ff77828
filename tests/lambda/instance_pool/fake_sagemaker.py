# ruff: noqa: N803  (the parameters have SageMaker's own names)
"""A small SageMaker in memory that keeps the protocol of the real one: statuses, error codes and texts.

It stands in for the boto3 client. What an accepted call leads to is fixed when it is accepted.
"""

import importlib
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

client = importlib.import_module("tests.lambda.instance_pool.fake_client")
Crash, refusal = client.Crash, client.refusal

CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
    "Please retry using a different ML instance type or after some time."
)
HEALTH = (
    "The primary container for production variant AllTraffic did not pass the ping health check. "
    "Please check CloudWatch logs for this endpoint."
)
SERVICE = "Request to service failed. If failure persists after retry, contact customer support."
ALARM = (
    "The deployment was rolled back because the following CloudWatch alarms were in ALARM state: [errors]."
)
ARN = "arn:aws:sagemaker:us-east-1:123456789012:"
WORKING = {"Creating", "Updating", "RollingBack", "Deleting"}
ENUM = (
    "1 validation error detected: Value '{}' at 'productionVariants.1.member.{}' failed to satisfy "
    "constraint: Member must satisfy enum value set: [ml.m5.large, ml.c5.large]"
)


@dataclass
class Fault:
    """What happens to an instance type, and after how long. `first`: only so many times, then it is ok."""

    mode: str = "ok"
    seconds: int = 240
    first: int = 1000


@dataclass
class Plan:
    """What an accepted call leads to; `words`: how the attempt is truly to be told."""

    seconds: int
    reason: str
    serving: str
    words: str
    ok: bool = False
    shows_old_reason: bool = False


@dataclass
class FakeSageMaker(client.FakeClient):  # type: ignore[misc, name-defined]
    """Endpoints, configurations and tags of one account and region."""

    service: ClassVar[str] = "sagemaker"
    faults: dict[str, Fault] = field(default_factory=dict)
    quotas: dict[str, int | None] = field(default_factory=dict)
    scaled: dict[str, Any] = field(default_factory=dict)
    serial_capacity_s: int = 1800
    keeps_old_reasons: bool = False
    world: Any = field(default_factory=client.World)
    configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    truth: dict[str, str] = field(default_factory=dict)
    begun: list[datetime] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.world.now  # type: ignore[no-any-return]

    @property
    def interruptions(self) -> list[str]:
        return self.world.interruptions  # type: ignore[no-any-return]

    @property
    def calls(self) -> list[str]:
        return self.world.calls  # type: ignore[no-any-return]

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.world.now += timedelta(seconds=seconds)
        self.settle()

    def quota(self, instance_type: str) -> int | None:
        """The account's quota; None: the region does not have the type."""
        return self.quotas.get(instance_type, 20)

    def in_use(self, instance_type: str) -> int:
        """Instances of a type that endpoints have."""
        return sum(
            e["fleet"].get(instance_type, 0) for e in self.endpoints.values() if e["status"] != "Failed"
        )

    def delete_by_hand(self, name: str) -> None:
        """Take an endpoint away at once, as if somebody had deleted it some time ago."""
        self.endpoints.pop(name, None)
        self.tags.pop(f"{ARN}endpoint/{name}", None)

    def _op_create_endpoint_config(
        self,
        EndpointConfigName: str,
        ProductionVariants: list[dict[str, Any]],
        Tags: list[dict[str, str]],
        KmsKeyId: str = "",
    ) -> dict[str, Any]:
        if EndpointConfigName in self.configurations:
            raise refusal(
                "ValidationException",
                "Cannot create already existing endpoint configuration "
                f'"{ARN}endpoint-config/{EndpointConfigName}".',
            )
        variant = ProductionVariants[0]
        pools = variant.get("InstancePools", [])
        types = [p["InstanceType"] for p in sorted(pools, key=lambda p: p["Priority"])]
        for name in types or [variant["InstanceType"]]:
            if self.quota(name) is None or self._fault(name).mode == "unknown-type":
                member = "instancePools.1.member.instanceType" if types else "instanceType"
                raise refusal("ValidationException", ENUM.format(name, member))
        assert len(types) <= 5
        assert len(Tags) <= 50
        arn = f"{ARN}endpoint-config/{EndpointConfigName}"
        self.configurations[EndpointConfigName] = {
            "arn": arn,
            "types": types or [variant["InstanceType"]],
            "variant": variant,
            "created": self.now,
            "key": KmsKeyId,
        }
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in Tags}
        return {"EndpointConfigArn": arn}

    def _op_describe_endpoint_config(self, EndpointConfigName: str) -> dict[str, Any]:
        found = self._configuration(EndpointConfigName)
        return {"EndpointConfigArn": found["arn"], "ProductionVariants": [found["variant"]]}

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
        self._configuration(EndpointConfigName)
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
            raise refusal("ValidationException", f'Cannot create already existing endpoint "{arn}".')
        plan = self._admit(EndpointConfigName, {})
        self.endpoints[EndpointName] = {
            "arn": arn,
            "status": "Creating",
            "configuration": EndpointConfigName,
            "reason": "",
            "fleet": {},
            "created": self.now,
            "plan": plan,
            "until": self.now + timedelta(seconds=plan.seconds),
        }
        self.tags[arn] = {tag["Key"]: tag["Value"] for tag in Tags}
        return {"EndpointArn": arn}

    def _op_update_endpoint(
        self,
        EndpointName: str,
        EndpointConfigName: str,
        DeploymentConfig: dict[str, Any],
        RetainAllVariantProperties: bool = False,
    ) -> dict[str, Any]:
        endpoint = self._existing(EndpointName)
        if endpoint["status"] != "InService":
            raise refusal("ValidationException", f'Cannot update in-progress endpoint "{endpoint["arn"]}".')
        if endpoint["configuration"] == EndpointConfigName:
            raise refusal(
                "ValidationException",
                f"Cannot update endpoint {EndpointName} with the currently in use endpoint configuration",
            )
        types = self._configuration(EndpointConfigName)["types"]
        if EndpointName in self.scaled:
            serving = self.configurations.get(endpoint["configuration"], {"types": []})
            if types != serving["types"]:
                text = 'The variant(s) "["AllTraffic"]" must be deregistered as scalable targets'
                raise refusal("ValidationException", text)
            assert RetainAllVariantProperties
        plan = self._admit(EndpointConfigName, endpoint["fleet"])
        endpoint |= {
            "status": "Updating",
            "target": EndpointConfigName,
            "plan": plan,
            "until": self.now + timedelta(seconds=plan.seconds),
            "deployment": DeploymentConfig,
        }
        if not self.keeps_old_reasons:
            endpoint["reason"] = ""
        return {"EndpointArn": endpoint["arn"]}

    def _op_delete_endpoint(self, EndpointName: str) -> dict[str, Any]:
        endpoint = self._existing(EndpointName)
        if endpoint["status"] in WORKING:
            raise refusal("ValidationException", f'Cannot update in-progress endpoint "{endpoint["arn"]}".')
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
        if endpoint["fleet"]:
            answer["ProductionVariants"] = [self._variant(endpoint)]
        return answer | ({"FailureReason": endpoint["reason"]} if endpoint["reason"] else {})

    def _op_list_endpoints(self, MaxResults: int) -> dict[str, Any]:
        assert len(self.endpoints) <= MaxResults
        listed = [{"EndpointName": name, "EndpointStatus": e["status"]} for name, e in self.endpoints.items()]
        return {"Endpoints": listed}

    def _op_list_tags(self, ResourceArn: str, MaxResults: int, NextToken: str = "0") -> dict[str, Any]:
        tags = [{"Key": key, "Value": value} for key, value in self._tagged(ResourceArn).items()]
        begin, page = int(NextToken), min(MaxResults, 5)
        more = {"NextToken": str(begin + page)} if begin + page < len(tags) else {}
        return {"Tags": tags[begin : begin + page], **more}

    def _op_add_tags(self, ResourceArn: str, Tags: list[dict[str, str]]) -> dict[str, Any]:
        tags = self._tagged(ResourceArn)
        for tag in Tags:
            assert re.fullmatch(r"[\w .:/=+\-@]{0,256}", tag["Value"]), tag
        tags |= {tag["Key"]: tag["Value"] for tag in Tags}
        assert len(tags) <= 50
        return {}

    def _op_delete_tags(self, ResourceArn: str, TagKeys: list[str]) -> dict[str, Any]:
        tags = self._tagged(ResourceArn)
        for key in TagKeys:
            tags.pop(key, None)
        return {}

    def _tagged(self, arn: str) -> dict[str, str]:
        if arn not in self.tags:
            raise refusal("ValidationException", f"Could not find resource {arn}.")
        return self.tags[arn]

    def _configuration(self, name: str) -> dict[str, Any]:
        if name not in self.configurations:
            raise refusal("ValidationException", f'Could not find endpoint configuration "{name}".')
        return self.configurations[name]

    def _existing(self, name: str) -> dict[str, Any]:
        if name not in self.endpoints:
            raise refusal("ValidationException", f'Could not find endpoint "{ARN}endpoint/{name}".')
        return self.endpoints[name]

    def _variant(self, endpoint: dict[str, Any]) -> dict[str, Any]:
        count = sum(endpoint["fleet"].values())
        variant: dict[str, Any] = {
            "VariantName": "AllTraffic",
            "CurrentInstanceCount": count,
            "DesiredInstanceCount": count,
        }
        if endpoint["native"]:
            variant["InstancePools"] = [
                {"InstanceType": name, "CurrentInstanceCount": endpoint["fleet"].get(name, 0)}
                for name in endpoint["types"]
            ]
        return variant

    def _admit(self, configuration_name: str, own: dict[str, int]) -> Plan:
        """Take a call on, or refuse it for its quota; every listed type of a pool needs enough."""
        found = self._configuration(configuration_name)
        types, count = found["types"], found["variant"]["InitialInstanceCount"]
        for name in types:
            named = "ml.p5.48xlarge" if self._fault(name).mode == "foreign-quota" else name
            limit = self.quota(name) or 0
            if self._fault(name).mode in {"quota", "foreign-quota"} or self.in_use(name) + count > limit:
                told = named if named in types else ", ".join(types)
                self.truth[configuration_name] = f"{told}: no quota"
                raise refusal(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{named} for endpoint usage' is {limit} Instances, "
                    f"with current utilization of {self.in_use(name)} Instances and a request delta of "
                    f"{count} Instances.",
                )
        if any(e["status"] in {"Creating", "Updating"} for e in self.endpoints.values()):
            self.violations.append(f"{configuration_name} began while another creation was under way")
        self.begun.append(self.now)
        return self._plan(
            types, found["variant"].get("VariantInstanceProvisionTimeoutInSeconds", self.serial_capacity_s)
        )

    def _plan(self, types: list[str], limit_s: int) -> Plan:
        seconds = 0
        for name in types:
            fault = self._fault(name)
            seconds += fault.seconds
            if len(types) > 1:
                seconds = min(seconds, limit_s)
            if fault.mode == "capacity":
                continue
            broken = fault.mode not in {"ok", "quota", "foreign-quota", "unknown-type"} and fault.first > 0
            fault.first -= 1
            if not broken:
                passed = ", ".join(types[: types.index(name)])
                told = f"{passed}: passed over by SageMaker; " if passed else ""
                return Plan(seconds, "", name, f"{told}{name}: in service", ok=True)
            reason = {"silent": "", "silent-stale": "", "service": SERVICE, "alarm": ALARM}
            stale = fault.mode == "silent-stale"
            return Plan(
                seconds,
                reason.get(fault.mode, HEALTH),
                "",
                f"{', '.join(types)}: failed",
                shows_old_reason=stale,
            )
        # A lack of capacity shows once the time for finding any is over.
        return Plan(max(limit_s, seconds), CAPACITY, "", f"{', '.join(types)}: no capacity")

    def _fault(self, instance_type: str) -> Fault:
        return self.faults.setdefault(instance_type, Fault())

    def settle(self) -> None:
        for name, endpoint in list(self.endpoints.items()):
            if endpoint["status"] not in WORKING or self.now < endpoint["until"]:
                continue
            match endpoint["status"]:
                case "Deleting":
                    self.delete_by_hand(name)
                case "RollingBack":
                    endpoint |= {"status": "InService"}
                    self._end(endpoint, endpoint.pop("target"))
                case "Updating" if not endpoint["plan"].ok and endpoint["plan"].reason:
                    endpoint |= {"status": "RollingBack", "until": endpoint["until"] + timedelta(seconds=20)}
                    self.settle()
                case before:
                    endpoint["status"] = "Failed"
                    if before == "Updating" or endpoint["plan"].ok:
                        endpoint["status"] = "InService"
                    self._end(endpoint, endpoint.pop("target", endpoint["configuration"]))

    def _end(self, endpoint: dict[str, Any], configuration_name: str) -> None:
        plan: Plan = endpoint["plan"]
        self.truth[configuration_name] = plan.words
        if not plan.shows_old_reason:
            endpoint["reason"] = plan.reason
        if plan.ok:
            found = self.configurations[configuration_name]
            endpoint |= {
                "configuration": configuration_name,
                "fleet": {plan.serving: found["variant"]["InitialInstanceCount"]},
                "types": found["types"],
                "native": "InstancePools" in found["variant"],
            }
