"""Models, configurations, endpoints and tags, as boto3 sees them; nothing is hosted here."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localaws.protocol import Scope, ServiceError

REGION = "eu-central-1"
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/semif-execution"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
ECR = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"


def refused(call: Callable[..., Any], *args: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(*args, **parameters)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_model_is_described_as_it_was_made(lab: Any) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert lab.model("Model-1", environment={"A": "1"})["ModelArn"] == f"{ARN}:model/model-1"
    described = lab.sagemaker.describe_model(ModelName="Model-1")
    assert described["ModelName"] == "Model-1"
    assert described["PrimaryContainer"] == {"Image": f"{ECR}/semif:cpu-1", "Environment": {"A": "1"}}
    assert described["ExecutionRoleArn"] == ROLE
    assert described["EnableNetworkIsolation"] is False
    assert before < described["CreationTime"] < datetime.now(UTC) + timedelta(seconds=1)


def test_names_that_are_taken_and_names_that_are_missing(lab: Any) -> None:
    sagemaker = lab.sagemaker
    lab.model()
    lab.config()
    assert refused(lab.model) == (
        "ValidationException",
        f'Cannot create already existing model "{ARN}:model/m".',
    )
    assert refused(lab.config) == (
        "ValidationException",
        f'Cannot create already existing endpoint configuration "{ARN}:endpoint-config/c".',
    )
    for call, text in [
        (lambda: sagemaker.describe_model(ModelName="x"), f'Could not find model "{ARN}:model/x".'),
        (lambda: sagemaker.delete_model(ModelName="x"), f'Could not find model "{ARN}:model/x".'),
        (
            lambda: sagemaker.describe_endpoint_config(EndpointConfigName="x"),
            f'Could not find endpoint configuration "{ARN}:endpoint-config/x".',
        ),
        (
            lambda: sagemaker.delete_endpoint_config(EndpointConfigName="x"),
            f'Could not find endpoint configuration "{ARN}:endpoint-config/x".',
        ),
        (
            lambda: sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="x"),
            f'Could not find endpoint configuration "{ARN}:endpoint-config/x".',
        ),
        (
            lambda: sagemaker.update_endpoint(EndpointName="x", EndpointConfigName="c"),
            f'Could not find endpoint "{ARN}:endpoint/x".',
        ),
        (
            lambda: sagemaker.describe_endpoint(EndpointName="x"),
            f'Could not find endpoint "{ARN}:endpoint/x".',
        ),
        (lambda: sagemaker.delete_endpoint(EndpointName="x"), f'Could not find endpoint "{ARN}:endpoint/x".'),
        (lambda: lab.config("c2", model="x"), f'Could not find model "{ARN}:model/x".'),
    ]:
        assert refused(call) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"Image": "public.ecr.aws/x/llama-cpp:1"}, "without Vpc repository access mode is not supported"),
        (
            {"Image": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/semif:1"},
            f"does not match expected region of {REGION}. Cross region ECR image pulls are not allowed.",
        ),
        ({"Mode": "MultiModel"}, "exactly one container, in mode SingleModel"),
        ({"ModelDataUrl": "https://host/key"}, "must start with s3://"),
        (
            {"ModelDataUrl": "s3://no-such-bucket-anywhere/m.tar.gz"},
            "Could not access model data at s3://no-such",
        ),
        ({"Environment": {f"K{n}": "v" * 1000 for n in range(40)}}, "at most 32768 bytes in all"),
        ({"Environment": {"K": "v" * 1025}}, "length less than or equal to 1024"),
        ({"Environment": {"1K": "v"}}, "regular expression pattern"),
    ],
)
def test_containers_that_are_refused(lab: Any, container: dict[str, Any], text: str) -> None:
    code, message = refused(
        lambda: lab.model(**{"environment": container.pop("Environment", {}), **container})
    )
    assert code == "ValidationException"
    assert text in message


def test_model_data_must_lie_in_the_region_and_exist(lab: Any) -> None:
    lab.client("s3", "us-east-1").create_bucket(Bucket=f"{lab.bucket}-us")
    url = f"s3://{lab.bucket}-us/m.tar.gz"
    code, message = refused(lambda: lab.model(ModelDataUrl=url))
    assert code == "ValidationException"
    assert f"Could not access model data at {url}" in message
    assert f"the object is located in {REGION}" in message
    url = f"s3://{lab.bucket}/m.tar.gz"
    assert refused(lambda: lab.model(ModelDataUrl=url))[1] == f"Could not find model data at {url}."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"S3DataType": "S3Prefix", "CompressionType": "None"}, "must end with a forward slash"),
        ({"S3DataType": "S3Prefix", "CompressionType": "Gzip"}, "requires CompressionType None"),
        ({"S3DataType": "S3Object", "CompressionType": "None"}, "Could not find model data"),
    ],
)
def test_data_sources_that_do_not_fit(lab: Any, source: dict[str, str], text: str) -> None:
    data = {"S3DataSource": {"S3Uri": f"s3://{lab.bucket}/models/x", **source}}
    assert text in refused(lambda: lab.model(ModelDataSource=data))[1]


def test_unknown_instance_types_are_refused_with_the_service_s_list(lab: Any) -> None:
    lab.model()
    code, message = refused(lambda: lab.config(instance_type="ml.nope.xlarge"))
    assert code == "ValidationException"
    assert "Value 'ml.nope.xlarge' at 'productionVariants." in message
    assert "Member must satisfy enum value set: [" in message
    assert "ml.c6i.2xlarge" in message


def test_a_type_that_the_region_lacks(lab: Any) -> None:
    lab.model()
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "unknown-type"}})
    for variant in (
        {"instance_type": "ml.g6e.xlarge"},
        {"InstancePools": [{"InstanceType": "ml.g6e.xlarge", "Priority": 1}]},
    ):
        code, message = refused(lab.config, **variant)
        assert code == "ValidationException"
        assert "Value 'ml.g6e.xlarge' at 'productionVariants.1.member.inst" in message
        assert "ml.g6e.xlarge" not in message.partition("enum value set")[2].split(", ")
    lab.config(instance_type="ml.g6e.2xlarge")


@pytest.mark.parametrize(
    ("variant", "text"),
    [
        ({"InstanceType": None}, "either InstanceType or InstancePools"),
        (
            {"InstancePools": [{"InstanceType": t, "Priority": 1} for t in ("ml.g5.xlarge", "ml.g6.xlarge")]},
            "Priorities of InstancePools must be unique",
        ),
        ({"InstanceType": "ml.g5.xlarge", "VolumeSizeInGB": 30}, "VolumeSizeInGB is not supported"),
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 3601}, "value less than or equal to 3600"),
    ],
)
def test_variants_that_are_refused(lab: Any, variant: dict[str, Any], text: str) -> None:
    lab.model()
    full = {"VariantName": "V", "ModelName": "m", "InstanceType": "ml.c6i.large", "InitialInstanceCount": 1}
    if "InstancePools" in variant:
        del full["InstanceType"]
    merged = {key: value for key, value in (full | variant).items() if value is not None}
    code, message = refused(
        lambda: lab.sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[merged])
    )
    assert code == "ValidationException"
    assert text in message


def test_what_is_not_hosted_is_refused_and_not_ignored(lab: Any) -> None:
    lab.model()
    serverless = {"MemorySizeInMB": 2048, "MaxConcurrency": 1}
    assert "does not host ServerlessConfig" in refused(lambda: lab.config(ServerlessConfig=serverless))[1]


def test_names_must_fit_the_service_model(lab: Any) -> None:
    for name in ("a" * 64, "under_score", "-dash"):
        code, message = refused(lab.model, name)
        assert code == "ValidationException"
        assert f"Value '{name}' at 'modelName' failed to satisfy constraint" in message


def test_configurations_are_described_and_may_be_deleted(lab: Any) -> None:
    lab.model()
    pools = [{"InstanceType": "ml.g6.xlarge", "Priority": 2}, {"InstanceType": "ml.g5.xlarge", "Priority": 1}]
    lab.config(InstancePools=pools, VariantInstanceProvisionTimeoutInSeconds=300)
    described = lab.sagemaker.describe_endpoint_config(EndpointConfigName="c")
    assert described["EndpointConfigArn"] == f"{ARN}:endpoint-config/c"
    assert described["ProductionVariants"][0]["InstancePools"] == pools
    lab.sagemaker.delete_model(ModelName="m")
    lab.sagemaker.delete_endpoint_config(EndpointConfigName="c")
    assert lab.sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert lab.sagemaker.list_models()["Models"] == []


def test_lists_page_sort_and_filter(lab: Any) -> None:
    lab.model()
    for index in range(12):
        lab.config(f"{'odd' if index % 2 else 'even'}-{index:02}")
    sagemaker = lab.sagemaker
    first = sagemaker.list_endpoint_configs()
    assert len(first["EndpointConfigs"]) == 10
    assert first["EndpointConfigs"][0]["EndpointConfigName"] == "odd-11"
    sagemaker.delete_endpoint_config(EndpointConfigName="even-02")
    rest = sagemaker.list_endpoint_configs(NextToken=first["NextToken"])
    assert [c["EndpointConfigName"] for c in rest["EndpointConfigs"]] == ["odd-01", "even-00"]
    assert "NextToken" not in rest
    pages = sagemaker.get_paginator("list_endpoint_configs").paginate(
        SortBy="Name", SortOrder="Ascending", NameContains="ODD", PaginationConfig={"PageSize": 4}
    )
    names = [[c["EndpointConfigName"] for c in page["EndpointConfigs"]] for page in pages]
    assert names == [["odd-01", "odd-03", "odd-05", "odd-07"], ["odd-09", "odd-11"]]
    for token in ("rubbish", first["NextToken"]):
        code, message = refused(sagemaker.list_endpoint_configs, SortBy="Name", NextToken=token)
        assert code == "ValidationException"
        assert "NextToken" in message


def test_lists_by_time(lab: Any) -> None:
    lab.model("first")
    time.sleep(0.02)
    between = lab.sagemaker.describe_model(ModelName="first")["CreationTime"] + timedelta(milliseconds=10)
    lab.model("second")

    def names(**limits: Any) -> list[str]:
        return [model["ModelName"] for model in lab.sagemaker.list_models(**limits)["Models"]]

    assert names() == ["second", "first"]
    assert names(SortOrder="Ascending") == ["first", "second"]
    now = datetime.now(UTC)
    assert names(CreationTimeAfter=now + timedelta(hours=1)) == []
    assert names(CreationTimeBefore=now + timedelta(hours=1), NameContains="sec") == ["second"]
    backend_names = lab.backend.list_models(Scope(ACCOUNT, REGION), {"CreationTimeAfter": between})["Models"]
    assert [model["ModelName"] for model in backend_names] == ["second"]


@pytest.mark.parametrize("kind", ["model", "endpoint-config", "endpoint"])
def test_tags(lab: Any, kind: str) -> None:
    sagemaker = lab.sagemaker
    lab.model()
    lab.config()
    lab.backend.put_faults({"ml.c6i.2xlarge": {"mode": "slow", "seconds": 60}})
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    arn = f"{ARN}:{kind}/{'m' if kind == 'model' else 'c' if kind == 'endpoint-config' else 'e'}"

    def tags() -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}

    answer = sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "semif:outcome", "Value": "in-service"}])
    assert answer["Tags"] == [{"Key": "semif:outcome", "Value": "in-service"}]
    sagemaker.add_tags(
        ResourceArn=arn, Tags=[{"Key": "semif:outcome", "Value": ""}, {"Key": "b", "Value": "ä"}]
    )
    assert tags() == {"semif:outcome": "", "b": "ä"}
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["b", "missing"])
    assert tags() == {"semif:outcome": ""}
    for key, value, text in [
        ("k", "a, b", "regular expression pattern"),
        ("k", "v" * 257, "length less than or equal to 256"),
        ("k" * 129, "v", "length less than or equal to 128"),
        ("aws:x", "v", "reserved for system use"),
    ]:
        code, message = refused(sagemaker.add_tags, ResourceArn=arn, Tags=[{"Key": key, "Value": value}])
        assert code == "ValidationException"
        assert text in message
    many = [{"Key": f"k{n}", "Value": "v"} for n in range(50)]
    assert "at most 50 tags" in refused(lambda: sagemaker.add_tags(ResourceArn=arn, Tags=many))[1]
    assert tags() == {"semif:outcome": ""}
    twice = [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]
    assert "Duplicate tag keys" in refused(lambda: sagemaker.add_tags(ResourceArn=arn, Tags=twice))[1]


def test_tags_come_with_creation_and_go_with_deletion(lab: Any) -> None:
    sagemaker = lab.sagemaker
    tags = [{"Key": "team", "Value": "x"}]
    image = {"Image": f"{ECR}/semif:cpu-1"}
    arn = sagemaker.create_model(ModelName="m", PrimaryContainer=image, ExecutionRoleArn=ROLE, Tags=tags)[
        "ModelArn"
    ]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == tags
    assert "Tags" not in sagemaker.describe_model(ModelName="m")
    sagemaker.delete_model(ModelName="m")
    assert refused(lambda: sagemaker.list_tags(ResourceArn=arn)) == (
        "ValidationException",
        f'Could not find model "{arn}".',
    )


def test_accounts_and_regions_are_separate(lab: Any) -> None:
    lab.model()
    role = "arn:aws:iam::111122223333:role/any"
    granted = lab.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    other = boto3.client(
        "sagemaker",
        region_name=REGION,
        endpoint_url=lab.url,
        aws_access_key_id=granted["AccessKeyId"],
        aws_secret_access_key=granted["SecretAccessKey"],
        aws_session_token=granted["SessionToken"],
    )
    assert other.list_models()["Models"] == []
    assert (
        "arn:aws:sagemaker:eu-central-1:111122223333:model/m"
        in refused(lambda: other.describe_model(ModelName="m"))[1]
    )
    other.close()
    assert lab.client("sagemaker", "us-east-1").list_models()["Models"] == []
    assert len(lab.sagemaker.list_models()["Models"]) == 1


def test_quota_is_refused_at_once_and_leaves_nothing(lab: Any) -> None:
    lab.model()
    lab.config(instance_type="ml.g6e.xlarge")
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "quota"}})
    code, message = refused(lambda: lab.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c"))
    assert code == "ResourceLimitExceeded"
    assert message.startswith(
        "The account-level service limit 'ml.g6e.xlarge for endpoint usage' is 0 Instances, with current"
        " utilization of 0 Instances and a request delta of 1 Instances."
    )
    assert lab.sagemaker.list_endpoints()["Endpoints"] == []


@pytest.mark.parametrize("native", [True, False])
def test_capacity_runs_out_after_its_time(lab: Any, native: bool) -> None:
    lab.model()
    pools = [{"InstanceType": "ml.g6e.xlarge", "Priority": 1}]
    lab.config(**({"InstancePools": pools} if native else {"instance_type": "ml.g6e.xlarge"}))
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "capacity", "seconds": 0.4}})
    started = time.monotonic()
    lab.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    creating = lab.sagemaker.describe_endpoint(EndpointName="e")
    assert creating["EndpointStatus"] == "Creating"
    assert creating["EndpointConfigName"] == "c"
    assert creating["PendingDeploymentSummary"]["EndpointConfigName"] == "c"
    for call in (
        lambda: lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c"),
        lambda: lab.sagemaker.delete_endpoint(EndpointName="e"),
    ):
        expected = f'Cannot update in-progress endpoint "{ARN}:endpoint/e".'
        assert refused(call) == ("ValidationException", expected)
    described = lab.settled()
    assert time.monotonic() - started >= 0.4
    assert described["EndpointStatus"] == "Failed"
    assert "InsufficientInstanceCapacity" in described["FailureReason"]
    assert described["LastModifiedTime"] > described["CreationTime"]
    assert "ProductionVariants" not in described
    again = refused(lambda: lab.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c"))
    assert again == ("ValidationException", f'Cannot create already existing endpoint "{ARN}:endpoint/e".')
    failed = lab.sagemaker.list_endpoints(StatusEquals="Failed")["Endpoints"]
    assert [one["EndpointName"] for one in failed] == ["e"]
    assert lab.sagemaker.list_endpoints(StatusEquals="InService")["Endpoints"] == []


def test_the_fault_table_is_shown_and_replaced(lab: Any) -> None:
    lab.backend.put_faults({"ml.g5.xlarge": {"mode": "slow", "seconds": 3}})
    lab.backend.put_faults({"ml.g6.xlarge": {"mode": "health"}})
    assert lab.backend.faults() == {"ml.g6.xlarge": {"mode": "health"}}
    with pytest.raises(
        ServiceError, match=r"ml.g6.xlarge.mode: 'sick' is none of: capacity, capacity-error, quota"
    ):
        lab.backend.put_faults({"ml.g6.xlarge": {"mode": "sick"}})
    assert lab.backend.faults() == {"ml.g6.xlarge": {"mode": "health"}}
    with pytest.raises(ServiceError, match="uri: None is not a private ECR URI"):
        lab.backend.put_image({"command": ["x"]})


def test_nothing_starts_after_close(lab: Any) -> None:
    lab.model()
    lab.config()
    lab.backend.close()
    code, _ = refused(lambda: lab.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c"))
    assert code == "ServiceUnavailable"
    assert lab.sagemaker.list_endpoints()["Endpoints"] == []
