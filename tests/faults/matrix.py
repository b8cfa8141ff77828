"""Rows of the fault matrix, and what a row's four operations come to on a local AWS.

A row is taken through the life of one stack: created with the fault, updated with it, sent back by
CloudFormation with it (another resource fails after the endpoint's update), deleted with it. Each cell says
the stack's status, which revision serves afterwards, and what CloudFormation tells.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from localaws.session import LocalAws

HERE = Path(__file__).parent
LAMBDA = HERE.parents[1] / "lambda"
ACCOUNT, REGION = "123456789012", "us-east-1"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/matrix:1"
FIRST, SECOND, NEXT = "ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge"
"""The pool: two types in a native round, a third in the next."""
ALARM = "matrix-errors"
OPERATIONS = ("create", "update", "rollback", "delete")
OK = ""
"""Expectation of a cell: the operation succeeds. Any other text: it fails with a message that has it."""
_SETTLE_S = 90.0
Call = tuple[str, str, Mapping[str, Any], bool]
"""Service, operation, arguments, and whether to wait until the endpoint is settled."""


@dataclass(frozen=True)
class Row:
    """A fault, and what each operation comes to under it: OK, part of the message, or None (not run)."""

    name: str
    create: str | None = OK
    update: str | None = OK
    rollback: str | None = OK
    delete: str | None = OK
    faults: Mapping[str, Any] = field(default_factory=dict)
    quotas: Mapping[str, int | None] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    image: str | None = None
    data_url: str | None = None
    by_hand: str = ""
    """What a person does to the endpoint before each operation; a key of `by_hand`."""
    other_types: bool = False
    """Whether every other revision of the pool has other instance types."""
    stuck: bool = False
    """Whether CloudFormation's way back from a failed update fails too."""
    serves: str | None = None
    """Type that serves after a creation or update that succeeds; None: any."""

    def expected(self, operation: str) -> str | None:
        """Return one cell's expectation."""
        found: str | None = getattr(self, operation)
        return found


@dataclass(frozen=True)
class Cell:
    """What came of one operation."""

    status: str
    serving: str
    """Revision and type in service, `-` if there is no endpoint."""
    left: int
    """Configurations beside the one that serves and the record. After a rollback that failed: once it is
    continued; until then the last attempt's configuration stays, which tells of it and costs nothing."""
    record: int
    """Configurations of earlier attempts of the very walk that made what serves: `semif watch` and the output
    Attempts read them. They go with the next fleet, or with the endpoint."""
    message: str


def pool(name: str, revision: int, model: str, **more: Any) -> dict[str, Any]:
    """Return the custom resource's properties but those that are None. The revision tells fleets apart."""
    properties: dict[str, Any] = {
        "EndpointName": name,
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InitialInstanceCount": "1",
        "ModelDataDownloadTimeoutInSeconds": str(100 + revision),
        "ContainerStartupHealthCheckTimeoutInSeconds": "60",
        "Strategy": "native",
        "VariantInstanceProvisionTimeoutInSeconds": "300",
        "Round1": {"Type1": FIRST, "Type2": SECOND},
        "Round2": {"Type1": NEXT},
        "Update": {"Type": "all-at-once"},
        "Tags": {"project": "matrix"},
    }
    return {key: value for key, value in (properties | more).items() if value is not None}


