"""InvokeEndpoint through boto3 to a real container."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localaws.protocol import Scope

SCOPE = Scope("123456789012", "eu-central-1")
SEE = (
    " See https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logEventViewer:"
    "group=/aws/sagemaker/Endpoints/e in account 123456789012 for more information."
)


@pytest.fixture
def serving(lab: Any) -> Any:
    lab.model()
    lab.config()
    assert lab.endpoint()["EndpointStatus"] == "InService"
    return lab


def model_error(lab: Any, body: dict[str, Any]) -> dict[str, Any]:
    client = lab.client("sagemaker-runtime")
    with pytest.raises(client.exceptions.ModelError) as caught:
        lab.invoke(body=body)
    response: dict[str, Any] = caught.value.response
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    return response


def test_the_body_and_the_headers_that_sagemaker_passes_on_arrive(serving: Any) -> None:
    answer = serving.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="e",
        ContentType="text/csv",
        Accept="application/json",
        CustomAttributes="a=1",
        InferenceId="id-1",
        Body=b"\x00\xffx",
    )
    seen = json.load(answer["Body"])
    assert seen["body"] == "\x00\xffx"
    assert seen["path"] == "/invocations"
    headers = seen["headers"]
    assert headers["content-type"] == "text/csv"
    assert headers["accept"] == "application/json"
    assert headers["x-amzn-sagemaker-custom-attributes"] == "a=1"
    assert headers["x-amzn-sagemaker-inference-id"] == "id-1"
    assert headers["content-length"] == "3"
    assert not {"authorization", "x-amz-date", "user-agent", "x-amz-security-token"} & set(headers)
    assert answer["ContentType"] == "application/json"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    assert answer["CustomAttributes"] == "trace=1"
    returned = answer["ResponseMetadata"]["HTTPHeaders"]
    assert "retry-after" not in returned
    assert "x-internal" not in returned


def test_a_client_error_of_the_container(serving: Any) -> None:
    body = '{"error": {"code": "empty_state"}}'
    response = model_error(serving, {"status": 400, "answer": body})
    assert response["OriginalStatusCode"] == 400
    assert response["OriginalMessage"] == body
    assert response["LogStreamArn"] == (
        "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/sagemaker/Endpoints/e"
    )
    said = f'Received client error (400) from primary with message "{body}".{SEE}'
    assert response["Error"]["Message"] == said
    assert response["Error"]["Code"] == "ModelError"


def test_a_server_error_without_a_short_body(serving: Any) -> None:
    said = f"Received server error (500) from primary and could not load the entire response body.{SEE}"
    bodies: list[dict[str, Any]] = [
        {"status": 500, "answer": ""},
        {"status": 500, "answer": "x", "times": 5000},
    ]
    for body in bodies:
        response = model_error(serving, body)
        assert response["Error"]["Message"] == said
        assert response["OriginalStatusCode"] == 500
        assert response["OriginalMessage"] == body["answer"] * body.get("times", 1)


def test_retry_after_is_dropped_from_a_429_too(serving: Any) -> None:
    response = model_error(serving, {"status": 429, "answer": "busy"})
    assert response["OriginalStatusCode"] == 429
    assert "retry-after" not in response["ResponseMetadata"]["HTTPHeaders"]


@pytest.mark.parametrize("lab", [1.0], indirect=True)
@pytest.mark.parametrize("body", [{"sleep": 30}, {"drip": 150}])
def test_a_container_that_takes_too_long(serving: Any, body: dict[str, Any]) -> None:
    started = time.monotonic()
    response = model_error(serving, body)
    assert 1.0 <= time.monotonic() - started < 30
    timed_out = (
        "Your invocation timed out while waiting for a response from container primary. Review the latency"
        " metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
    )
    assert response["Error"]["Message"] == (
        f'Received server error (0) from primary with message "{timed_out}".{SEE}'
    )
    assert response["OriginalStatusCode"] == 0


def test_an_endpoint_that_is_not_there(lab: Any) -> None:
    client = lab.client("sagemaker-runtime")
    with pytest.raises(client.exceptions.ValidationError) as caught:
        lab.invoke("nope")
    assert caught.value.response["Error"]["Message"] == "Endpoint nope of account 123456789012 not found."


def test_an_endpoint_that_is_being_created(lab: Any) -> None:
    lab.model()
    lab.config()
    lab.backend.put_faults({"ml.c6i.2xlarge": {"mode": "slow", "seconds": 60}})
    lab.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    with pytest.raises(
        ClientError, match=r"\(ValidationError\).*Endpoint e of account 123456789012 is not in"
    ):
        lab.invoke()


def test_a_body_over_the_limit_never_reaches_the_container(serving: Any) -> None:
    body = b"x" * (25 * 1024 * 1024 + 1)
    status, headers, answer = serving.backend.invoke_endpoint(SCOPE, "e", {}, body)
    assert status == 413
    assert "26214400 bytes" in json.loads(answer)["Message"]
    assert headers["x-amzn-ErrorType"]
    status, _, _ = serving.backend.invoke_endpoint(SCOPE, "e", {"content-type": "text/csv"}, body[:-1])
    assert status == 200


def test_headers_match_without_regard_to_case(serving: Any) -> None:
    given = {"CONTENT-TYPE": "text/csv", "authorization": "AWS4", "x-amzn-sagemaker-inference-id": "i"}
    _, _, answer = serving.backend.invoke_endpoint(SCOPE, "E", given, b"")
    headers = json.loads(answer)["headers"]
    assert headers["content-type"] == "text/csv"
    assert headers["x-amzn-sagemaker-inference-id"] == "i"
    assert "authorization" not in headers


def test_a_process_that_died_in_service_is_unavailable_for_the_caller(serving: Any) -> None:
    with pytest.raises(ClientError, match="ServiceUnavailable"):
        serving.invoke(body={"die": True})
