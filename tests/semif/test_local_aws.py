"""The operator's commands against the local AWS: stacks, endpoints and tags by the real protocols."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from localaws.session import LocalAws
from semif.archive import read_archive, upload
from semif.aws import Aws, open_aws
from semif.builds_api import BuildReader
from semif.deployment import BuildRun, Run
from semif.deployment_api import DeploymentReader
from semif.walk_api import walk_attempts

REGION: Final = "eu-central-1"
IMAGE = f"123456789012.dkr.ecr.{REGION}.amazonaws.com/contract:1"
ROLE = "arn:aws:iam::123456789012:role/execution"


@pytest.fixture(scope="module")
def aws() -> Iterator[LocalAws]:
    with LocalAws(region=REGION, ready_s=0.2, poll_s=0.2) as running:
        yield running


@pytest.fixture
def session(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Aws:
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
    return open_aws(region=REGION, profile=None)


def semif(aws: LocalAws, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "semif", *arguments],
        env={**aws.environment, "COLUMNS": "60", "TZ": "UTC"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[str], str]:
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    return process.returncode, out.splitlines(), err


def template(value: str, kind: str = "String") -> str:
    """A stack of one SSM parameter, with its value as the output."""
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": kind, "Value": value}}
    output = {"Value": {"Fn::GetAtt": ["Parameter", "Value"]}}
    return json.dumps({"Resources": {"Parameter": parameter}, "Outputs": {"TheValue": output}})


def create(aws: LocalAws, name: str, body: str) -> None:
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(StackName=name, TemplateBody=body)
    _until(lambda: not _status(cloudformation, name).endswith("_IN_PROGRESS"))


def test_watch_follows_a_deployment_and_then_knows_the_last_result(aws: LocalAws) -> None:
    watching = semif(aws, "watch", "one", "--interval", "0.2", "--settle", "0.5")
    assert watching.stdout is not None
    first = watching.stdout.readline()
    assert "one has no endpoint's stack yet in eu-central-1; waiting for one, " in first
    create(aws, "semif-one-artifacts", template("1"))
    create(aws, "semif-one-decisions", template("2"))
    code, lines, errors = ended(watching)
    assert (code, errors) == (0, "")
    said = [line[9:] for line in lines]
    for name in ("artifacts", "decisions"):
        assert said.count(f"semif-one-{name} CREATE_IN_PROGRESS") == 1
    assert lines[-4:] == [
        "semif-one-artifacts CREATE_COMPLETE",
        "  TheValue  1",
        "semif-one-decisions CREATE_COMPLETE",
        "  TheValue  2",
    ]
    code, lines, _ = ended(semif(aws, "watch", "one"))
    assert code == 0
    assert lines[0] == "nothing is under way in one (eu-central-1); the last result:"
    assert "  TheValue  2" in lines


def test_watch_tells_the_cause_of_a_failed_create(aws: LocalAws) -> None:
    create(aws, "semif-two-decisions", template("1", kind="NoSuchType"))
    code, lines, errors = ended(semif(aws, "watch", "two"))
    assert (code, errors) == (1, "")
    assert lines[1] == "semif-two-decisions failed: ROLLBACK_COMPLETE"
    assert lines[2].startswith("cause: Parameter AWS::SSM::Parameter CREATE_FAILED: ")
    assert len(lines[2]) > len("cause: Parameter AWS::SSM::Parameter CREATE_FAILED: ")


def test_watch_gives_up_waiting(aws: LocalAws) -> None:
    code, lines, _ = ended(semif(aws, "watch", "nobody", "--wait", "0.5", "--interval", "0.2"))
    assert code == 1
    assert lines[-2].startswith("nobody has no endpoint's stack in eu-central-1")


def test_ctrl_c_stops_watching_only(aws: LocalAws) -> None:
    watching = semif(aws, "watch", "later", "--interval", "0.2")
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    code, lines, errors = ended(watching)
    assert (code, errors) == (130, "")
    assert lines == ["stopped watching; the deployment goes on (semif watch later follows it again)"]


def test_deleted_stack_is_still_read(aws: LocalAws, session: Aws) -> None:
    create(aws, "semif-three-decisions", template("1"))
    reader = DeploymentReader(session, "three")
    assert [stack.status for stack in reader.read().stacks] == ["CREATE_COMPLETE"]
    aws.client("cloudformation").delete_stack(StackName="semif-three-decisions")
    _until(lambda: reader.read().stacks[0].gone)
    (stack,) = reader.read().stacks
    own = [event.status for event in stack.events if event.physical_id == stack.id]
    assert own == ["DELETE_IN_PROGRESS", "DELETE_COMPLETE"]


def test_decisions_of_an_endpoint_and_the_walk_of_its_tags(
    aws: LocalAws, session: Aws, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    session.s3().create_bucket(Bucket="archive", CreateBucketConfiguration={"LocationConstraint": REGION})
    uri = upload(session.s3(), "archive", read_archive(tmp_path))
    assert uri == f"s3://archive/models/{hashlib.sha256(b'GGUF').hexdigest()}/"
    program = Path(__file__).with_name("contract_server.py")
    aws.push_image(
        IMAGE,
        command=[sys.executable, str(program)],
        bind={"host": "CONTRACT_HOST", "port": "CONTRACT_PORT"},
    )
    _deploy_endpoint(aws.client("sagemaker"), uri)
    aws.client("ssm").put_parameter(
        Name="/semif/four/decisions/endpoint-name", Value="semif-four-decisions", Type="String"
    )

    flags = ["--state", "s", "--question", "q", "--option", "a=x", "--option", "b=yyy"]
    for target in (["--env", "four"], ["--endpoint", "semif-four-decisions"]):
        code, lines, errors = ended(semif(aws, "decide", *flags, *target))
        assert (code, errors) == (0, "")
        assert [line.split()[:2] for line in lines] == [
            ["decision:", "b"],
            ["a", "0.250000"],
            ["b", "0.750000"],
        ]
    both = tmp_path / "both.json"
    both.write_text('{"decision": {}, "decisions": []}')
    code, _, errors = ended(semif(aws, "decide", str(both), "--env", "four"))
    assert code == 3
    assert errors.startswith("error: invalid_request (decision): give exactly one")
    code, _, errors = ended(semif(aws, "decide", *flags, "--endpoint", "semif-none"))
    assert code == 5
    assert "semif-none" in errors

    attempts = walk_attempts(session.sagemaker(), "semif-four-decisions")
    assert [(a.instance_type, a.outcome, a.reason, a.seconds) for a in attempts] == [
        ("ml.g6.xlarge", "capacity", "none left", 552),
        ("ml.m5.large", "in-service", "", 242),
    ]


def test_a_failed_build_is_read_with_its_log(aws: LocalAws, session: Aws) -> None:
    codebuild: Any = aws.client("codebuild")
    buildspec = {"version": 0.2, "phases": {"build": {"commands": ["echo 'error: X: why' >&2; exit 3"]}}}
    codebuild.create_project(
        name="semif-five-archive",
        source={"type": "NO_SOURCE", "buildspec": json.dumps(buildspec)},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=ROLE,
    )
    codebuild.start_build(
        projectName="semif-five-archive",
        environmentVariablesOverride=[{"name": "SEMIF_CONTENT_HASH", "value": "a" * 64}],
    )
    reader = BuildReader(session.codebuild(), session.logs())
    began = datetime.now(UTC)
    run = BuildRun("semif-five-archive", frozenset({"a" * 64}), began, Run("CREATE", began, ended=False), 50)
    _until(lambda: reader.read(run)[0].bad)
    (build,) = reader.read(run)
    assert (build.status, build.phase, build.log) == ("FAILED", "BUILD", ("error: X: why",))
    assert build.context.startswith("COMMAND_EXECUTION_ERROR: ")
    assert build.link.startswith("https://")


def _deploy_endpoint(sagemaker: Any, uri: str) -> None:
    name = "semif-four-decisions"
    source = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
    sagemaker.create_model(
        ModelName="m",
        ExecutionRoleArn=ROLE,
        PrimaryContainer={"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}},
    )
    pool = ("ml.g6.xlarge", "ml.m5.large")
    times = (("00:00:00", "00:09:12", "capacity", "none left"), ("00:09:30", "00:13:32", "in-service", ""))
    for index, (began, over, outcome, reason) in enumerate(times):
        tags = {
            "endpoint": name,
            "pool": pool[index],
            "next": " ".join(pool[index + 1 :]),
            "position": f"{index + 1}/2",
            "request-id": "r",
            "started-at": f"2026-11-30T{began}Z",
            "ended-at": f"2026-11-30T{over}Z",
            "outcome": outcome,
            "reason": reason,
        }
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": "m",
            "InstanceType": pool[index],
            "InitialInstanceCount": 1,
        }
        sagemaker.create_endpoint_config(
            EndpointConfigName=f"{name}-0a1b2c3d4e-{index}",
            ProductionVariants=[variant],
            Tags=[{"Key": f"semif:{key}", "Value": value} for key, value in tags.items()],
        )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=f"{name}-0a1b2c3d4e-1")
    _until(lambda: sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] != "Creating")
    described = sagemaker.describe_endpoint(EndpointName=name)
    assert described["EndpointStatus"] == "InService", described.get("FailureReason")


def _status(cloudformation: Any, name: str) -> str:
    return str(cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


def _until(done: Any) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "not within 60 s"
        time.sleep(0.1)
