"""doctor, deploy and destroy as processes, against the local AWS and by the real CDK CLI."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from localaws.session import LocalAws
from semif.assembly import ModelPlan
from semif.aws import open_aws
from semif.cli import app
from semif.doctor_facts import Source
from semif.model_source_api import look_at_source
from tests.semif.assemblies import artifacts_template, decisions_template, write_assembly
from tests.semif.plans import HUB

REGION: Final = "eu-central-1"
ROOT: Final = Path(__file__).parents[2]
MODEL: Final[dict[str, Any]] = {
    "ExecutionRoleArn": "arn:aws:iam::123456789012:role/execution",
    "PrimaryContainer": {"Image": f"123456789012.dkr.ecr.{REGION}.amazonaws.com/none:1"},
}

Semif = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def aws() -> Iterator[LocalAws]:
    with LocalAws(region=REGION, ready_s=0.2, poll_s=0.2) as running:
        running.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String"
        )
        yield running


class _Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response({"/there": 302, "/closed": 401}.get(self.path, 404))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def semif(aws: LocalAws, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Semif:
    """The command in this process; what the CDK CLI prints is in the output too."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, typed: str = "") -> tuple[int, str]:
        capfd.readouterr()
        result = CliRunner().invoke(app, list(arguments), input=typed)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output + capfd.readouterr().out

    return run


def model(url: str) -> dict[str, Any]:
    return {**HUB, "url": url}


def test_doctor_reads_an_account(aws: LocalAws, semif: Semif, hub: str, tmp_path: Path) -> None:
    aws.put_quotas({"ml.g6e.xlarge": 0, "ml.g5.2xlarge": 4})
    assembly = str(
        write_assembly(
            tmp_path, "one", REGION, {"decisions": decisions_template("one")}, model=model(f"{hub}/there")
        )
    )
    code, out = semif("doctor", "one", "--assembly", assembly)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith(
        "ok       identity: account 123456789012, which cdk.json does not name, eu-central-1"
    )
    (skipped,) = [line for line in lines if line.startswith("warning")]
    assert skipped.startswith(
        'warning  ml.g6e.xlarge skipped: quota "ml.g6e.xlarge for endpoint usage" is 0.'
        " Ask for 1: aws service-quotas"
    )
    assert any(
        line.startswith("ok       ml.g5.2xlarge: quota") and "is 4, 0 in use" in line for line in lines
    )
    assert "ok       CDK bootstrap: is version 28." in lines
    assert f"ok       model {hub}/there: is there." in lines
    assert lines[-1].startswith("doctor: 1 warning, ")


def test_doctor_stops_for_what_it_finds(aws: LocalAws, semif: Semif, hub: str, tmp_path: Path) -> None:
    aws.put_quotas({"ml.g6e.xlarge": None, "ml.g5.2xlarge": 0})
    assembly = str(
        write_assembly(
            tmp_path, "two", REGION, {"decisions": decisions_template("two")},
            model=model(f"{hub}/closed"), account="999999999999", bootstrap_version=99,
        )
    )  # fmt: skip
    code, out = semif("doctor", "two", "--assembly", assembly)
    errors = [line for line in out.splitlines() if line.startswith("error")]
    assert code == 1
    assert [line.split(":")[0].split()[1] for line in errors] == [
        "identity",
        "CDK",
        "semif-two-decisions",
        "model",
    ]
    assert "ml.g6e.xlarge: not offered; ml.g5.2xlarge: quota 0, 0 left" in errors[2]
    # A deployment says so, and does not begin.
    code, out = semif("deploy", "two", "--yes", "--assembly", assembly)
    assert code == 1
    assert "nothing was deployed" in out.splitlines()[-1]
    assert not (Path(assembly) / "deploy.log").exists()


