"""Both endpoints of an environment: on a last resort, asked in every way, climbed, retagged, updated.

Each test goes on from what the one before has deployed. There are three deployments of both at once.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import openai
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from localaws.session import LocalAws
from stacks.example_decision import EXAMPLE_REQUEST
from tools.local_environment import ACCOUNT, LocalEnvironment, Settings, Sources
from tools.setup import ROOT

NAME = "both"
GPU, CPU, OTHER_CPU = "ml.g5.2xlarge", "ml.c6i.2xlarge", "ml.m5.2xlarge"
DECISIONS, STANDARD = f"semif-{NAME}-decisions", f"semif-{NAME}-standard"
CALLER, EXTERNAL_ID = "222222222222", "shop-desk-7"
QUESTION = {"role": "user", "content": "Say hello."}
PLAIN: dict[str, Any] = {"messages": [QUESTION], "max_tokens": 8, "temperature": 0}


def wanted(**changed: Any) -> Settings:
    """The environment; `changed` are settings of the decision endpoint, and `tags`."""
    tags = changed.pop("tags", {"team": "desk"})
    return {
        "tags": tags,
        "protect": False,
        "endpoints": {
            "decisions": {
                "pool": [CPU, OTHER_CPU],
                "callers": {"principals": [CALLER], "external_id": EXTERNAL_ID},
                **changed,
            },
            "standard": {
                "engine": "llama-cpp",
                "pool": [GPU],
                "context_tokens": 2048 if not changed else 1024,
                "last_resort": {"pool": [CPU], "context_tokens": 1024},
            },
        },
    }


FIRST = wanted()
RETAGGED = wanted(tags={"team": "fraud"})
REORDERED = wanted(tags={"team": "fraud"}, pool=[OTHER_CPU, CPU], update="recreate")


@pytest.fixture(scope="module")
def environment(
    aws: LocalAws, ready: Sources, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalEnvironment]:
    """Both endpoints in service, the standard one on its last resort: its GPU type cannot be had."""
    environment = LocalEnvironment(aws, NAME, tmp_path_factory.mktemp("both"), ready)
    aws.put_faults({GPU: {"mode": "capacity", "seconds": 1}})
    result = environment.deploy(FIRST, "*", "--concurrency", "3")
    aws.put_faults({})
    assert result.returncode == 0, result.output
    yield environment
    aws.put_faults({})
    aws.put_quotas({})


def described(aws: LocalAws, endpoint: str) -> dict[str, Any]:
    return dict(aws.client("sagemaker").describe_endpoint(EndpointName=endpoint))


def events(aws: LocalAws, group: str) -> list[str]:
    found = aws.client("logs").filter_log_events(logGroupName=group)["events"]
    return [event["message"] for event in found]


def chat(client: Any, endpoint: str = STANDARD) -> dict[str, Any]:
    answer = client.invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(PLAIN)
    )
    return dict(json.loads(answer["Body"].read()))


def decide(client: Any, endpoint: str = DECISIONS) -> dict[str, Any]:
    answer = client.invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(EXAMPLE_REQUEST)
    )
    return dict(json.loads(answer["Body"].read())["result"])


def degraded(aws: LocalAws, endpoint: str) -> list[int]:
    """What the walk has told CloudWatch of an endpoint, in its log's metric lines, oldest first."""
    groups = aws.client("logs").describe_log_groups()["logGroups"]
    names = [group["logGroupName"] for group in groups if STANDARD in group["logGroupName"]]
    lines = [line for name in names if not name.startswith("/aws/sagemaker") for line in events(aws, name)]
    metrics = [json.loads(line) for line in lines if line.startswith("{") and '"_aws"' in line]
    for metric in metrics:
        (directive,) = metric["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "SemIf"
        assert directive["Dimensions"] == [["EndpointName"]]
        assert [item["Name"] for item in directive["Metrics"]] == ["Degraded"]
    return [metric["Degraded"] for metric in metrics if metric["EndpointName"] == endpoint]


def test_a_last_resort_that_wins_says_degraded_in_output_metric_and_alarm(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    standard, decisions = environment.outputs("standard"), environment.outputs("decisions")

    assert standard["InstanceType"] == CPU
    assert standard["Degraded"].startswith("DEGRADED")
    assert "InsufficientInstanceCapacity" in standard["Attempts"] or GPU in standard["Attempts"]
    assert decisions["Degraded"] == "no"
    assert decisions["InstanceType"] == CPU
    assert degraded(aws, STANDARD) == [1]
    (alarm,) = aws.client("cloudwatch").describe_alarms(AlarmNames=[f"{STANDARD}-degraded"])["MetricAlarms"]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("SemIf", "Degraded")
    assert alarm["Dimensions"] == [{"Name": "EndpointName", "Value": STANDARD}]


def test_boto3_chats_with_the_standard_endpoint_and_decides_by_the_other(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    runtime = aws.client("sagemaker-runtime")

    completion = chat(runtime)

    assert completion["choices"][0]["message"]["role"] == "assistant"
    assert completion["choices"][0]["message"]["content"]
    assert completion["usage"]["completion_tokens"] <= 8
    assert sum(decide(runtime)["probabilities"]) == pytest.approx(1, abs=1e-9)


def test_boto3_streams_a_chat(aws: LocalAws, environment: LocalEnvironment) -> None:
    whole = chat(aws.client("sagemaker-runtime"))["choices"][0]["message"]["content"]

    answer = aws.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName=STANDARD, ContentType="application/json", Body=json.dumps({**PLAIN, "stream": True})
    )

    parts = [event["PayloadPart"]["Bytes"] for event in answer["Body"]]
    assert len(parts) > 1
    lines = [line for line in b"".join(parts).decode().split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    deltas = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]]
    assert "".join(deltas) == whole


def bearer_token(credentials: Credentials, region: str) -> str:
    """A token as AWS's token generator makes it: a presigned call, in base64."""
    request = AWSRequest("POST", "https://sagemaker.amazonaws.com/?Action=CallWithBearerToken")
    SigV4QueryAuth(credentials, "sagemaker", region, expires=900).add_auth(request)
    presigned = f"{request.url}&Version=1".removeprefix("https://")
    return f"sagemaker-api-key-{base64.b64encode(presigned.encode()).decode()}"


def test_the_openai_client_chats_through_the_runtime(aws: LocalAws, environment: LocalEnvironment) -> None:
    token = bearer_token(Credentials("local", "local"), aws.region)
    url = f"{aws.url}/endpoints/{STANDARD}/openai/v1"
    with openai.OpenAI(base_url=url, api_key=token, max_retries=0) as client:
        completion = client.chat.completions.create(
            model="", messages=[{"role": "user", "content": QUESTION["content"]}], max_tokens=8, temperature=0
        )
        stream = client.chat.completions.create(
            model="",
            messages=[{"role": "user", "content": QUESTION["content"]}],
            max_tokens=8,
            temperature=0,
            stream=True,
        )
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    assert completion.choices[0].message.content
    assert streamed == completion.choices[0].message.content


def as_caller(aws: LocalAws, role_arn: str, **parameters: str) -> Any:
    """The runtime's client of someone in another account who has assumed the role."""
    assumed = aws.client("sts", account=CALLER).assume_role(
        RoleArn=role_arn, RoleSessionName="desk", **parameters
    )["Credentials"]
    return boto3.client(
        "sagemaker-runtime",
        region_name=aws.region,
        endpoint_url=aws.url,
        aws_access_key_id=assumed["AccessKeyId"],
        aws_secret_access_key=assumed["SecretAccessKey"],
        aws_session_token=assumed["SessionToken"],
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_a_caller_of_another_account_may_invoke_this_endpoint_and_no_other(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    role = environment.outputs("decisions")["InvokeRoleArn"]
    assert f":{ACCOUNT}:" in role

    client = as_caller(aws, role, ExternalId=EXTERNAL_ID)

    assert sum(decide(client)["probabilities"]) == pytest.approx(1, abs=1e-9)
    with pytest.raises(ClientError, match="AccessDenied") as other:
        chat(client, STANDARD)
    assert "sagemaker:InvokeEndpoint" in str(other.value)
    for parameters in ({}, {"ExternalId": "another"}):
        with pytest.raises(ClientError, match="AccessDenied"):
            as_caller(aws, role, **parameters)


def test_a_climb_brings_the_preferred_type_back(aws: LocalAws, environment: LocalEnvironment) -> None:
    before = described(aws, DECISIONS)["EndpointConfigName"]

    done = subprocess.run(
        [sys.executable, "-m", "semif", "climb", NAME, "--interval", "1", "--region", aws.region],
        env=aws.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (variant,) = described(aws, STANDARD)["ProductionVariants"]
    serving = [one["InstanceType"] for one in variant["InstancePools"] if one["CurrentInstanceCount"]]
    assert serving == [GPU]
    assert degraded(aws, STANDARD)[-1] == 0
    assert chat(aws.client("sagemaker-runtime"))["choices"][0]["message"]["content"]
    assert described(aws, DECISIONS)["EndpointConfigName"] == before


def test_new_tags_reach_the_endpoints_without_a_new_fleet(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    before = {name: described(aws, name)["EndpointConfigName"] for name in (DECISIONS, STANDARD)}

    result = environment.deploy(RETAGGED, "*", "--concurrency", "3")

    assert result.returncode == 0, result.output
    for name in (DECISIONS, STANDARD):
        endpoint = described(aws, name)
        assert endpoint["EndpointConfigName"] == before[name]
        tags = aws.client("sagemaker").list_tags(ResourceArn=endpoint["EndpointArn"])["Tags"]
        assert {"Key": "team", "Value": "fraud"} in tags


def test_diff_shows_a_reorder_as_one(environment: LocalEnvironment) -> None:
    shown = environment.cdk("diff", f"{NAME}/decisions", settings=REORDERED).output

    # After it come the parameters that are known only once the endpoint serves.
    resource = shown.partition("Custom::InstancePoolEndpoint")[2].partition("AWS::SSM::Parameter")[0]
    changes = [line.strip(" │├└─") for line in resource.splitlines()]
    assert [line for line in changes if CPU in line or OTHER_CPU in line] == [
        f"[-] {CPU}",
        f"[+] {OTHER_CPU}",
        f"[-] {OTHER_CPU}",
        f"[+] {CPU}",
    ]
    assert "replace" not in resource


def test_recreate_works_with_a_quota_of_one_and_a_silent_rollback_fails_the_other_update(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    served = described(aws, STANDARD)["EndpointConfigName"]
    made = described(aws, DECISIONS)["CreationTime"]
    aws.put_quotas({OTHER_CPU: 0, CPU: 1, GPU: 4})
    aws.put_faults({GPU: {"mode": "silent-rollback", "seconds": 1}})

    result = environment.deploy(REORDERED, "*", "--concurrency", "3")

    assert result.returncode != 0
    environment.settle("decisions")
    environment.settle("standard")
    assert environment.status("decisions") == "UPDATE_COMPLETE"
    assert environment.outputs("decisions")["InstanceType"] == CPU
    assert f"{OTHER_CPU}: skipped, quota" in environment.outputs("decisions")["Attempts"]
    assert described(aws, DECISIONS)["CreationTime"] > made
    assert sum(decide(aws.client("sagemaker-runtime"))["probabilities"]) == pytest.approx(1, abs=1e-9)
    assert environment.status("standard") == "UPDATE_ROLLBACK_COMPLETE"
    failed = aws.client("cloudformation").describe_stack_events(StackName=STANDARD)["StackEvents"]
    assert any("update_rolled_back" in event.get("ResourceStatusReason", "") for event in failed)
    assert described(aws, STANDARD)["EndpointConfigName"] == served
    assert chat(aws.client("sagemaker-runtime"))["choices"][0]["message"]["content"]


def test_destroy_leaves_no_endpoint_and_no_configuration(
    aws: LocalAws, environment: LocalEnvironment, tmp_path: Path
) -> None:
    environment.destroy(REORDERED)

    sagemaker = aws.client("sagemaker")
    names = [item["EndpointName"] for item in sagemaker.list_endpoints()["Endpoints"]]
    names += [item["EndpointConfigName"] for item in sagemaker.list_endpoint_configs()["EndpointConfigs"]]
    assert [name for name in names if name.startswith(f"semif-{NAME}-")] == []