class Lab:
    """A local AWS with the function and an image; runs rows."""

    def __init__(self, aws: LocalAws, folder: Path) -> None:
        self.aws = aws
        self.stacks = aws.client("cloudformation")
        self.sagemaker = aws.client("sagemaker")
        self._control = folder / "control.json"
        self._control.write_text("{}")
        command = [sys.executable, "-I", "-S", str(HERE / "container.py")]
        aws.client("cloudwatch").put_metric_alarm(
            AlarmName=ALARM,
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="Invocation5XXErrors",
            Namespace="AWS/SageMaker",
            Period=60,
            Statistic="Sum",
            Threshold=1,
        )
        self.image = aws.push_image(IMAGE, command=command, bind={"port": "PORT"})
        self.token = self._function()

    def _function(self) -> str:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(HERE / "provider.py", "provider.py")
            for path in sorted((LAMBDA / "instance_pool").rglob("*.py")):
                archive.write(path, str(path.relative_to(LAMBDA)))
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        role = self.aws.client("iam").create_role(RoleName="matrix", AssumeRolePolicyDocument=trust)
        made = self.aws.client("lambda").create_function(
            FunctionName="matrix",
            Runtime="python3.12",
            Role=role["Role"]["Arn"],
            Handler="provider.handler",
            Code={"ZipFile": packed.getvalue()},
            Timeout=120,
            Environment={"Variables": {"CONTROL": str(self._control)}},
        )
        return str(made["FunctionArn"])

    def run(self, row: Row, index: int) -> dict[str, Cell]:
        """Take a row through its four operations, and leave nothing."""
        life = Life(self, row, f"matrix-{index}")
        try:
            return life.run()
        finally:
            self.calm()
            life.end()

    def disturb(self, row: Row, name: str) -> None:
        """Put the row's faults and quotas in force, and do by hand what it says."""
        exists = self.endpoint(name) is not None
        self._control.write_text(json.dumps(row.control))
        self.aws.put_quotas(row.quotas)
        self.aws.put_faults(row.faults)
        for call in by_hand(row, name) if exists else ():
            self.carry_out(call)

    def calm(self) -> None:
        """Take every fault away."""
        self.aws.put_faults({})
        self.aws.put_quotas({})
        self._control.write_text("{}")
        for left in self._control.parent.glob("*.once"):
            left.unlink()
        self.carry_out(alarm("OK"))

    def endpoint(self, name: str) -> dict[str, Any] | None:
        """Return DescribeEndpoint's answer, None if there is no endpoint."""
        try:
            found: dict[str, Any] = self.sagemaker.describe_endpoint(EndpointName=name)
        except ClientError:
            return None
        return found

    def configurations(self, name: str) -> dict[str, str]:
        """Return the names of all configurations of an endpoint, with the request that made each."""
        page = self.sagemaker.list_endpoint_configs(NameContains=name, MaxResults=100)
        made_by = {}
        for one in page["EndpointConfigs"]:
            tags = self.sagemaker.list_tags(ResourceArn=one["EndpointConfigArn"])["Tags"]
            values = {tag["Key"]: tag["Value"] for tag in tags}
            made_by[one["EndpointConfigName"]] = values.get("semif:request-id", "")
        return made_by

    def is_scaled(self, name: str) -> bool:
        """Say whether the endpoint's variant is registered with Application Auto Scaling."""
        found = self.aws.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[target(name)["ResourceId"]]
        )
        return bool(found["ScalableTargets"])

    def carry_out(self, call: Call) -> None:
        """Make a call as a person would, and wait until an endpoint that it changes is settled."""
        service, operation, arguments, waits = call
        getattr(self.aws.client(service), operation)(**arguments)
        deadline = time.monotonic() + _SETTLE_S
        while waits and time.monotonic() < deadline:
            found = self.endpoint(arguments["EndpointName"])
            if found is None or found["EndpointStatus"] in {"InService", "Failed"}:
                return
            time.sleep(0.1)


def target(name: str) -> dict[str, Any]:
    """Return what names the endpoint's variant to Application Auto Scaling."""
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }


def alarm(state: str) -> Call:
    """Return the call that brings the matrix's alarm into a state."""
    arguments = {"AlarmName": ALARM, "StateValue": state, "StateReason": "the matrix says so"}
    return ("cloudwatch", "set_alarm_state", arguments, False)


