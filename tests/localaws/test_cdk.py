"""The real CDK CLI against the local AWS: bootstrap, deploy, diff, destroy, and what goes wrong."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localaws.session import CdkResult, LocalAws

HANDLER = """
import boto3

ssm = boto3.client("ssm")

def on_event(event, context):
    print("asked to", event["RequestType"], event["ResourceProperties"])
    properties = event["ResourceProperties"]
    name = "/things/" + properties["Name"]
    if event["RequestType"] == "Delete":
        ssm.delete_parameters(Names=[name, name + "/polls"])
    else:
        ssm.put_parameter(Name=name, Value=properties["Value"], Type="String", Overwrite=True)
        ssm.put_parameter(Name=name + "/polls", Value="0", Type="String", Overwrite=True)
    return {"PhysicalResourceId": properties["Name"]}

def is_complete(event, context):
    properties = event["ResourceProperties"]
    name = "/things/" + properties["Name"]
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    polls = int(ssm.get_parameter(Name=name + "/polls")["Parameter"]["Value"]) + 1
    ssm.put_parameter(Name=name + "/polls", Value=str(polls), Type="String", Overwrite=True)
    if polls < 3:
        return {"IsComplete": False}
    if properties["Value"].startswith("bad"):
        raise RuntimeError("a thing cannot be " + properties["Value"])
    return {"IsComplete": True, "Data": {"Polls": str(polls), "Was": properties["Value"]}}
"""


class Assembly:
    """Synthesizes cloud assemblies of one app whose stacks share an export, with no CLI and no validator."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0
        (root / "handler").mkdir()
        (root / "handler" / "handler.py").write_text(HANDLER)

    def __call__(self, *, value: str = "good", accounts: tuple[str, ...] = ()) -> str:
        from aws_cdk import App, Environment, Stage  # noqa: PLC0415 - jsii starts a node process

        self._count += 1
        app = App(outdir=str(self._root / f"assembly-{self._count}"), analytics_reporting=False)
        if accounts:
            for account in accounts:
                stage = Stage(app, f"in-{account}", env=Environment(account=account, region="us-east-1"))
                self._artifacts(stage, "artifacts", account)
        else:
            artifacts, bucket = self._artifacts(app, "shop-artifacts", "main")
            self._thing(app, bucket, value).add_stack_dependency(artifacts)
        return app.synth().directory

    @staticmethod
    def _artifacts(scope: Any, name: str, label: str) -> tuple[Any, Any]:
        from aws_cdk import CfnOutput, RemovalPolicy, Stack, aws_s3, aws_ssm  # noqa: PLC0415

        stack = Stack(scope, name)
        bucket = aws_s3.Bucket(
            stack,
            "models",
            removal_policy=RemovalPolicy.RETAIN,
            versioned=True,
            enforce_ssl=True,
            encryption=aws_s3.BucketEncryption.S3_MANAGED,
            block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
        )
        aws_ssm.StringParameter(
            stack, "name", parameter_name=f"/{label}/bucket", string_value=bucket.bucket_name
        )
        CfnOutput(stack, "BucketName", value=bucket.bucket_name)
        return stack, bucket

    def _thing(self, scope: Any, bucket: Any, value: str) -> Any:
        from aws_cdk import CfnOutput, CustomResource, Duration, Stack, aws_iam, aws_ssm  # noqa: PLC0415
        from aws_cdk import aws_lambda as functions  # noqa: PLC0415
        from aws_cdk.custom_resources import Provider  # noqa: PLC0415

        stack = Stack(scope, "shop-thing")
        role = aws_iam.Role(stack, "role", assumed_by=aws_iam.ServicePrincipal("sagemaker.amazonaws.com"))
        bucket.grant_read(role)
        handlers = {
            name: functions.Function(
                stack,
                name,
                runtime=functions.Runtime.PYTHON_3_12,
                handler=f"handler.{name}",
                code=functions.Code.from_asset(str(self._root / "handler")),
                timeout=Duration.seconds(30),
            )
            for name in ("on_event", "is_complete")
        }
        provider = Provider(
            stack,
            "provider",
            on_event_handler=handlers["on_event"],
            is_complete_handler=handlers["is_complete"],
            query_interval=Duration.seconds(15),
        )
        thing = CustomResource(
            stack,
            "thing",
            service_token=provider.service_token,
            resource_type="Custom::Thing",
            properties={"Name": "shop", "Value": value, "Count": 3, "On": True},
        )
        aws_ssm.StringParameter(
            stack, "was", parameter_name="/shop/was", string_value=thing.get_att_string("Was")
        )
        CfnOutput(stack, "Polls", value=thing.get_att_string("Polls"))
        return stack


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    os.environ["CDK_VALIDATION"] = "false"
    return Assembly(tmp_path_factory.mktemp("cdk"))


