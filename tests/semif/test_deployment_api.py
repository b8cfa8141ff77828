"""Snapshots read through botocore; its service models check every answer that the test gives."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from mypy_boto3_cloudformation import CloudFormationClient
from mypy_boto3_sagemaker import SageMakerClient

from semif.aws import Aws
from semif.deployment import POOL_TYPE, STACK_TYPE
from semif.deployment_api import EXISTING, LIST_S, DeploymentReader
from semif.errors import CredentialsExpiredError, ThrottledError
from semif.walk_api import walk_attempts
from tests.semif.recording import at

NAME = "semif-dev-decisions"
STACKS = ("semif-dev-artifacts", NAME)
STACK_ID = f"arn:aws:cloudformation:eu-central-1:111122223333:stack/{NAME}/1"
CONFIG_ARN = "arn:aws:sagemaker:eu-central-1:111122223333:endpoint-config/mine-0a1b2c3d4e-0"
SESSION = boto3.Session("testing", "testing", region_name="eu-central-1")


@pytest.fixture(scope="module")
def cloudformation_client() -> CloudFormationClient:
    return SESSION.client("cloudformation")


@pytest.fixture(scope="module")
def sagemaker_client() -> SageMakerClient:
    return SESSION.client("sagemaker")


class StubbedAws(Aws):
    """A session whose clients are stubs."""

    def __init__(self, cloudformation: CloudFormationClient, sagemaker: SageMakerClient) -> None:
        super().__init__(SESSION, "eu-central-1")
        object.__setattr__(self, "clients", (cloudformation, sagemaker))

    clients: tuple[CloudFormationClient, SageMakerClient]

    def cloudformation(self) -> CloudFormationClient:
        return self.clients[0]

    def sagemaker(self) -> SageMakerClient:
        return self.clients[1]


@dataclass
class Stubs:
    """AWS as a script; each `stack` call stands for one look at two stacks."""

    aws: Aws
    cloudformation: Stubber
    sagemaker: Stubber
    tokens: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    def stack(
        self, status: str, *, exists_by_name: bool = True, was_there: bool = False, **extra: object
    ) -> None:
        self.absent(STACKS[0])
        if not exists_by_name:
            self.absent(NAME)
            if not was_there:
                return
        found = {"StackName": NAME, "StackId": STACK_ID, "StackStatus": status, "CreationTime": at(0)}
        asked = {"StackName": NAME if exists_by_name else STACK_ID}
        self.cloudformation.add_response("describe_stacks", {"Stacks": [found | extra]}, asked)

    def listed(self, *names: str) -> None:
        summaries = [{"StackName": n, "StackStatus": "CREATE_COMPLETE", "CreationTime": at(0)} for n in names]
        asked = {"StackStatusFilter": list(EXISTING)}
        self.cloudformation.add_response("list_stacks", {"StackSummaries": summaries}, asked)

    def events(self, *pages: list[dict[str, Any]]) -> None:
        token = None
        for i, page in enumerate(pages):
            asked = {"StackName": STACK_ID} | ({"NextToken": token} if token else {})
            token = f"t{next(self.tokens)}" if i + 1 < len(pages) else None
            answer = {"StackEvents": page} | ({"NextToken": token} if token else {})
            self.cloudformation.add_response("describe_stack_events", answer, asked)

    def no_endpoint(self, name: str) -> None:
        self.sagemaker.add_client_error(
            "describe_endpoint", "ValidationException", f'Could not find endpoint "{name}".', 400
        )

    def configurations(self, *summaries: dict[str, Any], contains: str) -> None:
        self.sagemaker.add_response(
            "list_endpoint_configs", {"EndpointConfigs": list(summaries)}, {"NameContains": contains}
        )

    def tags(self, **tags: str) -> None:
        listed = [{"Key": f"semif:{key.replace('_', '-')}", "Value": value} for key, value in tags.items()]
        self.sagemaker.add_response("list_tags", {"Tags": listed}, {"ResourceArn": CONFIG_ARN})

    def absent(self, name: str) -> None:
        self.cloudformation.add_client_error(
            "describe_stacks", "ValidationError", f"Stack with id {name} does not exist", 400
        )


@pytest.fixture
def stubs(cloudformation_client: CloudFormationClient, sagemaker_client: SageMakerClient) -> Iterator[Stubs]:
    with Stubber(cloudformation_client) as cloudformation, Stubber(sagemaker_client) as sagemaker:
        yield Stubs(StubbedAws(cloudformation_client, sagemaker_client), cloudformation, sagemaker)
        cloudformation.assert_no_pending_responses()
        sagemaker.assert_no_pending_responses()


def event(number: int, status: str, *, kind: str = STACK_TYPE, **extra: str) -> dict[str, Any]:
    own = kind == STACK_TYPE
    return {
        "StackId": STACK_ID,
        "StackName": NAME,
        "EventId": f"e{number}",
        "Timestamp": at(number),
        "LogicalResourceId": NAME if own else "Endpoint",
        "PhysicalResourceId": STACK_ID if own else "",
        "ResourceType": kind,
        "ResourceStatus": status,
    } | extra


def configuration(name: str = "mine-0a1b2c3d4e-0") -> dict[str, Any]:
    return {"EndpointConfigName": name, "EndpointConfigArn": CONFIG_ARN, "CreationTime": at(2)}


POOL_EVENT = event(
    12, "UPDATE_IN_PROGRESS", kind=POOL_TYPE, ResourceProperties=json.dumps({"EndpointName": "mine"})
)
WALK = {"endpoint": "mine", "pool": "ml.a.large", "next": "ml.b.large", "position": "1/2", "request_id": "r"}


def test_nothing_there(stubs: Stubs) -> None:
    stubs.stack("", exists_by_name=False)
    assert DeploymentReader(stubs.aws, "dev", stacks=STACKS).read().stacks == ()


def test_stacks_are_listed_again_at_once_only_while_nothing_is_under_way(stubs: Stubs) -> None:
    """The listing is for the account, so it is asked for with care."""
    moment = at(0)
    reader = DeploymentReader(stubs.aws, "dev", now=lambda: moment)
    stubs.listed("semif-dev-x-artifacts", "semif-dev-x-decisions", "other")
    assert reader.read().stacks == ()
    found = {
        "StackName": NAME,
        "StackId": STACK_ID,
        "StackStatus": "CREATE_IN_PROGRESS",
        "CreationTime": at(0),
    }
    for listing in (True, False):
        if listing:
            stubs.listed(NAME)
        stubs.cloudformation.add_response("describe_stacks", {"Stacks": [found]}, {"StackName": NAME})
        stubs.events([event(1, "CREATE_IN_PROGRESS")])
        assert [stack.name for stack in reader.read().stacks] == [NAME]
    moment = at(LIST_S)
    stubs.listed(NAME, "semif-dev-artifacts")
    stubs.absent("semif-dev-artifacts")
    stubs.cloudformation.add_response("describe_stacks", {"Stacks": [found]}, {"StackName": NAME})
    stubs.events([event(1, "CREATE_IN_PROGRESS")])
    reader.read()


def test_reads_pages_back_to_the_operation_and_then_only_what_is_new(stubs: Stubs) -> None:
    reader = DeploymentReader(stubs.aws, "dev", stacks=STACKS)
    stubs.stack("UPDATE_IN_PROGRESS")
    # The third page, with the operation before, is never asked for.
    stubs.cloudformation.add_response(
        "describe_stack_events", {"StackEvents": [POOL_EVENT], "NextToken": "t1"}, {"StackName": STACK_ID}
    )
    stubs.cloudformation.add_response(
        "describe_stack_events",
        {"StackEvents": [event(10, "UPDATE_IN_PROGRESS"), event(5, "CREATE_COMPLETE")], "NextToken": "t2"},
        {"StackName": STACK_ID, "NextToken": "t1"},
    )
    stubs.no_endpoint("mine")
    stubs.configurations(contains="mine")
    (stack,) = reader.read().stacks
    assert [e.id for e in stack.events] == ["e10", "e12"]
    assert stack.endpoint is None

    stubs.stack("UPDATE_IN_PROGRESS")
    stubs.cloudformation.add_response(
        "describe_stack_events",
        {"StackEvents": [event(14, "UPDATE_COMPLETE", kind=POOL_TYPE), POOL_EVENT], "NextToken": "t3"},
        {"StackName": STACK_ID},
    )
    stubs.no_endpoint("mine")
    stubs.configurations(contains="mine")
    (stack,) = reader.read().stacks
    assert [e.id for e in stack.events] == ["e10", "e12", "e14"]


def test_reads_endpoint_and_attempts_and_ended_tags_once(stubs: Stubs) -> None:
    reader = DeploymentReader(stubs.aws, "dev", stacks=STACKS)
    endpoint = {
        "EndpointName": "mine",
        "EndpointArn": "arn:aws:sagemaker:eu-central-1:111122223333:endpoint/mine",
        "EndpointStatus": "Creating",
        "CreationTime": at(2),
        "LastModifiedTime": at(2),
        "ProductionVariants": [
            {
                "VariantName": "AllTraffic",
                "InstancePools": [
                    {"InstanceType": "ml.a.large", "CurrentInstanceCount": 0},
                    {"InstanceType": "ml.b.large", "CurrentInstanceCount": 1},
                ],
            }
        ],
    }
    for look in range(3):
        stubs.stack("UPDATE_IN_PROGRESS")
        stubs.events([POOL_EVENT, event(10, "UPDATE_IN_PROGRESS")])
        stubs.sagemaker.add_response("describe_endpoint", endpoint, {"EndpointName": "mine"})
        stubs.configurations(configuration(), configuration("another-mine-0a1b2c3d4e-0"), contains="mine")
        if look == 0:
            stubs.tags(**WALK)
        if look == 1:
            stubs.tags(**WALK, ended_at="2026-11-30T12:09:14Z", outcome="capacity", reason="none")
        (stack,) = reader.read().stacks
        assert stack.endpoint is not None
        assert (stack.endpoint.status, stack.endpoint.serving_types) == ("Creating", ("ml.b.large",))
        assert [a.outcome for a in stack.attempts] == ["" if look == 0 else "capacity"]
    assert stack.attempts[0].seconds == 552


def test_settled_stack_is_not_read_again(stubs: Stubs) -> None:
    reader = DeploymentReader(stubs.aws, "dev", stacks=STACKS)
    outputs = [
        {"OutputKey": "EndpointName", "OutputValue": "mine"},
        {"OutputKey": "ExportsOutputRefModel", "OutputValue": "m", "ExportName": "semif-dev-decisions:Model"},
    ]
    stubs.stack("CREATE_COMPLETE", Outputs=outputs)
    stubs.events([event(5, "CREATE_COMPLETE"), event(1, "CREATE_IN_PROGRESS")])
    (first,) = reader.read().stacks
    assert first.outputs == {"EndpointName": "mine"}
    stubs.stack("CREATE_COMPLETE", Outputs=outputs)
    assert reader.read().stacks == (first,)
    # The same status after another update is another version.
    stubs.stack("CREATE_COMPLETE", LastUpdatedTime=at(9))
    stubs.events([event(9, "CREATE_COMPLETE"), event(8, "UPDATE_IN_PROGRESS"), event(5, "CREATE_COMPLETE")])
    (later,) = reader.read().stacks
    assert [e.id for e in later.events] == ["e8", "e9"]


def test_deleted_stack_is_read_by_its_id(stubs: Stubs) -> None:
    reader = DeploymentReader(stubs.aws, "dev", stacks=STACKS)
    stubs.stack("DELETE_IN_PROGRESS")
    stubs.events([event(1, "DELETE_IN_PROGRESS")])
    reader.read()
    stubs.stack("DELETE_COMPLETE", exists_by_name=False, was_there=True, DeletionTime=at(3))
    stubs.events([event(3, "DELETE_COMPLETE"), event(1, "DELETE_IN_PROGRESS")])
    (stack,) = reader.read().stacks
    assert stack.gone
    assert [e.id for e in stack.events] == ["e1", "e3"]


@pytest.mark.parametrize(
    ("code", "kind"), [("Throttling", ThrottledError), ("ExpiredToken", CredentialsExpiredError)]
)
def test_errors_of_aws(stubs: Stubs, code: str, kind: type[Exception]) -> None:
    stubs.cloudformation.add_client_error("describe_stacks", code, "no", 400)
    with pytest.raises(kind):
        DeploymentReader(stubs.aws, "dev", stacks=STACKS).read()


def test_configuration_deleted_between_list_and_tags(stubs: Stubs, sagemaker_client: SageMakerClient) -> None:
    stubs.configurations(configuration(), contains="mine")
    stubs.sagemaker.add_client_error("list_tags", "ValidationException", "Could not find it", 400)
    assert walk_attempts(sagemaker_client, "mine") == []


def test_walk_attempts_of_a_long_name(stubs: Stubs, sagemaker_client: SageMakerClient) -> None:
    name = "m" * 60
    stubs.configurations(
        configuration(f"{'m' * 40}-0a1b2c3d4e-0") | {"CreationTime": at(0) - timedelta(hours=1)},
        contains="m" * 40,
    )
    stubs.tags(**(WALK | {"endpoint": name}), ended_at="2026-11-30T12:00:00Z", outcome="in-service")
    (attempt,) = walk_attempts(sagemaker_client, name)
    assert (attempt.instance_type, attempt.outcome, attempt.seconds) == ("ml.a.large", "in-service", 3600)
