"""Quotas and their use, read through botocore; its service models check every answer that the test gives."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from instance_pool.aws_call import ApiError
from instance_pool.failures import Cause
from instance_pool.limits_api import MAX_ENDPOINTS, LimitsApi
from instance_pool.preflight import Limit

SESSION = boto3.Session("testing", "testing", region_name="eu-central-1")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
OWN = "semif-dev-decisions"
G6E, G6 = "ml.g6e.xlarge", "ml.g6.2xlarge"
ARN = "arn:aws:sagemaker:eu-central-1:111122223333:endpoint"


class Account:
    """Service Quotas and SageMaker as a script."""

    def __init__(self) -> None:
        quotas, sagemaker = SESSION.client("service-quotas"), SESSION.client("sagemaker")
        self.quotas, self.sagemaker = Stubber(quotas), Stubber(sagemaker)
        self.api = LimitsApi(quotas, sagemaker)
        self.log: list[Mapping[str, object]] = []

    def page(self, *quotas: tuple[str, float], token: str | None = None, after: str | None = None) -> None:
        expected: dict[str, Any] = {"ServiceCode": "sagemaker", "MaxResults": 100}
        self.quotas.add_response(
            "list_service_quotas",
            {
                "Quotas": [
                    {"QuotaName": name, "QuotaCode": f"L-{i}", "Value": v}
                    for i, (name, v) in enumerate(quotas)
                ],
                **({"NextToken": token} if token else {}),
            },
            expected | ({"NextToken": after} if after else {}),
        )

    def endpoints(self, *names: str, status: str = "InService") -> None:
        listed = [
            {
                "EndpointName": name,
                "EndpointArn": f"{ARN}/{name}",
                "CreationTime": NOW,
                "LastModifiedTime": NOW,
                "EndpointStatus": status,
            }
            for name in names
        ]
        self.sagemaker.add_response("list_endpoints", {"Endpoints": listed}, {"MaxResults": 100})

    def endpoint(self, name: str, status: str = "InService", **more: Any) -> None:
        described = {
            "EndpointName": name,
            "EndpointArn": f"{ARN}/{name}",
            "EndpointConfigName": f"{name}-configuration",
            "EndpointStatus": status,
            "CreationTime": NOW,
            "LastModifiedTime": NOW,
        }
        self.sagemaker.add_response("describe_endpoint", described | more, {"EndpointName": name})

    def no_endpoint(self, name: str) -> None:
        self.sagemaker.add_client_error(
            "describe_endpoint",
            "ValidationException",
            f'Could not find endpoint "{name}".',
            expected_params={"EndpointName": name},
        )

    def read(self, *types: str) -> Any:
        return self.api.read(types, OWN, self.log.append)


@pytest.fixture
def account() -> Iterator[Account]:
    account = Account()
    with account.quotas, account.sagemaker:
        yield account
    account.quotas.assert_no_pending_responses()
    account.sagemaker.assert_no_pending_responses()


def variant(**more: Any) -> list[dict[str, Any]]:
    return [{"VariantName": "AllTraffic", **more}]


def quota(instance_type: str, value: float) -> tuple[str, float]:
    return f"{instance_type} for endpoint usage", value


def test_quotas_and_use_of_pools_single_types_and_fleets_in_the_making(account: Account) -> None:
    account.page((f"{G6E} for training job usage", 9), quota("ml.m5.large", 8), token="two")
    account.page(quota(G6E, 5), quota(G6, 2), after="two")
    pools = [
        {"InstanceType": G6E, "CurrentInstanceCount": 1},
        {"InstanceType": G6, "CurrentInstanceCount": 0},
    ]
    account.endpoint(OWN, ProductionVariants=variant(InstancePools=pools))
    account.endpoints(OWN, "other", "new")
    account.endpoint("other", ProductionVariants=variant(CurrentInstanceCount=1, DesiredInstanceCount=2))
    account.sagemaker.add_response(
        "describe_endpoint_config",
        {
            "EndpointConfigName": "other-configuration",
            "EndpointConfigArn": f"{ARN}-config/other-configuration",
            "ProductionVariants": [{"VariantName": "AllTraffic", "ModelName": "m", "InstanceType": G6}],
            "CreationTime": NOW,
        },
        {"EndpointConfigName": "other-configuration"},
    )
    account.endpoint(
        "new",
        "Creating",
        PendingDeploymentSummary={
            "EndpointConfigName": "new-1",
            "ProductionVariants": variant(InstanceType=G6E, DesiredInstanceCount=3),
        },
    )

    limits = account.read(G6E, G6)

    assert limits == {
        G6E: Limit(f"{G6E} for endpoint usage", "L-0", 5, in_use=4, own=1),
        G6: Limit(f"{G6} for endpoint usage", "L-1", 2, in_use=2, own=0),
    }


def test_type_without_a_quota_is_absent(account: Account) -> None:
    account.page(quota(G6E, 1))
    account.no_endpoint(OWN)
    account.endpoints()

    assert set(account.read(G6E, G6)) == {G6E}


def test_endpoints_without_instances_are_not_described(account: Account) -> None:
    account.page(quota(G6E, 1))
    account.no_endpoint(OWN)
    account.endpoints("failed", status="Failed")

    assert account.read(G6E)[G6E].in_use == 0


def test_too_many_endpoints_are_not_counted(account: Account) -> None:
    account.page(quota(G6E, 3))
    account.no_endpoint(OWN)
    account.endpoints(*(f"e{n}" for n in range(MAX_ENDPOINTS + 1)))

    assert account.read(G6E)[G6E].in_use is None
    assert account.log[-1]["step"] == "UseNotCounted"


@pytest.mark.parametrize("code", ["AccessDeniedException", "NoSuchResourceException"])
def test_a_listing_that_is_not_to_be_had_is_logged(account: Account, code: str) -> None:
    account.quotas.add_client_error("list_service_quotas", code, "no", 400)

    assert account.read(G6E) is None
    assert account.log == [{"step": "NoPreflight", "reason": f"list_service_quotas: {code}: no"}]


def test_a_listing_that_names_no_type_rules_nothing_out(account: Account) -> None:
    account.page(("Number of notebook instances", 20))

    assert account.read(G6E) is None


def test_a_throttle_is_for_the_next_poll(account: Account) -> None:
    account.quotas.add_client_error("list_service_quotas", "TooManyRequestsException", "slow down", 429)

    with pytest.raises(ApiError) as raised:
        account.read(G6E)

    assert raised.value.cause is Cause.TRANSIENT


def test_use_that_may_not_be_read_leaves_the_quotas(account: Account) -> None:
    account.page(quota(G6E, 1))
    account.no_endpoint(OWN)
    account.sagemaker.add_client_error("list_endpoints", "AccessDeniedException", "no")

    assert account.read(G6E)[G6E] == Limit(f"{G6E} for endpoint usage", "L-0", 1, in_use=None, own=0)
