"""The standard container in service: boto3 and the official openai client against a real llama-server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from botocore.exceptions import ClientError

from localaws.session import LocalAws
from tests.localaws.hosted_llama import PREFIX, bearer_token, create_endpoint, put_model, wait_in_service
from tools.setup import MODEL_FILE

NAME = "llama-standard"
BUCKET = "llama-standard-models"
LOCAL = {"AccessKeyId": "local", "SecretAccessKey": "local"}
QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Say one word."}],
    "max_tokens": 6,
    "temperature": 0,
}


@pytest.fixture(scope="module")
def serving(aws: LocalAws) -> Iterator[LocalAws]:
    environment = {
        "SM_LLAMA_CPP_MODEL": f"/opt/ml/model/{MODEL_FILE}",
        "SM_LLAMA_CPP_CTX_SIZE": "1024",
        "SM_LLAMA_CPP_PARALLEL": "2",
        "SM_LLAMA_CPP_N_GPU_LAYERS": "0",
        "SM_LLAMA_CPP_ALIAS": "small",
        "SM_LLAMA_CPP_JINJA": "true",
    }
    create_endpoint(aws, NAME, put_model(aws, BUCKET), environment)
    wait_in_service(aws, NAME)
    yield aws
    aws.client("sagemaker").delete_endpoint(EndpointName=NAME)


def chat(aws: LocalAws, token: str, name: str = NAME) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{aws.url}/endpoints/{name}/openai/v1", api_key=token, max_retries=0)


def test_a_chat_by_boto3(serving: LocalAws) -> None:
    answer = serving.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=NAME, ContentType="application/json", Body=json.dumps(QUESTION)
    )
    body = json.load(answer["Body"])
    assert answer["ContentType"].startswith("application/json")
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    assert body["model"] == "small"
    assert body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] <= 6


def test_a_stream_by_boto3_is_the_same_answer_in_pieces(serving: LocalAws) -> None:
    runtime = serving.client("sagemaker-runtime")
    whole = json.load(runtime.invoke_endpoint(EndpointName=NAME, Body=json.dumps(QUESTION))["Body"])
    answer = runtime.invoke_endpoint_with_response_stream(
        EndpointName=NAME, ContentType="application/json", Body=json.dumps({**QUESTION, "stream": True})
    )
    assert answer["ContentType"] == "text/event-stream"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    pieces = [event["PayloadPart"]["Bytes"] for event in answer["Body"]]
    assert len(pieces) > 3
    lines = b"".join(pieces).decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    deltas = [json.loads(line.removeprefix("data: "))["choices"][0]["delta"] for line in lines[:-2]]
    said = "".join(delta.get("content") or "" for delta in deltas)
    assert said == whole["choices"][0]["message"]["content"]


def test_what_llama_server_refuses_is_a_model_error_of_both_operations(serving: LocalAws) -> None:
    runtime = serving.client("sagemaker-runtime")
    for operation in (runtime.invoke_endpoint, runtime.invoke_endpoint_with_response_stream):
        with pytest.raises(runtime.exceptions.ModelError) as caught:
            operation(EndpointName=NAME, ContentType="application/json", Body=b"{}")
        assert caught.value.response["OriginalStatusCode"] == 400
        assert "messages" in caught.value.response["OriginalMessage"]


def test_streams_of_an_endpoint_that_is_not_there(serving: LocalAws) -> None:
    with pytest.raises(
        ClientError, match=r"ValidationError.*Endpoint nope of account 123456789012 not found"
    ):
        serving.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
            EndpointName="nope", Body=b"{}"
        )


def test_the_openai_client_answers_whole_and_streamed(serving: LocalAws) -> None:
    client = chat(serving, bearer_token(LOCAL))
    messages: Any = QUESTION["messages"]
    whole = client.chat.completions.create(model="", messages=messages, max_tokens=6, temperature=0)
    assert whole.choices[0].message.content
    pieces = client.chat.completions.create(
        model="", messages=messages, max_tokens=6, temperature=0, stream=True
    )
    said = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert said == whole.choices[0].message.content


def test_a_stream_that_its_caller_leaves_frees_the_server(serving: LocalAws) -> None:
    body = {**QUESTION, "max_tokens": 900, "stream": True, "ignore_eos": True}
    runtime = serving.client("sagemaker-runtime")
    for _ in range(2):  # as many as there are slots
        answer = runtime.invoke_endpoint_with_response_stream(EndpointName=NAME, Body=json.dumps(body))
        next(iter(answer["Body"]))
        answer["Body"].close()
    again = runtime.invoke_endpoint(EndpointName=NAME, Body=json.dumps(QUESTION))
    assert json.load(again["Body"])["choices"]


def test_an_error_of_the_container_reaches_the_openai_client_as_it_is(serving: LocalAws) -> None:
    unknown: Any = {"type": "no such format"}
    with pytest.raises(openai.BadRequestError, match="no such format") as caught:
        chat(serving, bearer_token(LOCAL)).chat.completions.create(
            model="", messages=QUESTION["messages"], response_format=unknown
        )
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    ("token", "status", "said"),
    [
        ("sk-mine", 401, "sagemaker-api-key-"),
        ("sagemaker-api-key-%%%", 401, "base64"),
        (bearer_token(LOCAL, service="bedrock"), 403, "not made for Amazon SageMaker"),
        (bearer_token(LOCAL, action="GetCallerIdentity"), 403, "not made for Amazon SageMaker"),
        (bearer_token(LOCAL, expires_s=50_000), 403, "lifetime"),
    ],
)
def test_a_bad_token_is_refused(serving: LocalAws, token: str, status: int, said: str) -> None:
    with pytest.raises(openai.APIStatusError, match=said) as caught:
        chat(serving, token).chat.completions.create(model="", messages=QUESTION["messages"])
    assert caught.value.status_code == status


def test_a_token_that_somebody_else_signed_is_refused(serving: LocalAws) -> None:
    role = "arn:aws:iam::123456789012:role/nobody"
    granted = serving.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    messages: Any = QUESTION["messages"]
    with pytest.raises(openai.PermissionDeniedError, match="signature does not match"):
        chat(serving, bearer_token({**granted, "SecretAccessKey": "guessed"})).chat.completions.create(
            model="", messages=messages, max_tokens=1
        )
    good = chat(serving, bearer_token(granted)).chat.completions.create(
        model="", messages=messages, max_tokens=1
    )
    assert good.choices


def test_the_openai_path_has_chat_completions_alone(serving: LocalAws) -> None:
    client = chat(serving, bearer_token(LOCAL))
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="", input="x")
    with pytest.raises(openai.BadRequestError, match="Endpoint nope of account"):
        chat(serving, bearer_token(LOCAL), "nope").chat.completions.create(
            model="",
            messages=QUESTION["messages"],
        )
    path = f"{serving.url}/endpoints/{NAME}/openai/v1/chat/completions"
    assert httpx.post(path, json=QUESTION).status_code == 401


def test_a_wrong_flag_is_a_slow_ping_failure_with_the_reason_in_the_log(serving: LocalAws) -> None:
    environment = {"SM_LLAMA_CPP_MODEL": f"/opt/ml/model/{MODEL_FILE}", "SM_LLAMA_CPP_NO_SUCH": "1"}
    create_endpoint(serving, "llama-broken", f"s3://{BUCKET}/{PREFIX}", environment, startup_s=60)
    logs = serving.client("logs")
    deadline = time.monotonic() + 60
    said = ""
    while "invalid argument: --no-such" not in said:
        assert time.monotonic() < deadline, said
        time.sleep(0.3)
        found = logs.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/Endpoints/llama-broken")[
            "logGroups"
        ]
        if found:
            events = logs.filter_log_events(logGroupName=found[0]["logGroupName"])["events"]
            said = "\n".join(event["message"] for event in events)
    # nginx answers on, so the endpoint is still being created: no crash tells.
    described = serving.client("sagemaker").describe_endpoint(EndpointName="llama-broken")
    assert described["EndpointStatus"] == "Creating"