def test_doctor_without_an_account_is_one_finding(
    semif: Semif, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly = write_assembly(tmp_path, "two", REGION, {"decisions": decisions_template("two")})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    code, out = semif("doctor", "two", "--assembly", str(assembly))
    assert code == 1
    (error,) = [line for line in out.splitlines() if line.startswith("error")]
    assert error.startswith("error    identity: the credentials reach no account in eu-central-1: ")


def test_a_look_up_that_is_denied_is_a_finding(aws: LocalAws, semif: Semif, hub: str, tmp_path: Path) -> None:
    assembly = write_assembly(
        tmp_path, "few", REGION, {"decisions": decisions_template("few")}, model=model(f"{hub}/there")
    )
    aws.put_faults({f"api:{name}": {"mode": "denied"} for name in ("ListServiceQuotas", "ListEndpoints")})
    try:
        code, out = semif("doctor", "few", "--assembly", str(assembly))
    finally:
        aws.put_faults({})
    assert code == 0
    warnings = [line.removeprefix("warning  ") for line in out.splitlines() if line.startswith("warning")]
    assert len(warnings) == 2
    assert warnings[0].startswith(
        "could not check quotas of instances: needs servicequotas:ListServiceQuotas ("
    )
    assert warnings[0].endswith("Allow servicequotas:ListServiceQuotas to these credentials.")
    assert warnings[1].startswith(
        "could not check instances in use: needs sagemaker:ListEndpoints and Describe"
    )


def test_a_models_bucket(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
    for name, region in (("near-models", REGION), ("far-models", "us-west-2")):
        s3 = aws.client("s3", region=region)
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})
        s3.put_object(Bucket=name, Key="models/a/m.gguf", Body=b"x")
    session = open_aws(region=REGION, profile=None)

    def state(address: str) -> str:
        found = look_at_source(session, ModelPlan(address, None), REGION)
        assert isinstance(found, Source), found
        return found.state

    assert state("s3://near-models/models/a/") == "reachable"
    assert state("s3://near-models/models/b/") == "missing"
    assert state("s3://no-models/models/a/") == "missing"
    assert state("s3://far-models/models/a/") == "elsewhere"
    # A build may fetch from any region.
    assert state("s3://far-models/models/a/m.gguf") == "reachable"


def test_nobody_to_ask_is_told_before_anything_else(semif: Semif) -> None:
    for command in ("deploy", "destroy"):
        code, out = semif(command, "dev")
        assert code == 2
        assert out.startswith("error: no_terminal: there is nobody to ask")


