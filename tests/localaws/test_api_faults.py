"""Calls that are refused, slow or without an answer, and Service Quotas."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from localaws.api_faults import ApiFaultError, check
from localaws.session import LocalAws, LocalAwsError


@pytest.fixture
def faulty(aws: LocalAws) -> Iterator[LocalAws]:
    yield aws
    aws.put_faults({})
    aws.put_quotas({})


def refused(aws: LocalAws) -> str | None:
    try:
        aws.client("sagemaker").describe_endpoint(EndpointName="nothing")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return None


def test_the_first_calls_or_every_so_manyth_are_struck(faulty: LocalAws) -> None:
    faulty.put_faults({"api:DescribeEndpoint": {"mode": "throttle", "first": 2}})
    seen = [refused(faulty) for _ in range(3)]
    assert seen == ["ThrottlingException", "ThrottlingException", "ValidationException"]
    table: dict[str, dict[str, Any]] = {
        "api:DescribeEndpoint": {"mode": "error", "every": 2, "code": "InternalFailure", "status": 500},
        "ml.g5.xlarge": {"mode": "health"},
    }
    faulty.put_faults(table)
    assert [refused(faulty) for _ in range(4)] == ["ValidationException", "InternalFailure"] * 2
    with urllib.request.urlopen(f"{faulty.url}/_localaws/faults") as answered:  # noqa: S310
        assert json.load(answered) == table


def test_a_lost_answer_is_of_a_call_that_was_carried_out_and_a_dropped_one_is_not(faulty: LocalAws) -> None:
    sagemaker = faulty.client("sagemaker")
    for name, mode in (("lost-model", "lost"), ("dropped-model", "dropped")):
        faulty.put_faults({"api:CreateModel": {"mode": mode}})
        image = faulty.push_image(
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/faulty:1", command=["true"], bind={"port": "PORT"}
        )
        with pytest.raises(ConnectionClosedError):
            sagemaker.create_model(
                ModelName=name,
                PrimaryContainer={"Image": image},
                ExecutionRoleArn="arn:aws:iam::123456789012:role/execution",
            )
    found = sagemaker.list_models(NameContains="-model")["Models"]
    assert [model["ModelName"] for model in found if model["ModelName"] != "m"] == ["lost-model"]
    sagemaker.delete_model(ModelName="lost-model")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"mode": "lots"}, "api:X.mode: 'lots' is none of: throttle, error"),
        ({"mode": "throttle", "frist": 1}, "api:X.frist: unknown key; allowed: mode, first"),
        ({"mode": "throttle", "every": 0}, "api:X.every: 0 is not a number from 1"),
        ({"mode": "throttle", "first": 1, "every": 2}, "api:X: has first and every"),
        ({"mode": "slow", "seconds": "1"}, "api:X.seconds: '1' is not a number"),
        ("slow", "api:X: must be an object"),
    ],
)
def test_wrong_entries_are_named(entry: Any, text: str) -> None:
    with pytest.raises(ApiFaultError) as caught:
        check({"api:X": entry})
    assert text in str(caught.value)


def test_service_quotas_shows_what_is_in_force(faulty: LocalAws) -> None:
    quotas = faulty.client("service-quotas")
    faulty.put_quotas({"ml.g6e.xlarge": 2, "ml.p5.48xlarge": None})
    pages = list(quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker"))
    listed = {quota["QuotaName"]: quota for page in pages for quota in page["Quotas"]}
    assert len(pages) > 1
    wanted = listed["ml.g6e.xlarge for endpoint usage"]
    assert wanted["Value"] == 2
    assert listed["ml.g5.xlarge for endpoint usage"]["Value"] == 20
    assert "ml.p5.48xlarge for endpoint usage" not in listed
    named = {"ServiceCode": "sagemaker", "QuotaCode": wanted["QuotaCode"]}
    assert quotas.get_service_quota(**named)["Quota"]["Value"] == 2
    assert quotas.get_aws_default_service_quota(**named)["Quota"]["Value"] == 20
    asked = quotas.request_service_quota_increase(**named, DesiredValue=4)["RequestedQuota"]
    assert (asked["Status"], asked["QuotaName"]) == ("PENDING", "ml.g6e.xlarge for endpoint usage")
    with pytest.raises(quotas.exceptions.ResourceAlreadyExistsException):
        quotas.request_service_quota_increase(**named, DesiredValue=5)
    history = quotas.list_requested_service_quota_change_history(ServiceCode="sagemaker")
    assert [one["Id"] for one in history["RequestedQuotas"]] == [asked["Id"]]
    assert quotas.get_service_quota(**named)["Quota"]["Value"] == 2
    with pytest.raises(quotas.exceptions.NoSuchResourceException):
        quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode="L-00000000")
    builds = quotas.list_service_quotas(ServiceCode="codebuild")["Quotas"]
    small = "Concurrently running builds for Linux/Small environment"
    assert {quota["QuotaName"]: quota["Value"] for quota in builds}[small] == 2


def test_wrong_quotas_and_times_are_refused(faulty: LocalAws) -> None:
    with pytest.raises(LocalAwsError, match="neither null nor a whole number"):
        faulty.put_quotas({"ml.g5.xlarge": -1})
    with pytest.raises(LocalAwsError, match="unknown key; allowed: ready_s, longest_wait_s"):
        faulty.put_endpoint_times(longest_s=1)
