"""`semif climb` with the real function, on the local SageMaker, Application Auto Scaling and CloudWatch."""

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from localaws.session import LocalAws

ROOT = Path(__file__).parents[2]
REGION: Final = "eu-central-1"
ACCOUNT: Final = "123456789012"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/climb:1"
NAME, ALARM = "semif-up-decisions", "semif-up-decisions-errors"
FIRST, SECOND, LAST = "ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge"
NO_CAPACITY = {FIRST: {"mode": "capacity"}, SECOND: {"mode": "capacity"}}
POOL = {
    "EndpointName": NAME,
    "VariantName": "AllTraffic",
    "ModelName": "climb-model",
    "InitialInstanceCount": "1",
    "ModelDataDownloadTimeoutInSeconds": "100",
    "ContainerStartupHealthCheckTimeoutInSeconds": "60",
    "Strategy": "native",
    "VariantInstanceProvisionTimeoutInSeconds": "300",
    "Round1": {"Type1": FIRST, "Type2": SECOND},
    "LastResort": {"Type1": LAST, "ModelName": "climb-model", "InitialInstanceCount": "1"},
    "RollbackAlarm1": ALARM,
    "Tags": {"project": "semif"},
}
VARIANT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": f"endpoint/{NAME}/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture(scope="module")
def aws() -> Iterator[LocalAws]:
    with LocalAws(region=REGION, ready_s=0.02, poll_s=0.1) as running:
        running.put_endpoint_times(longest_wait_s=0.1)
        command = [sys.executable, "-I", "-S", str(ROOT / "tests" / "faults" / "container.py")]
        running.push_image(IMAGE, command=command, bind={"port": "PORT"})
        deploy(running)
        yield running


def deploy(aws: LocalAws) -> None:
    """The endpoint on its last resort, scaled, and beside it what a deployment leaves for the command."""
    role = "arn:aws:iam::123456789012:role/execution"
    aws.client("s3").create_bucket(Bucket="climb", CreateBucketConfiguration={"LocationConstraint": REGION})
    aws.client("s3").put_object(Bucket="climb", Key="model/m.gguf", Body=b"GGUF")
    source = {"S3Uri": "s3://climb/model/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    aws.client("sagemaker").create_model(
        ModelName="climb-model",
        ExecutionRoleArn=role,
        PrimaryContainer={"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}},
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted((ROOT / "lambda" / "instance_pool").rglob("*.py")):
            archive.write(path, str(path.relative_to(ROOT / "lambda")))
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    made = aws.client("iam").create_role(RoleName="walk", AssumeRolePolicyDocument=trust)
    aws.client("lambda").create_function(
        FunctionName="walk",
        Runtime="python3.12",
        Role=made["Role"]["Arn"],
        Handler="instance_pool.handler.is_complete",
        Code={"ZipFile": packed.getvalue()},
        Timeout=120,
    )
    parameters = {"pool": json.dumps(POOL), "pool-function": "walk"}
    resources = {
        key.replace("-", ""): {
            "Type": "AWS::SSM::Parameter",
            "Properties": {"Name": f"/semif/up/decisions/{key}", "Type": "String", "Value": value},
        }
        for key, value in parameters.items()
    }
    stacks = aws.client("cloudformation")
    stack = stacks.create_stack(StackName=NAME, TemplateBody=json.dumps({"Resources": resources}))
    stacks.get_waiter("stack_create_complete").wait(
        StackName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    aws.put_faults(NO_CAPACITY)
    event = {
        "RequestType": "Create",
        "RequestId": "deployment",
        "StackId": stack["StackId"],
        "ResourceProperties": POOL,
    }
    deadline = time.monotonic() + 120
    while not (answer := invoke(aws, event))["IsComplete"]:
        assert time.monotonic() < deadline, "not within 120 s"
        time.sleep(0.2)
    assert answer["Data"]["InstanceType"] == LAST
    scaling = aws.client("application-autoscaling")
    scaling.register_scalable_target(**VARIANT, MinCapacity=1, MaxCapacity=3)
    scaling.put_scaling_policy(
        **VARIANT,
        PolicyName="by-load",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 70.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
        },
    )
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


def invoke(aws: LocalAws, event: dict[str, Any]) -> dict[str, Any]:
    answer = aws.client("lambda").invoke(FunctionName="walk", Payload=json.dumps(event))
    payload = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, payload
    assert isinstance(payload, dict)
    return payload


def climb(aws: LocalAws, *arguments: str) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, "-m", "semif", "climb", *arguments, "--interval", "0.2"],
        env=aws.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def serving(aws: LocalAws) -> str:
    endpoint = aws.client("sagemaker").describe_endpoint(EndpointName=NAME)
    assert endpoint["EndpointStatus"] == "InService"
    return str(endpoint["EndpointConfigName"])


def scaled(aws: LocalAws) -> tuple[int, list[str]]:
    scaling = aws.client("application-autoscaling")
    where = {key: VARIANT[key] for key in ("ServiceNamespace", "ResourceId")}
    targets = scaling.describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[VARIANT["ResourceId"]]
    )["ScalableTargets"]
    policies = scaling.describe_scaling_policies(**where)["ScalingPolicies"]
    return len(targets), [policy["PolicyName"] for policy in policies]


def test_a_climb_is_refused_fails_and_succeeds(aws: LocalAws) -> None:
    """One endpoint's story, in the order in which it can happen."""
    before = serving(aws)
    state = aws.client("cloudwatch").set_alarm_state
    state(AlarmName=ALARM, StateValue="ALARM", StateReason="errors")

    code, lines, errors = climb(aws, "up")
    assert (code, lines) == (4, [])
    assert errors.startswith(f"error: alarm_active: decisions: In state ALARM: {ALARM}.")
    assert (serving(aws), scaled(aws)) == (before, (1, ["by-load"]))

    state(AlarmName=ALARM, StateValue="OK", StateReason="mended")
    code, lines, errors = climb(aws, "up", "decisions")
    assert code == 1
    assert errors.startswith("error: no_capacity: decisions: No preferred type can be had now.")
    assert lines[0] == f"decisions: {FIRST} or {SECOND}, 1 of 2"
    assert lines[-1].startswith(f"decisions: {FIRST} or {SECOND} no capacity after ")
    assert (serving(aws), scaled(aws)) == (before, (1, ["by-load"]))

    aws.put_faults({FIRST: {"mode": "capacity"}})
    code, lines, errors = climb(aws, "up")
    assert (code, errors) == (0, "")
    told = f"{FIRST}: passed over by SageMaker; {SECOND}: in service"
    assert lines[-1].startswith(f"decisions: {SECOND} serves now (round 1 of 2); tried: {told}")
    assert scaled(aws) == (1, ["by-load"])

    aws.put_faults({})
    code, lines, errors = climb(aws, "up")
    assert (code, errors) == (0, "")
    assert lines[-1].startswith(f"decisions: {FIRST} serves now (round 1 of 2)")
    assert scaled(aws) == (1, ["by-load"])
    listed = aws.client("sagemaker").list_endpoint_configs(NameContains=NAME)["EndpointConfigs"]
    assert [one["EndpointConfigName"] for one in listed] == [serving(aws)]

    assert climb(aws, "up") == (
        0,
        [f"decisions: {FIRST} serves (round 1 of 2); the pool prefers nothing to it"],
        "",
    )


def test_an_unknown_endpoint_is_named_with_those_there_are(aws: LocalAws) -> None:
    code, _, errors = climb(aws, "up", "standard")

    assert code == 5
    assert errors.startswith("error: not_deployed: environment up has no endpoint standard in eu-central-1;")
    assert "it has decisions" in errors