def by_hand(row: Row, name: str) -> list[Call]:
    """Return the calls that a person makes before an operation of the row."""
    other = f"by-hand-{time.monotonic_ns()}"
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": f"{name}-model",
        "InitialInstanceCount": 1,
        "InstanceType": NEXT,
    }
    config = {"EndpointConfigName": other, "ProductionVariants": [variant]}
    update = {"EndpointName": name, "EndpointConfigName": other}
    calls: dict[str, list[Call]] = {
        "delete the endpoint": [("sagemaker", "delete_endpoint", {"EndpointName": name}, True)],
        "another configuration": [
            ("sagemaker", "create_endpoint_config", config, False),
            ("sagemaker", "update_endpoint", update, True),
        ],
        "an update under way": [
            ("sagemaker", "create_endpoint_config", config, False),
            ("sagemaker", "update_endpoint", update, False),
        ],
        "scaling": [
            (
                "application-autoscaling",
                "register_scalable_target",
                {**target(name), "MinCapacity": 1, "MaxCapacity": 3},
                False,
            )
        ],
        "an alarm": [alarm("ALARM")],
    }
    return calls[row.by_hand] if row.by_hand else []


class Life:
    """One stack of a row."""

    def __init__(self, lab: Lab, row: Row, name: str, stack: str | None = None) -> None:
        self.lab = lab
        self.row = row
        self.name = name
        self.stack = stack or name
        self.revision = 0
        self.exists = False

    def run(self) -> dict[str, Cell]:
        """Return the cells of the operations that the row has."""
        row, cells = self.row, dict[str, Cell]()
        if row.create is not None:
            self.lab.disturb(row, self.name)
            cells["create"] = self._create()
            self.lab.calm()
            if cells["create"].status != "CREATE_COMPLETE":
                self._delete()
        if not self.exists:
            assert self._create(healthy=True).status == "CREATE_COMPLETE"
        if row.update is not None:
            self.lab.disturb(row, self.name)
            cells["update"] = self._update()
            self.lab.calm()
            if cells["update"].status == "UPDATE_ROLLBACK_FAILED":
                cells["update"] = self._continued(cells["update"])
        if row.rollback is not None:
            cells["rollback"] = self._update(blocked=True)
            self.lab.calm()
            if cells["rollback"].status == "UPDATE_ROLLBACK_FAILED":
                cells["rollback"] = self._continued(cells["rollback"])
        if row.delete is not None:
            self.lab.disturb(row, self.name)
            cells["delete"] = self._delete()
        return cells

    def end(self) -> None:
        """Delete the stack if it is still there."""
        if self.exists:
            self._delete()

    def begin(self, *, healthy: bool = False) -> str:
        """Begin to create the stack and return its id."""
        self.exists = True
        self.revision = 1
        text = self._template(1, healthy=healthy)
        return str(self.lab.stacks.create_stack(StackName=self.stack, TemplateBody=text)["StackId"])

    def _create(self, *, healthy: bool = False) -> Cell:
        return self.cell(self.begin(healthy=healthy))

    def _update(self, *, blocked: bool = False) -> Cell:
        before, self.revision = self.revision, self.revision + 1
        text = self._template(self.revision, blocked=blocked, healthy=blocked)
        stack_id = self.lab.stacks.update_stack(StackName=self.stack, TemplateBody=text)["StackId"]
        cell = self.cell(stack_id)
        if cell.status != "UPDATE_COMPLETE":
            self.revision = before
        return cell

    def _continued(self, failed: Cell) -> Cell:
        """Let CloudFormation go on with a rollback that failed, the fault gone; it must come to its end.

        An endpoint that nothing but a new one mends is deleted before, as the message says.
        """
        stack_id = self.lab.stacks.describe_stacks(StackName=self.stack)["Stacks"][0]["StackId"]
        if failed.serving == "UpdateRollbackFailed":
            self.lab.carry_out(("sagemaker", "delete_endpoint", {"EndpointName": self.name}, True))
        self.lab.stacks.continue_update_rollback(StackName=self.stack)
        mended = self.cell(stack_id)
        assert mended.status == "UPDATE_ROLLBACK_COMPLETE", mended
        assert mended.serving.startswith(f"{self.revision} on "), mended
        return replace(failed, left=mended.left)

    def _delete(self) -> Cell:
        stack_id = self.lab.stacks.describe_stacks(StackName=self.stack)["Stacks"][0]["StackId"]
        self.lab.stacks.delete_stack(StackName=self.stack)
        cell = self.cell(stack_id)
        self.exists = cell.status != "DELETE_COMPLETE"
        return cell

    def cell(self, stack_id: str) -> Cell:
        """Wait until the stack's operation has ended, and say what it came to."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            stack = self.lab.stacks.describe_stacks(StackName=stack_id)["Stacks"][0]
            if not stack["StackStatus"].endswith("_IN_PROGRESS"):
                break
            assert time.monotonic() < deadline, f"{self.name} is still {stack['StackStatus']}"
            time.sleep(0.1)
        self.lab.calm()
        found, configs = self.lab.endpoint(self.name), self.lab.configurations(self.name)
        serving, record = "-", 0
        if found is not None:
            config = self.lab.sagemaker.describe_endpoint_config(
                EndpointConfigName=found["EndpointConfigName"]
            )
            variant = config["ProductionVariants"][0]
            types = [
                one["InstanceType"]
                for one in found["ProductionVariants"][0].get("InstancePools", [])
                if one["CurrentInstanceCount"]
            ]
            revision = variant.get("ModelDataDownloadTimeoutInSeconds", 100) - 100
            serving = f"{revision} on {', '.join(types) or variant.get('InstanceType')}"
            serving_request = configs.pop(found["EndpointConfigName"], None)
            record = sum(request == serving_request for request in configs.values())
            if found["EndpointStatus"] != "InService":
                serving = found["EndpointStatus"]
            if self.lab.is_scaled(self.name):
                serving += ", scaled"
        left = len(configs) - record
        return Cell(stack["StackStatus"], serving, left, record, self._message(stack_id))

    def _message(self, stack_id: str) -> str:
        """Return what CloudFormation says of the newest operation's failures and its rollback's, in order."""
        events = self.lab.stacks.describe_stack_events(StackName=stack_id)["StackEvents"]
        starts = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}
        reasons: list[str] = []
        for event in events:
            reason = event.get("ResourceStatusReason", "")
            is_stack = event["ResourceType"] == "AWS::CloudFormation::Stack"
            if is_stack and event["ResourceStatus"] in starts:
                break
            if not is_stack and event["ResourceStatus"].endswith("_FAILED"):
                reasons.append(
                    reason.removeprefix("Received response status [FAILED] from custom resource. ")
                )
        return " | ".join(reasons[::-1])

    def _template(self, revision: int, *, blocked: bool = False, healthy: bool = False) -> str:
        row, model = self.row, f"{self.stack}-model"
        container: dict[str, Any] = {"Image": self.lab.image}
        if not healthy and (row.image or row.data_url):
            model = f"{model}-{revision}"
            container = {"Image": row.image or self.lab.image}
            container |= {"ModelDataUrl": row.data_url} if row.data_url else {}
        properties = pool(self.name, revision, model, **row.properties)
        if row.other_types and revision % 2 == 0:
            properties["Round1"] = {"Type1": SECOND}
        resources: dict[str, Any] = {
            "Model": {
                "Type": "AWS::SageMaker::Model",
                "Properties": {
                    "ModelName": model,
                    "PrimaryContainer": container,
                    "ExecutionRoleArn": f"arn:aws:iam::{ACCOUNT}:role/execution",
                },
            },
            "Endpoint": {
                "Type": "Custom::InstancePoolEndpoint",
                "DependsOn": ["Model"],
                "Properties": {"ServiceToken": self.lab.token, **properties},
            },
        }
        if blocked:
            resources["Blocker"] = self._blocker()
        return json.dumps({"Resources": resources})

    def _blocker(self) -> dict[str, Any]:
        row = self.row
        put: dict[str, Any] = {"quotas": row.quotas, "faults": row.faults}
        calls = by_hand(row, self.name)
        return {
            "Type": "Custom::Blocker",
            "DependsOn": ["Endpoint"],
            "Properties": {
                "ServiceToken": self.lab.token,
                "Put": json.dumps(put),
                "Control": json.dumps(row.control),
                "ByHand": json.dumps(calls),
            },
        }
