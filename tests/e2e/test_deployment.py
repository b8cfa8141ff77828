"""The life of an environment, in order: walk, update, failed update, destroy, exhausted pool, deploy again.

Each test goes on from what the one before has deployed, as an operator does; they are one story.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localaws.session import CdkResult, LocalAws
from semif.walk_api import walk_attempts
from stacks.example_decision import EXAMPLE_REQUEST
from tools.local_environment import LocalEnvironment, Settings, Sources, decisions
from tools.setup import MODEL_FILE, MODEL_SHA256

ROOT = Path(__file__).resolve().parents[2]
README_JSON = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDPOINT = "semif-dev-decisions"
FIRST, SECOND, THIRD = "ml.c7i.2xlarge", "ml.c6i.2xlarge", "ml.m5.2xlarge"
TYPES = (FIRST, SECOND, THIRD)
POOL = decisions(*TYPES)
UPDATED = decisions(SECOND, THIRD, max_shared_decisions=3)


@pytest.fixture(scope="module")
def environment(aws: LocalAws, ready: Sources, tmp_path_factory: pytest.TempPathFactory) -> LocalEnvironment:
    """Environment `dev` on a model and an image that are there already; its artifacts are deployed."""
    environment = LocalEnvironment(aws, "dev", tmp_path_factory.mktemp("assemblies"), ready)
    assert environment.deploy(POOL, "artifacts").returncode == 0
    return environment


def invoke(aws: LocalAws, body: Any = EXAMPLE_REQUEST) -> dict[str, Any]:
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=ENDPOINT, ContentType="application/json", Body=json.dumps(body)
    )
    return dict(json.loads(answer["Body"].read()))


def refusal(aws: LocalAws, body: Any) -> tuple[int, dict[str, Any]]:
    """Status and error of a request that the container refuses, as they reach a boto3 client."""
    with pytest.raises(ClientError) as caught:
        invoke(aws, body)
    response: Any = caught.value.response
    assert response["Error"]["Code"] == "ModelError"
    return response["OriginalStatusCode"], json.loads(response["OriginalMessage"])["error"]


def endpoint(aws: LocalAws) -> dict[str, Any] | None:
    try:
        described = dict(aws.client("sagemaker").describe_endpoint(EndpointName=ENDPOINT))
    except ClientError as error:
        if "Could not find endpoint" not in str(error):
            raise
        return None
    del described["ResponseMetadata"]
    return described


def configurations(aws: LocalAws) -> list[str]:
    listed = aws.client("sagemaker").list_endpoint_configs()["EndpointConfigs"]
    return sorted(item["EndpointConfigName"] for item in listed)


def model_names(aws: LocalAws) -> list[str]:
    return [item["ModelName"] for item in aws.client("sagemaker").list_models()["Models"]]


def buckets(aws: LocalAws) -> set[str]:
    names = {bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]}
    return {name for name in names if name.startswith("semif-dev-artifacts")}


def redeploy(environment: LocalEnvironment, settings: Settings) -> CdkResult:
    return environment.deploy(settings, "decisions", "--exclusively")


def stack_reasons(aws: LocalAws, stack: str) -> str:
    events = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return "\n".join(event.get("ResourceStatusReason", "") for event in events)


def test_the_walk_passes_two_types_and_the_endpoint_decides(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    aws.put_faults({FIRST: {"mode": "capacity", "seconds": 2}, SECOND: {"mode": "quota"}})

    result = redeploy(environment, POOL)

    assert result.returncode == 0, result.output
    outputs = environment.outputs("decisions")
    assert outputs["EndpointName"] == ENDPOINT
    assert outputs["InstanceType"] == THIRD
    assert outputs["ModelSha256"] == MODEL_SHA256
    assert outputs["Region"] == aws.region
    assert outputs["LogGroup"] == f"/aws/sagemaker/Endpoints/{ENDPOINT}"
    attempts = walk_attempts(aws.client("sagemaker"), ENDPOINT)
    # The quota's type is dropped; past the one without capacity SageMaker goes by itself.
    assert [(a.types, a.outcome, a.dropped) for a in attempts] == [
        (TYPES, "quota", SECOND),
        ((FIRST, THIRD), "in-service", ""),
    ]
    assert f"{SECOND} for endpoint usage" in attempts[0].reason
    for instance_type in TYPES:
        assert instance_type in outputs["Attempts"]

    answer = invoke(aws)["result"]

    assert answer["option_ids"] == ["account_access", "billing"]
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-9)
    assert answer["probabilities"][0] > answer["probabilities"][1]
    assert answer["model"]["gguf"] == {"file": MODEL_FILE, "sha256": MODEL_SHA256}


def test_parameters_hold_what_the_outputs_say(aws: LocalAws, environment: LocalEnvironment) -> None:
    outputs = environment.outputs("decisions")

    pages = aws.client("ssm").get_paginator("get_parameters_by_path").paginate(Path="/semif/dev/decisions")

    values = {item["Name"].rsplit("/", 1)[1]: item["Value"] for page in pages for item in page["Parameters"]}
    pool = json.loads(values.pop("pool"))
    assert list(pool["Round1"].values()) == list(TYPES)
    assert values.pop("pool-function").startswith("semif-dev-decisions")
    assert values == {
        "endpoint-name": outputs["EndpointName"],
        "endpoint-arn": outputs["EndpointArn"],
        "region": outputs["Region"],
        "model-sha256": outputs["ModelSha256"],
        "instance-type": outputs["InstanceType"],
        "round": "1 of 1",
        "attempts": outputs["Attempts"],
        "degraded": "no",
        "log-group": outputs["LogGroup"],
        "example-command": outputs["ExampleCommand"],
        "image-uri": outputs["ImageUri"],
        "model-uri": outputs["ModelUri"],
    }


def test_the_example_command_sends_a_decision_that_is_answered(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    words = shlex.split(environment.outputs("decisions")["ExampleCommand"])

    assert words[:3] == ["aws", "sagemaker-runtime", "invoke-endpoint"]
    assert words[words.index("--endpoint-name") + 1] == ENDPOINT
    answer = invoke(aws, json.loads(words[words.index("--body") + 1]))
    assert sum(answer["result"]["probabilities"]) == pytest.approx(1, abs=1e-9)


def test_the_readme_shows_what_the_endpoint_answers(aws: LocalAws) -> None:
    request, shown = (
        json.loads(block) for block in README_JSON.findall((ROOT / "README.md").read_text())[:2]
    )

    answer = invoke(aws, request)["result"]

    result = shown["result"]
    assert request == EXAMPLE_REQUEST
    assert list(answer) == list(result)
    for key in ("option_ids", "answer_token_ids", "input_tokens", "prompt_sha256", "prompt_version", "model"):
        assert answer[key] == result[key]
    # Another CPU rounds otherwise, by up to a few hundredths.
    assert answer["probabilities"] == pytest.approx(result["probabilities"], abs=0.05)


def test_a_refused_decision_reaches_the_caller_with_its_code(aws: LocalAws) -> None:
    decision = {**EXAMPLE_REQUEST["decision"], "options": EXAMPLE_REQUEST["decision"]["options"][:1]}

    status, error = refusal(aws, {"decision": decision})

    assert status == 400
    assert error["code"] == "too_few_options"
    assert error["field"] == "decision.options"
    assert error["retryable"] is False


def test_the_servers_log_is_in_cloudwatch(aws: LocalAws) -> None:
    events = aws.client("logs").filter_log_events(logGroupName=f"/aws/sagemaker/Endpoints/{ENDPOINT}")[
        "events"
    ]

    assert any(MODEL_SHA256 in event["message"] for event in events)


def test_plain_diff_sees_no_difference_after_a_deployment(environment: LocalEnvironment) -> None:
    same = environment.cdk("diff", "--fail", "dev/*", settings=POOL)
    other = environment.cdk("diff", "--fail", "dev/*", settings=UPDATED)

    assert same.returncode == 0, same.output
    assert other.returncode == 1, other.output
    assert "SEMIF_MAX_SHARED_DECISIONS" in other.output


@pytest.mark.usefixtures("all_types_available")
def test_an_update_brings_the_new_setting_and_leaves_one_generation(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    before = configurations(aws)

    result = redeploy(environment, UPDATED)

    assert result.returncode == 0, result.output
    assert environment.outputs("decisions")["InstanceType"] == SECOND
    after = configurations(aws)
    assert not set(before) & set(after)
    assert len(after) == 1
    assert len(model_names(aws)) == 1
    state = EXAMPLE_REQUEST["decision"]["state"]
    four = [{**EXAMPLE_REQUEST["decision"], "id": f"d{i}", "state": state} for i in range(4)]
    assert refusal(aws, {"decisions": four})[1]["code"] == "too_many_decisions"
    answers = invoke(aws, {"decisions": four[:3]})
    assert [result["id"] for result in answers["results"]] == ["d0", "d1", "d2"]


def test_a_deployment_without_a_change_does_nothing(aws: LocalAws, environment: LocalEnvironment) -> None:
    before = endpoint(aws)

    result = redeploy(environment, UPDATED)

    assert result.returncode == 0, result.output
    assert "no changes" in result.output
    assert endpoint(aws) == before


def test_a_failed_update_is_rolled_back_and_the_old_endpoint_serves(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    aws.put_faults({FIRST: {"mode": "health"}})
    before = endpoint(aws)
    assert before is not None

    result = redeploy(environment, decisions(FIRST, THIRD, max_shared_decisions=5))

    aws.put_faults({})
    assert result.returncode != 0
    assert environment.status("decisions") == "UPDATE_ROLLBACK_COMPLETE"
    assert "did not pass the ping health check" in stack_reasons(aws, "semif-dev-decisions")
    after = endpoint(aws)
    assert after is not None
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] == before["EndpointConfigName"]
    assert configurations(aws) == [before["EndpointConfigName"]]
    assert len(model_names(aws)) == 1
    assert environment.outputs("decisions")["InstanceType"] == SECOND
    assert sum(invoke(aws)["result"]["probabilities"]) == pytest.approx(1, abs=1e-9)


def test_destroy_leaves_nothing_but_what_is_retained(aws: LocalAws, environment: LocalEnvironment) -> None:
    kept = buckets(aws)

    environment.destroy(UPDATED)

    assert endpoint(aws) is None
    assert configurations(aws) == []
    assert model_names(aws) == []
    assert environment.status("decisions") is None
    assert environment.status("artifacts") is None
    assert buckets(aws) == kept
    assert len(kept) == 1


def test_an_exhausted_pool_is_rolled_back_and_nothing_is_left(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    assert environment.deploy(POOL, "artifacts").returncode == 0
    aws.put_faults(
        {
            FIRST: {"mode": "capacity", "seconds": 1},
            SECOND: {"mode": "quota"},
            THIRD: {"mode": "capacity", "seconds": 1},
        }
    )

    result = redeploy(environment, POOL)

    aws.put_faults({})
    assert result.returncode != 0
    assert environment.status("decisions") == "ROLLBACK_COMPLETE"
    reasons = stack_reasons(aws, "semif-dev-decisions")
    for instance_type in TYPES:
        assert instance_type in reasons
    assert endpoint(aws) is None
    assert configurations(aws) == []
    assert model_names(aws) == []


@pytest.mark.usefixtures("all_types_available")
def test_deploying_again_beside_the_retained_bucket_succeeds(
    aws: LocalAws, environment: LocalEnvironment
) -> None:
    assert len(buckets(aws)) == 2  # the first generation's, retained, and this one's

    result = redeploy(environment, POOL)

    assert result.returncode == 0, result.output
    assert environment.outputs("decisions")["InstanceType"] == FIRST
    assert sum(invoke(aws)["result"]["probabilities"]) == pytest.approx(1, abs=1e-9)
