"""Hosting with real processes, driven by boto3."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localaws.sagemaker.backend import SageMakerBackend
from localaws.sagemaker.container import MODEL_DIR, environment
from localaws.sagemaker.images import parse_image

IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/semif:cpu-1"
PING = (
    "The primary container for production variant AllTraffic did not pass the ping health check."
    " Please check CloudWatch logs for this endpoint."
)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], bool], limit_s: float = 10) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(lab: Any, name: str = "e") -> bool:
    try:
        lab.sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        return "Could not find endpoint" in str(error)
    return False


def log_lines(lab: Any, name: str = "e") -> list[str]:
    logs = lab.client("logs")
    group = f"/aws/sagemaker/Endpoints/{name}"
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        return []
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
    return [event["message"] for page in pages for event in page["events"]]


def put_prefix(lab: Any, prefix: str = "models/x/", **files: str) -> dict[str, Any]:
    for name, text in files.items():
        lab.client("s3").put_object(Bucket=lab.bucket, Key=f"{prefix}{name}", Body=text)
    source = {"S3Uri": f"s3://{lab.bucket}/{prefix}", "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"ModelDataSource": {"S3DataSource": source}}


def test_an_endpoint_serves_the_model_data_from_the_image_s_process(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for containers")
    data = put_prefix(lab, **{"model.gguf": "weights", "sub/profile.json": "{}", "sub/": ""})
    lab.model(environment={"KNOB": "7", "GGUF": "/opt/ml/model/model.gguf", "NOT": "/opt/ml/models"}, **data)
    lab.config()

    described = lab.endpoint()

    assert described["EndpointStatus"] == "InService", described
    assert "FailureReason" not in described
    variant = described["ProductionVariants"][0]
    assert (variant["VariantName"], variant["CurrentInstanceCount"]) == ("AllTraffic", 1)
    image = variant["DeployedImages"][0]
    assert image["SpecifiedImage"] == IMAGE
    assert image["ResolvedImage"].startswith(IMAGE.removesuffix(":cpu-1") + "@sha256:")
    report = lab.report()
    assert report["argv"] == ["serve"]
    assert report["files"] == {"model.gguf": "weights", "sub/profile.json": "{}"}
    assert report["modes"] == ["0o444"]
    seen = report["environment"]
    assert seen["GGUF"] == f"{seen['MODEL_DIR']}/model.gguf"
    assert seen["NOT"] == "/opt/ml/models"
    assert seen["KNOB"] == "7"
    assert seen["BIND_HOST"] == "127.0.0.1"
    names = {"PATH", "LANG", "HOME", "KNOB", "GGUF", "NOT", "MODEL_DIR", "BIND_HOST", "BIND_PORT"}
    assert set(seen) - names <= {"LC_CTYPE"}


@pytest.mark.parametrize("gzip_source", [True, False])
def test_a_gzipped_tar_is_unpacked(lab: Any, *, gzip_source: bool) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("model.gguf")
        entry.size = 7
        tar.addfile(entry, io.BytesIO(b"weights"))
    lab.client("s3").put_object(Bucket=lab.bucket, Key="m/model.tar.gz", Body=packed.getvalue())
    url = f"s3://{lab.bucket}/m/model.tar.gz"
    source = {"S3Uri": url, "S3DataType": "S3Object", "CompressionType": "Gzip"}
    lab.model(**({"ModelDataSource": {"S3DataSource": source}} if gzip_source else {"ModelDataUrl": url}))
    lab.config()
    assert lab.endpoint()["EndpointStatus"] == "InService"
    assert lab.report()["files"] == {"model.gguf": "weights"}


def test_a_single_object_is_fetched_under_its_own_name(lab: Any) -> None:
    lab.client("s3").put_object(Bucket=lab.bucket, Key="m/model.gguf", Body="weights")
    url = f"s3://{lab.bucket}/m/model.gguf"
    source = {"S3Uri": url, "S3DataType": "S3Object", "CompressionType": "None"}
    lab.model(ModelDataSource={"S3DataSource": source})
    lab.config()
    lab.endpoint()
    assert lab.report()["files"] == {"model.gguf": "weights"}


def test_a_tar_that_leaves_the_folder_fails_the_download(lab: Any) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    lab.client("s3").put_object(Bucket=lab.bucket, Key="model.tar.gz", Body=packed.getvalue())
    lab.model(ModelDataUrl=f"s3://{lab.bucket}/model.tar.gz")
    lab.config()
    assert "Failed to download model data" in lab.endpoint()["FailureReason"]


def test_model_data_that_is_gone_when_instances_are_there(lab: Any) -> None:
    lab.model(**put_prefix(lab, **{"model.gguf": "weights"}))
    lab.config()
    lab.client("s3").delete_object(Bucket=lab.bucket, Key="models/x/model.gguf")
    described = lab.endpoint()
    assert described["EndpointStatus"] == "Failed"
    assert described["FailureReason"] == (
        f'Failed to download model data for container "container_1" from URL: "s3://{lab.bucket}/models/x/".'
        " Please ensure that there is an object located at the URL and that the role passed to CreateModel"
        " has permissions to download the object."
    )


def test_an_image_that_was_never_pushed_fails_the_endpoint(lab: Any) -> None:
    lab.model(Image=f"{IMAGE}-unknown")
    lab.config()
    described = lab.endpoint()
    assert described["EndpointStatus"] == "Failed"
    assert described["FailureReason"].startswith(
        'Please make sure all images included in the model "m" exist, and that the execution role "arn'
    )


def test_a_process_that_exits_fails_the_ping_and_its_words_are_in_the_log(lab: Any) -> None:
    lab.model(environment={"BEHAVIOUR": "exit"})
    lab.config()
    described = lab.endpoint()
    assert (described["EndpointStatus"], described["FailureReason"]) == ("Failed", PING)
    assert log_lines(lab) == ["container says exit ['serve']", "no such model"]
    with pytest.raises(ClientError, match="in status Failed"):
        lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c")
    lab.sagemaker.delete_endpoint(EndpointName="e")
    wait_until(lambda: is_gone(lab))


def test_a_process_that_never_gets_healthy_is_given_up_and_stopped(lab: Any) -> None:
    lab.model(environment={"BEHAVIOUR": "unhealthy"})
    lab.config()
    started = time.monotonic()
    described = lab.endpoint()
    assert (described["EndpointStatus"], described["FailureReason"]) == ("Failed", PING)
    assert time.monotonic() - started >= 2.5
    with pytest.raises(ClientError, match="Endpoint e of account 123456789012 is not in service"):
        lab.invoke()


def test_a_program_that_cannot_be_started(lab: Any) -> None:
    lab.backend.put_image({"uri": IMAGE, "command": ["/no/such/program"], "bind": {"port": "PORT"}})
    lab.model()
    lab.config()
    described = lab.endpoint()
    assert described["EndpointStatus"] == "Failed"
    assert described["FailureReason"].startswith(
        "CannotStartContainerError. Please ensure the model container for variant AllTraffic starts correctly"
    )


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("capacity", "InsufficientInstanceCapacity"),
        ("health", PING),
        ("start", "CannotStartContainerError"),
        ("download", "Failed to download model data"),
        ("image", "Please make sure all images included in the model"),
    ],
)
def test_each_fault_fails_a_creation_and_an_update_keeps_serving(lab: Any, mode: str, text: str) -> None:
    lab.model(environment={"GENERATION": "1"})
    lab.model("m2", environment={"GENERATION": "2"})
    lab.config()
    lab.config("c2", model="m2", instance_type="ml.g6e.xlarge")
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": mode}})
    failed = lab.endpoint("f", "c2")
    assert failed["EndpointStatus"] == "Failed"
    assert text in failed["FailureReason"]
    lab.endpoint()
    lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
    described = lab.settled()
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "c")
    assert text in described["FailureReason"]
    assert lab.report()["environment"]["GENERATION"] == "1"


def test_no_quota_refuses_an_update_and_changes_nothing(lab: Any) -> None:
    lab.model()
    lab.config()
    lab.config("c2", instance_type="ml.g6e.xlarge")
    before = lab.endpoint()
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "quota"}})
    with pytest.raises(ClientError, match="ResourceLimitExceeded"):
        lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
    after = lab.sagemaker.describe_endpoint(EndpointName="e")
    assert {**before, "ResponseMetadata": None} == {**after, "ResponseMetadata": None}


def test_slow_instances_come_in_the_end(lab: Any) -> None:
    lab.model()
    lab.config(instance_type="ml.g6e.xlarge")
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "slow", "seconds": 1}})
    started = time.monotonic()
    assert lab.endpoint()["EndpointStatus"] == "InService"
    assert time.monotonic() - started >= 1


def test_a_silent_rollback(lab: Any) -> None:
    lab.model()
    lab.config()
    lab.config("c2", instance_type="ml.g6e.xlarge")
    lab.endpoint()
    pid = lab.report()["pid"]
    lab.backend.put_faults({"ml.g6e.xlarge": {"mode": "silent-rollback"}})
    lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
    described = lab.settled()
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "c")
    assert "FailureReason" not in described
    assert lab.report()["pid"] == pid
    assert lab.endpoint("new", "c2")["EndpointStatus"] == "InService"


def test_a_native_pool_falls_back_and_says_what_it_found(lab: Any) -> None:
    lab.model()
    types = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge")
    lab.config(InstancePools=[{"InstanceType": name, "Priority": n} for n, name in enumerate(types, start=1)])
    lab.backend.put_faults({name: {"mode": "capacity", "seconds": 0.1} for name in types[:2]})
    described = lab.endpoint()
    assert described["EndpointStatus"] == "InService"
    assert described["ProductionVariants"][0]["InstancePools"] == [
        {"InstanceType": name, "CurrentInstanceCount": int(name == types[2])} for name in types
    ]


def test_an_update_keeps_the_old_process_until_the_new_one_is_healthy(lab: Any) -> None:
    lab.model(environment={"GENERATION": "1"})
    lab.model("m2", environment={"GENERATION": "2"})
    lab.config()
    lab.config("c2", model="m2", instance_type="ml.c6i.4xlarge")
    lab.endpoint()
    old = lab.report()
    lab.backend.put_faults({"ml.c6i.4xlarge": {"mode": "slow", "seconds": 0.5}})
    deployment = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "a"}]}}
    lab.sagemaker.update_endpoint(
        EndpointName="e",
        EndpointConfigName="c2",
        DeploymentConfig=deployment,
        RetainAllVariantProperties=True,
    )
    generations = set()
    while True:
        described = lab.sagemaker.describe_endpoint(EndpointName="e")
        generations.add(lab.report()["environment"]["GENERATION"])
        if described["EndpointStatus"] != "Updating":
            break
        assert described["EndpointConfigName"] == "c"
        assert described["PendingDeploymentSummary"]["EndpointConfigName"] == "c2"
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "c2")
    assert described["LastDeploymentConfig"] == deployment
    assert generations == {"1", "2"}
    wait_until(lambda: not alive(old["pid"]))
    wait_until(lambda: not Path(old["environment"]["MODEL_DIR"]).parent.exists())


def test_an_update_is_refused_when_the_configuration_is_in_use_or_the_old_one_was_deleted(lab: Any) -> None:
    lab.model()
    lab.config()
    lab.config("c2")
    lab.endpoint()
    with pytest.raises(ClientError, match="currently in use endpoint configuration"):
        lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c")
    lab.sagemaker.delete_endpoint_config(EndpointConfigName="c")
    assert lab.report()["argv"] == ["serve"]
    with pytest.raises(ClientError, match=r'Could not find endpoint configuration ".*:endpoint-config/c"'):
        lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
    assert lab.sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"] == "InService"


def test_deleting_stops_the_process_and_removes_its_folder(lab: Any) -> None:
    lab.model(**put_prefix(lab, **{"model.gguf": "weights"}))
    lab.config()
    arn = lab.endpoint()["EndpointArn"]
    report = lab.report()
    folder = Path(report["environment"]["MODEL_DIR"]).parent
    assert alive(report["pid"])
    assert folder.exists()
    lab.sagemaker.delete_endpoint(EndpointName="e")
    wait_until(lambda: is_gone(lab))
    assert not alive(report["pid"])
    assert not alive(report["ppid"])
    assert not folder.exists()
    with pytest.raises(ClientError, match="Could not find endpoint"):
        lab.sagemaker.list_tags(ResourceArn=arn)
    assert lab.endpoint()["EndpointStatus"] == "InService"


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_time(lab: Any) -> None:
    lab.model(environment={"BEHAVIOUR": "stubborn"})
    lab.config()
    lab.endpoint()
    pid = lab.report()["pid"]
    started = time.monotonic()
    lab.sagemaker.delete_endpoint(EndpointName="e")
    assert lab.sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"] == "Deleting"
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        lab.sagemaker.delete_endpoint(EndpointName="e")
    wait_until(lambda: is_gone(lab))
    assert time.monotonic() - started >= 1.5
    assert not alive(pid)
    assert "ignoring SIGTERM" in log_lines(lab)


def test_logs_of_a_chatty_process_arrive_whole_and_in_order(lab: Any) -> None:
    lab.model(environment={"BEHAVIOUR": "chatty"})
    lab.config()
    assert lab.endpoint()["EndpointStatus"] == "InService"
    wait_until(lambda: "all said" in log_lines(lab))
    group = "/aws/sagemaker/Endpoints/e"
    streams = lab.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
    assert len(streams) == 1
    assert streams[0]["logStreamName"].startswith("AllTraffic/i-")
    numbers = [int(line.split()[1]) for line in log_lines(lab) if line.startswith("line ")]
    assert numbers == list(range(5000))
    lab.sagemaker.delete_endpoint(EndpointName="e")
    wait_until(lambda: is_gone(lab))
    assert "all said" in log_lines(lab)


def test_two_endpoints_start_at_the_same_time_and_stay_apart(lab: Any) -> None:
    lab.model(environment={"WHO": "one"})
    lab.model("m2", environment={"WHO": "two"})
    lab.backend.put_faults({"ml.c6i.2xlarge": {"mode": "slow", "seconds": 1}})
    started = time.monotonic()
    for name, model in (("e1", "m"), ("e2", "m2")):
        lab.config(f"c-{name}", model=model)
        lab.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=f"c-{name}")
    assert [lab.settled(name)["EndpointStatus"] for name in ("e1", "e2")] == ["InService", "InService"]
    assert time.monotonic() - started < 4
    first, second = lab.report("e1"), lab.report("e2")
    assert (first["environment"]["WHO"], second["environment"]["WHO"]) == ("one", "two")
    assert first["environment"]["BIND_PORT"] != second["environment"]["BIND_PORT"]
    assert first["environment"]["MODEL_DIR"] != second["environment"]["MODEL_DIR"]


def test_two_variants_share_the_traffic_by_weight(lab: Any) -> None:
    lab.model()
    variants = [
        {
            "VariantName": name,
            "ModelName": "m",
            "InstanceType": "ml.c6i.large",
            "InitialInstanceCount": 1,
            "InitialVariantWeight": weight,
        }
        for name, weight in (("A", 1.0), ("B", 0.0))
    ]
    lab.sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=variants)
    lab.endpoint()
    assert {lab.invoke()["InvokedProductionVariant"] for _ in range(8)} == {"A"}
    assert lab.invoke(TargetVariant="B")["InvokedProductionVariant"] == "B"
    with pytest.raises(ClientError, match="Variant C not found"):
        lab.invoke(TargetVariant="C")


def test_close_stops_what_serves_and_what_is_starting(lab: Any) -> None:
    lab.model()
    lab.model("m2", environment={"BEHAVIOUR": "unhealthy"})
    lab.config()
    lab.config("c2", model="m2")
    lab.endpoint()
    pid = lab.report()["pid"]
    lab.sagemaker.create_endpoint(EndpointName="starting", EndpointConfigName="c2")
    time.sleep(0.5)
    started = time.monotonic()
    lab.backend.close()
    assert time.monotonic() - started < 2
    assert not alive(pid)


def test_a_used_name_may_be_pushed_again_and_the_endpoint_keeps_what_it_runs(lab: Any) -> None:
    lab.push(environment={"BUILD": "1"})
    lab.model()
    lab.config()
    lab.config("c2")
    first = lab.endpoint()["ProductionVariants"][0]["DeployedImages"][0]["ResolvedImage"]
    lab.push(environment={"BUILD": "2"})
    assert lab.report()["environment"]["BUILD"] == "1"
    lab.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
    second = lab.settled()["ProductionVariants"][0]["DeployedImages"][0]["ResolvedImage"]
    assert lab.report()["environment"]["BUILD"] == "2"
    assert first != second


def test_the_model_s_variables_win_over_the_image_s_and_bind_over_both(tmp_path: Path) -> None:
    spec = {
        "uri": IMAGE,
        "command": ["x"],
        "environment": {"A": "image", "B": "image", "DATA": MODEL_DIR, "PATH": "/image/bin"},
        "bind": {"port": "PORT", "model_dir": "DIR", "host": "HOST"},
    }
    seen = environment(parse_image(spec), {"B": "model", "PORT": "8080", "DIR": "/x"}, 20_001, tmp_path)
    assert seen == {
        "A": "image",
        "B": "model",
        "DATA": str(tmp_path / "model"),
        "PATH": "/image/bin",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(tmp_path / "home"),
        "PORT": "20001",
        "DIR": str(tmp_path / "model"),
        "HOST": "127.0.0.1",
    }


def test_the_real_times_are_sagemaker_s() -> None:
    backend = SageMakerBackend("http://127.0.0.1:9", ready_s=0)
    settings = backend._settings
    assert (settings.ping_timeout_s, settings.stop_grace_s, settings.invocation_limit_s) == (2, 30, 60)
    assert json.loads(json.dumps(backend.faults())) == {}
    backend.close()