def test_from_the_first_deployment_to_the_purge(
    aws: LocalAws, semif: Semif, hub: str, tmp_path: Path
) -> None:
    aws.put_quotas({})
    templates = {"artifacts": artifacts_template("life"), "decisions": decisions_template("life")}
    source = {"model": model(f"{hub}/there")}
    assembly = write_assembly(tmp_path / "1", "life", REGION, templates, **source)

    process = subprocess.Popen(
        [sys.executable, "-m", "semif", "deploy", "life", "--yes", "--assembly", str(assembly)],
        env=aws.environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = []
    try:
        for line in process.stdout or ():
            said.append(line.rstrip())
            if line.startswith("cdk deploy runs"):
                # As Ctrl-C: it ends the watching, and the deployment goes on.
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "cdk diff 'life/*'" in said
    assert any(line.startswith("[+] AWS::S3::Bucket ModelBucket") for line in said)
    assert "no longer watching; cdk deploy goes on as process" in rest
    assert "next: semif watch life follows it again" in rest
    code, out = semif("watch", "life", "--interval", "0.3", "--settle", "1")
    assert code == 0, out
    assert "semif-life-artifacts CREATE_COMPLETE" in out
    assert "  TheValue  v" in out.splitlines()

    failing = {**templates, "decisions": decisions_template("life", spare_kind="NoSuchType")}
    bad = write_assembly(tmp_path / "2", "life", REGION, failing, **source)
    code, out = semif("deploy", "life", "--yes", "--assembly", str(bad))
    assert code == 1
    assert "semif-life-decisions failed: UPDATE_ROLLBACK_COMPLETE" in out
    assert f"cdk deploy ended with exit code 1; its last lines ({bad / 'deploy.log'} has all):" in out

    bucket, repository = _fill(aws, "life")
    code, out = semif("destroy", "life", "--yes", "--assembly", str(assembly))
    assert code == 0, out
    lines = out.splitlines()
    assert lines[0] == "goes:"
    assert f"  bucket {bucket} (2 object versions, 7 B)" in lines
    assert f"  repository {repository} (0 images, 0 B)" in lines
    assert any(
        line.startswith("  log group /aws/sagemaker/Endpoints/semif-life-decisions (") for line in lines
    )
    assert lines[-1].startswith(
        "life in eu-central-1 is gone: no stack, endpoint, endpoint configuration, model,"
    )
    assert _stacks(aws, "semif-life-") == []

    # A second time: the stacks are gone, the bucket is not; a wrong name removes nothing.
    code, out = semif("destroy", "life", "--purge", "--assembly", str(assembly), typed="live\n")
    assert code == 1
    assert out.splitlines()[-1].endswith("nothing was destroyed")
    code, out = semif("destroy", "life", "--purge", "--assembly", str(assembly), typed="life\n")
    assert code == 0, out
    assert f"removed bucket {bucket}" in out
    assert bucket not in {b["Name"] for b in aws.client("s3").list_buckets()["Buckets"]}
    assert aws.client("ecr").describe_repositories()["repositories"] == []


def test_what_is_protected_stays(aws: LocalAws, semif: Semif, tmp_path: Path) -> None:
    assembly = write_assembly(
        tmp_path, "prod", REGION, {"decisions": decisions_template("prod")}, protect=True
    )
    _create(aws, "semif-prod-decisions", decisions_template("prod"), EnableTerminationProtection=True)
    code, out = semif("destroy", "prod", "--yes", "--assembly", str(assembly))
    assert code == 1
    assert "error: protected: prod is protected from deletion (semif-prod-decisions)" in out
    assert out.splitlines()[-1] == (
        "  aws cloudformation update-termination-protection --no-enable-termination-protection"
        " --stack-name semif-prod-decisions --region eu-central-1"
    )
    assert _stacks(aws, "semif-prod-") == ["semif-prod-decisions"]


def test_strays_go_too_a_namesake_does_not_and_what_is_left_is_named(
    aws: LocalAws, semif: Semif, tmp_path: Path
) -> None:
    templates = {"artifacts": artifacts_template("old"), "decisions": decisions_template("old")}
    assembly = write_assembly(tmp_path, "old", REGION, templates)
    # A stack that cdk.json no longer has, one of another environment, and endpoints without a stack.
    stray = decisions_template("old", key="spare")
    stray["Resources"]["Model"] = {"Type": "AWS::SageMaker::Model", "Properties": MODEL}
    _create(aws, "semif-old-spare", stray)
    _create(aws, "semif-old-2-decisions", decisions_template("old-2"))
    sagemaker: Any = aws.client("sagemaker")
    _endpoint(sagemaker, "semif-old-mine", stack="")
    _endpoint(sagemaker, "semif-old-decisions", stack="semif-old-decisions")
    ec2: Any = aws.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    made = ec2.create_network_interface(SubnetId=subnet, Description="AWS Lambda VPC ENI-semif-old-spare-x")
    interface = made["NetworkInterface"]["NetworkInterfaceId"]

    code, out = semif("destroy", "old", "--yes", "--assembly", str(assembly))

    assert code == 1
    assert "could not check" not in out
    # CloudFormation names a model by its ARN.
    (name,) = [line.split()[1] for line in out.splitlines() if line.startswith("    model ")]
    assert not name.startswith("arn:")
    assert "semif-old-spare is no longer in cdk.json; deleting it" in out
    assert "removed endpoint semif-old-decisions, which no stack has any more" in out
    assert "removed endpoint configuration semif-old-decisions-0a1b2c3d4e-0" in out
    assert _stacks(aws, "semif-old-") == ["semif-old-2-decisions"]
    assert [e["EndpointName"] for e in sagemaker.list_endpoints()["Endpoints"]] == ["semif-old-mine"]
    assert f"left: network interface {interface} (" in out
    assert f"  remove it: aws ec2 delete-network-interface --network-interface-id {interface}" in out
    assert out.splitlines()[-1] == "old in eu-central-1 is not gone"


def _create(aws: LocalAws, name: str, template: Mapping[str, Any], **more: Any) -> None:
    cloudformation: Any = aws.client("cloudformation")
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), **more)
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def _stacks(aws: LocalAws, prefix: str) -> list[str]:
    found = aws.client("cloudformation").describe_stacks()["Stacks"]
    return sorted(stack["StackName"] for stack in found if stack["StackName"].startswith(prefix))


def _fill(aws: LocalAws, env: str) -> tuple[str, str]:
    """Put two versions of an object into the bucket, and a log group beside the stacks."""
    resources = aws.client("cloudformation").list_stack_resources(StackName=f"semif-{env}-artifacts")
    ids = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in resources["StackResourceSummaries"]}
    for body in (b"one", b"more"):
        aws.client("s3").put_object(Bucket=ids["ModelBucket"], Key="models/m", Body=body)
    aws.client("logs").create_log_group(logGroupName=f"/aws/sagemaker/Endpoints/semif-{env}-decisions")
    return ids["ModelBucket"], ids["ImageRepository"]


def _endpoint(sagemaker: Any, name: str, *, stack: str) -> None:
    """An endpoint whose model never serves: it exists, and that is enough."""
    tags = (
        [{"Key": "semif:stack-id", "Value": f"arn:aws:cloudformation:{REGION}:1:stack/{stack}/1"}]
        if stack
        else []
    )
    configuration = f"{name}-0a1b2c3d4e-0"
    sagemaker.create_model(ModelName=f"{name}-model", **MODEL)
    variant: dict[str, Any] = {"VariantName": "AllTraffic", "ModelName": f"{name}-model"}
    variant |= {"InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName=configuration, ProductionVariants=[variant], Tags=tags
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=configuration, Tags=tags)
