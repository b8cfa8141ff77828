"""What a pool becomes in templates: rounds, last resort, alarms, rights, regions, and what a synth says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import create_loader

from instance_pool import outcome
from instance_pool.properties import parse_pool
from stacks.constructs.function_code import SERVICE_MODELS, function_code
from stacks.constructs.pooled_endpoint import RESOURCE_TYPE
from stacks.container_variables import check_variables
from stacks.mapping_reader import SettingsError
from stacks.settings import parse_environments
from tests.stacks.template_reader import flat, of_type, rights, statements, the_only

ROOT = Path(__file__).parents[2]
GPUS = ["ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.g4dn.2xlarge"]
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
SMALL = {"s3_uri": "s3://other-models/small/", "file": "Small.gguf", "sha256": "1" * 64}
Assemble = Callable[..., dict[str, Any]]


def with_endpoint(environment: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return environment | {"endpoints": {"decisions": settings}}


def pool_of(template: dict[str, Any]) -> dict[str, Any]:
    return dict(flat(the_only(template, RESOURCE_TYPE)["Properties"]))


def messages(artifact: Any) -> list[tuple[str, str]]:
    return [(str(m.level).rpartition(".")[2], str(m.entry.data)) for m in artifact.messages]


@pytest.fixture(scope="module")
def with_last_resort(assemble: Assemble, environment: dict[str, Any]) -> dict[str, Any]:
    """Artifacts of an environment whose endpoint falls back on CPUs, with a model of its own."""
    last_resort = {"pool": ["ml.c6i.4xlarge"], "model": SMALL, "instance_count": 3, "threads": 16}
    settings = with_endpoint(
        environment | {"name": "prod", "account": "111122223333"},
        pool=GPUS,
        instance_count=2,
        last_resort=last_resort,
        rollback_alarms=["team-latency"],
        update={"type": "canary", "canary_percent": 50, "wait_s": 120, "termination_wait_s": 0},
    )
    return assemble(settings)


def test_the_last_resort_has_a_model_of_its_own(with_last_resort: dict[str, Any]) -> None:
    template = with_last_resort["semif-prod-decisions"].template
    pool = parse_pool(pool_of(template))
    gpu, cpu = pool.rounds
    assert gpu.types == tuple(GPUS)
    assert (gpu.initial_instance_count, gpu.last_resort) == (2, False)
    assert (cpu.types, cpu.initial_instance_count, cpu.last_resort) == (("ml.c6i.4xlarge",), 3, True)
    assert gpu.inference_ami_version == "al2023-ami-sagemaker-inference-gpu-4-1"
    assert cpu.inference_ami_version is None
    models = {
        f"<{key}.ModelName>": flat(item["Properties"])["PrimaryContainer"]
        for key, item in of_type(template, "AWS::SageMaker::Model").items()
    }
    own, fallback = models[gpu.model_name], models[cpu.model_name]
    assert "ImageCudaBuild" in own["Image"]
    assert "ImageCpuBuild" in fallback["Image"]
    assert (own["Environment"]["SEMIF_N_GPU_LAYERS"], fallback["Environment"]["SEMIF_N_GPU_LAYERS"]) == (
        "-1",
        "0",
    )
    assert fallback["Environment"]["SEMIF_THREADS"] == "16"
    assert fallback["Environment"]["SEMIF_GGUF_PATH"] == "/opt/ml/model/Small.gguf"
    source = fallback["ModelDataSource"]["S3DataSource"]
    assert source["S3Uri"] == SMALL["s3_uri"]
    readable = [s["Resource"] for s in statements(template, "ExecutionRole") if "ModelArchive" in s["Sid"]]
    assert len(readable) == 2
    assert readable[1] == "arn:aws:s3:::other-models/small/*"


def test_the_alarms(with_last_resort: dict[str, Any]) -> None:
    template = with_last_resort["semif-prod-decisions"].template
    alarms = {
        item["Properties"]["AlarmName"]: item["Properties"]
        for item in of_type(template, "AWS::CloudWatch::Alarm").values()
    }
    assert set(alarms) == {"semif-prod-decisions-errors", "semif-prod-decisions-degraded"}
    errors, degraded = alarms["semif-prod-decisions-errors"], alarms["semif-prod-decisions-degraded"]
    assert (errors["Namespace"], errors["MetricName"]) == ("AWS/SageMaker", "Invocation5XXErrors")
    assert errors["Dimensions"] == [
        {"Name": "EndpointName", "Value": "semif-prod-decisions"},
        {"Name": "VariantName", "Value": "AllTraffic"},
    ]
    assert errors["TreatMissingData"] == "notBreaching"
    # The walk's function writes it, with this dimension.
    assert (degraded["Namespace"], degraded["MetricName"]) == (outcome.NAMESPACE, outcome.METRIC)
    assert degraded["Dimensions"] == [{"Name": "EndpointName", "Value": "semif-prod-decisions"}]
    assert degraded["TreatMissingData"] == "ignore"
    pool = parse_pool(pool_of(template))
    assert pool.rollback_alarms == ("semif-prod-decisions-errors", "team-latency")
    update = pool.update
    assert (update.type, update.canary_percent) == ("canary", 50)
    assert (update.wait_s, update.termination_wait_s) == (120, 0)
    # What rolls an update back, and what the endpoint needs, is there before it.
    waits_for = " ".join(the_only(template, RESOURCE_TYPE)["DependsOn"])
    assert "AlarmsErrors" in waits_for
    assert "ExecutionRoleDefaultPolicy" in waits_for


def test_all_stacks_of_an_environment_are_protected(
    with_last_resort: dict[str, Any], assemble: Assemble, environment: dict[str, Any]
) -> None:
    protected = {name: artifact.termination_protection for name, artifact in with_last_resort.items()}
    assert protected == dict.fromkeys(
        ("semif-prod-artifacts", "semif-prod-builds", "semif-prod-decisions"), True
    )
    assert {a.environment.account for a in with_last_resort.values()} == {"111122223333"}
    of_dev = {bool(artifact.termination_protection) for artifact in assemble(environment).values()}
    assert of_dev == {False}
    for settings in ({"protect": True}, {"name": "prod", "protect": False}):
        (parsed,) = parse_environments([environment | settings], {})
        assert parsed.protect is settings["protect"]


def test_downtime_is_said(assemble: Assemble, environment: dict[str, Any]) -> None:
    settings = with_endpoint(environment, pool=["ml.c6i.large"], update="recreate")
    said = messages(assemble(settings)["semif-dev-decisions"])
    (warning,) = [text for level, text in said if level == "WARNING" and "recreate" in text]
    assert "recreate deletes semif-dev-decisions before its successor exists" in warning
    assert "semif:recreate-downtime" in warning


def test_a_container_that_fetches_its_model_is_not_isolated_and_that_is_said(
    assemble: Assemble, environment: dict[str, Any]
) -> None:
    hub = {"repository": "owner/Model-GGUF", "file": "Model.gguf"}
    endpoint = {"engine": "llama-cpp", "pool": ["ml.c6i.large"], "download_at_start": hub}
    artifacts = assemble(environment | {"endpoints": {"chat": endpoint}})
    assert set(artifacts) == {"semif-dev-artifacts", "semif-dev-chat"}
    model = the_only(artifacts["semif-dev-chat"].template, "AWS::SageMaker::Model")["Properties"]
    assert model["EnableNetworkIsolation"] is False
    assert "ModelDataSource" not in model["PrimaryContainer"]
    warnings = [text for level, text in messages(artifacts["semif-dev-chat"]) if level == "WARNING"]
    assert any("WITHOUT network isolation" in text for text in warnings)


def test_a_volume_key_is_used_and_allowed(assemble: Assemble, environment: dict[str, Any]) -> None:
    settings = with_endpoint(environment, pool=["ml.c6id.large", "ml.c6i.large"], volume_key=KEY)
    artifact = assemble(settings)["semif-dev-decisions"]
    local, ebs = parse_pool(pool_of(artifact.template)).rounds
    assert (local.types, local.kms_key_id) == (("ml.c6id.large",), None)
    assert (ebs.types, ebs.kms_key_id) == (("ml.c6i.large",), KEY)
    granted = rights(artifact.template, "DecisionsInstancePoolIsCompleteRole")
    assert granted["kms:DescribeKey",] == granted["kms:CreateGrant",] == KEY
    assert any("does not cover the disks of ml.c6id.large" in text for _, text in messages(artifact))


def test_types_that_are_too_dear_are_told_and_never_tried(
    assemble: Assemble, environment: dict[str, Any]
) -> None:
    settings = with_endpoint(
        environment | {"region": "us-east-1"},
        pool=["ml.m5.large", "ml.m5.2xlarge"],
        max_hourly_usd=3,
    )
    # The price of the second is in prices.json, dated; of the first none is known.
    pool = parse_pool(pool_of(assemble(settings)["semif-dev-decisions"].template))
    assert pool.types == ("ml.m5.2xlarge",)
    ((name, reason),) = pool.left_out
    assert name == "ml.m5.large"
    assert "max_hourly_usd" in reason


@pytest.mark.parametrize(
    ("region", "partition", "strategy"),
    [
        ("us-east-1", "aws", "native"),
        ("eu-central-1", "aws", "native"),
        ("ap-southeast-1", "aws", "native"),
        ("ap-southeast-3", "aws", "native"),
        ("af-south-1", "aws", "serial"),
        ("cn-north-1", "aws-cn", "serial"),
    ],
)
def test_regions(
    assemble: Assemble, environment: dict[str, Any], region: str, partition: str, strategy: str
) -> None:
    endpoints = {
        "decisions": {"pool": ["ml.c6i.2xlarge"]},
        "standard": {"engine": "llama-cpp", "pool": ["ml.c6i.2xlarge"]},
    }
    settings = {"region": region, "account": "111122223333", "endpoints": endpoints}
    artifacts = assemble(environment | settings)
    accounts = {"af-south-1": "626614931356", "ap-southeast-3": "907027046896", "cn-north-1": "727897471807"}
    container_account = accounts.get(region, "763104351884")
    for key in endpoints:
        artifact = artifacts[f"semif-dev-{key}"]
        environment_of = artifact.environment
        assert (environment_of.account, environment_of.region) == ("111122223333", region)
        pool = pool_of(artifact.template)
        assert pool["Strategy"] == strategy
        assert ("VariantInstanceProvisionTimeoutInSeconds" in pool) == (strategy == "native")
        text = json.dumps(artifact.template)
        for other in {"aws", "aws-cn", "aws-us-gov"} - {partition}:
            assert f"arn:{other}:" not in text
    model = the_only(artifacts["semif-dev-standard"].template, "AWS::SageMaker::Model")
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    image = flat(model["Properties"]["PrimaryContainer"]["Image"])
    assert image.startswith(f"{container_account}.dkr.ecr.{region}.{suffix}/llama-cpp@sha256:")


def test_the_example_of_production(assemble: Assemble) -> None:
    example = json.loads((ROOT / "examples/prod.json").read_text())
    artifacts = assemble(example)
    assert set(artifacts) == {f"semif-prod-{key}" for key in ("artifacts", "builds", "decisions", "standard")}
    for key, layers in (("decisions", "SEMIF_N_GPU_LAYERS"), ("standard", "SM_LLAMA_CPP_N_GPU_LAYERS")):
        artifact = artifacts[f"semif-prod-{key}"]
        pool = parse_pool(pool_of(artifact.template))
        (only,) = pool.rounds
        assert only.types == tuple(GPUS)
        assert (only.initial_instance_count, only.inference_ami_version) == (
            2,
            "al2023-ami-sagemaker-inference-gpu-4-1",
        )
        times = (pool.provision_timeout_s, pool.download_timeout_s, pool.startup_timeout_s)
        assert times == (1200, 900, 600)
        variables = the_only(artifact.template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
        assert variables["Environment"][layers] in {"-1", "999"}
        assert artifact.termination_protection is True


def test_every_commented_line_of_the_examples_can_be_used() -> None:
    """A `//key` below its `key` wins once it is uncommented, since JSON takes the last of two."""
    texts = [
        (ROOT / "examples/prod.json").read_text(),
        json.dumps(json.loads((ROOT / "cdk.json").read_text())["context"]["environments"][0]),
    ]
    for text in texts:
        uncommented = json.loads(text.replace('"//', '"'))
        (settings,) = parse_environments([{"region": "us-east-1"} | uncommented], {})
        for endpoint in settings.endpoints:
            assert endpoint.pool.instance_types == tuple(GPUS)
        assert settings.build.images.keys() >= {"cuda"}


def test_the_function_brings_a_description_with_instance_pools() -> None:
    with function_code("instance_pool", ["sagemaker"]) as folder:
        loader = create_loader(str(folder / SERVICE_MODELS))
        assert loader.search_paths[0] == str(folder / SERVICE_MODELS)
        shapes = loader.load_service_model("sagemaker", "service-2")["shapes"]
        assert {"InstancePools", "VariantInstanceProvisionTimeoutInSeconds"} <= set(
            shapes["ProductionVariant"]["members"]
        )
        (versions,) = (folder / SERVICE_MODELS / "sagemaker").iterdir()
        assert [path.name for path in versions.iterdir()] == ["service-2.json.gz"]


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({f"V{i}": "x" for i in range(101)}, "makes 101 environment variables; SageMaker takes 100"),
        ({"V": "a\nb"}, "the variable V has a line break"),
        ({"V": "x" * 1025}, "the variable V is longer than the 1024 bytes"),
        ({f"V{i}": "x" * 1000 for i in range(40)}, "SageMaker takes 32768 bytes in all"),
    ],
)
def test_environments_that_sagemaker_would_refuse(variables: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        check_variables(variables, "environments[0].endpoints.decisions")
    assert caught.value.path == "environments[0].endpoints.decisions"
    check_variables({f"V{i}": "x" * 300 for i in range(100)}, "path")


def test_a_pool_that_its_parameter_could_not_hold(assemble: Assemble, environment: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="more than the 4000 that its SSM parameter can hold") as caught:
        assemble(environment | {"tags": {f"tag-{i}": "x" * 200 for i in range(20)}})
    assert caught.value.path == "environments[0].endpoints.decisions.pool"