@pytest.fixture(scope="module")
def bootstrapped(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> LocalAws:
    result = aws.run_cdk("bootstrap", "aws://123456789012/us-east-1", cwd=tmp_path_factory.mktemp("empty"))
    assert result.returncode == 0, result.output
    assert "bootstrapped" in result.output
    return aws


def deploy(aws: LocalAws, directory: str, *more: str) -> CdkResult:
    return aws.run_cdk("deploy", "--app", directory, "--all", "--require-approval", "never", *more)


def status(aws: LocalAws, stack: str) -> str:
    try:
        return str(aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
    except ClientError:
        return "none"


def parameter(aws: LocalAws, name: str, account: str | None = None) -> str | None:
    try:
        return str(aws.client("ssm", account=account).get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError:
        return None


def test_the_life_of_two_stacks(bootstrapped: LocalAws, assembly: Assembly) -> None:
    aws = bootstrapped
    good = assembly(value="good")

    created = deploy(aws, good)
    assert created.returncode == 0, created.output
    assert "shop-thing.Polls = 3" in created.output
    assert "Custom::Thing" in created.output
    assert parameter(aws, "/things/shop") == parameter(aws, "/shop/was") == "good"
    bucket = parameter(aws, "/main/bucket")
    assert bucket
    assert bucket.startswith("shop-artifacts-models")

    again = deploy(aws, good)
    assert again.returncode == 0, again.output
    assert again.output.count("(no changes)") == 2

    better = assembly(value="better")
    shown = aws.run_cdk("diff", "--app", better)
    assert "Custom::Thing" in shown.output, shown.output
    assert "better" in shown.output
    assert "AWS::S3::Bucket" not in shown.output

    updated = deploy(aws, better)
    assert updated.returncode == 0, updated.output
    assert parameter(aws, "/shop/was") == "better"

    failed = deploy(aws, assembly(value="bad"))
    assert failed.returncode == 1
    assert "a thing cannot be bad" in failed.output
    assert status(aws, "shop-thing") == "UPDATE_ROLLBACK_COMPLETE"
    assert parameter(aws, "/things/shop") == parameter(aws, "/shop/was") == "better"

    gone = aws.run_cdk("destroy", "--app", better, "--all", "--force")
    assert gone.returncode == 0, gone.output
    assert status(aws, "shop-thing") == status(aws, "shop-artifacts") == "none"
    assert parameter(aws, "/things/shop") is None
    assert aws.client("s3").head_bucket(Bucket=bucket)

    fails = deploy(aws, assembly(value="bad too"))
    assert fails.returncode == 1
    assert "a thing cannot be bad too" in fails.output
    assert status(aws, "shop-thing") == "ROLLBACK_COMPLETE"
    assert parameter(aws, "/things/shop") is None
    stack = aws.client("cloudformation").describe_stack_resources(StackName="shop-thing")
    assert stack["StackResources"] == []

    once_more = deploy(aws, good)
    assert once_more.returncode == 0, once_more.output
    assert parameter(aws, "/main/bucket") != bucket
    assert parameter(aws, "/shop/was") == "good"


def test_accounts_are_apart(aws: LocalAws, assembly: Assembly, tmp_path: Path) -> None:
    """One deployment into two accounts at once, through each account's deploy role, which trusts ours."""
    accounts = ("111111111111", "222222222222")

    def bootstrap(account: str) -> CdkResult:
        policy = "arn:aws:iam::aws:policy/AdministratorAccess"
        return aws.run_cdk(
            *("bootstrap", f"aws://{account}/us-east-1"),
            *("--trust", "123456789012", "--cloudformation-execution-policies", policy),
            cwd=tmp_path,
            environment=aws.credentials(account),
        )

    with ThreadPoolExecutor() as pool:
        for made in pool.map(bootstrap, accounts):
            assert made.returncode == 0, made.output
    result = aws.run_cdk(
        *("deploy", "--app", assembly(accounts=accounts), "*/*", "--concurrency", "2"),
        *("--require-approval", "never"),
    )
    assert result.returncode == 0, result.output
    for account, other in (accounts, accounts[::-1]):
        mine = aws.client("cloudformation", account=account)
        stacks = {stack["StackName"] for stack in mine.describe_stacks()["Stacks"]}
        assert stacks == {"CDKToolkit", f"in-{account}-artifacts"}
        assert parameter(aws, f"/{account}/bucket", account)
        assert parameter(aws, f"/{other}/bucket", account) is None
