"""The pool of an endpoint: rounds, AMIs, keys, the time that a walk may take, and what is refused."""

from typing import Any

import pytest

from stacks.endpoint_settings import EndpointSettings
from stacks.instance_facts import GIB, facts_of
from stacks.instance_types import CUDA_13_AMI, needed_gpu_memory_bytes
from stacks.mapping_reader import SettingsError
from stacks.pool_settings import Round
from stacks.regions import PoolStrategy
from stacks.settings import parse_environments
from stacks.update_settings import UpdateSettings

PATH = "environments[0].endpoints.decisions"
MODEL: dict[str, Any] = {"s3_uri": "s3://models/x/", "file": "X.gguf", "sha256": "0" * 64}
GPUS = ["ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.g4dn.2xlarge"]
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def read(
    endpoint: dict[str, Any], *, region: str = "eu-central-1", model: dict[str, Any] | None = None
) -> EndpointSettings:
    environment = {"name": "test", "region": region, "model": model or MODEL}
    (parsed,) = parse_environments([environment | {"endpoints": {"decisions": endpoint}}], {})
    return parsed.endpoints[0]


def refused(endpoint: dict[str, Any], **more: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        read(endpoint, **more)
    return str(caught.value)


def types(endpoint: EndpointSettings) -> list[tuple[str, ...]]:
    return [item.instance_types for item in endpoint.rounds]


@pytest.mark.parametrize(
    ("region", "strategy"),
    [
        *((region, "native") for region in ("us-east-1", "eu-central-1", "ap-southeast-1", "ap-southeast-3")),
        *((region, "serial") for region in ("af-south-1", "cn-north-1", "us-west-1", "us-gov-west-1")),
    ],
)
def test_native_pools_where_the_region_has_them(region: str, strategy: PoolStrategy) -> None:
    image = {"uri": f"999988887777.dkr.ecr.{region}.amazonaws.com/a@sha256:{'1' * 64}"}
    assert read({"pool": ["ml.c6i.xlarge"], "image": image}, region=region).pool.strategy == strategy


def test_a_round_holds_five_types_of_one_ami() -> None:
    cpus = [f"ml.c6i.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")]
    assert types(read({"pool": cpus})) == [tuple(cpus[:5]), tuple(cpus[5:])]
    amis = {"g5": "al2-ami-sagemaker-inference-gpu-3-1", "default": CUDA_13_AMI}
    rounds = read({"pool": GPUS[:3], "inference_ami_version": amis, "provision_timeout_s": 600}).rounds
    assert rounds == (
        Round(("ml.g6e.xlarge", "ml.g6.2xlarge"), CUDA_13_AMI, None),
        Round(("ml.g5.2xlarge",), amis["g5"], None),
    )
    # The order is the user's: types of one AMI on both sides of another are two rounds, not one.
    apart = {"pool": ["ml.g6e.xlarge", "ml.g5.xlarge", "ml.g6.xlarge"], "inference_ami_version": amis}
    assert types(read(apart | {"provision_timeout_s": 600})) == [
        ("ml.g6e.xlarge",),
        ("ml.g5.xlarge",),
        ("ml.g6.xlarge",),
    ]


def test_a_serial_walk_tries_each_type_by_itself() -> None:
    serial = {"pool_strategy": "serial", "download_timeout_s": 300, "startup_timeout_s": 300}
    assert types(read({"pool": GPUS[:2], **serial})) == [("ml.g6e.xlarge",), ("ml.g6.2xlarge",)]
    assert "SageMaker has no instance pools in af-south-1; use serial" in refused(
        {"pool": ["ml.c6i.large"], "pool_strategy": "native"}, region="af-south-1"
    )


def test_the_default_of_amis_is_not_for_cpu_types() -> None:
    image = {"uri": f"999988887777.dkr.ecr.eu-central-1.amazonaws.com/a@sha256:{'1' * 64}"}
    mixed = {"pool": ["ml.g5.xlarge", "ml.c6i.large"], "image": image, "inference_ami_version": CUDA_13_AMI}
    assert [item.inference_ami_version for item in read(mixed).rounds] == [CUDA_13_AMI, None]
    arm = mixed | {"pool": ["ml.g5g.xlarge", "ml.c7g.large"]}
    assert [item.inference_ami_version for item in read(arm).rounds] == [CUDA_13_AMI, None]


def test_cuda_13_needs_an_ami_for_every_family() -> None:
    problem = refused({"pool": GPUS, "inference_ami_version": {"g6e": CUDA_13_AMI, "g5": CUDA_13_AMI}})
    assert problem.startswith(f"{PATH}.inference_ami_version: names no AMI for g6, g4dn, whose own driver")
    assert f'Add "default": "{CUDA_13_AMI}"' in problem
    assert "an instance family such as g5" in refused(
        {"pool": GPUS, "inference_ami_version": {"ml.g5.xlarge": CUDA_13_AMI}}
    )


def test_a_volume_key_goes_where_it_encrypts_something() -> None:
    image = {"uri": f"999988887777.dkr.ecr.eu-central-1.amazonaws.com/a@sha256:{'1' * 64}"}
    endpoint = read({"pool": ["ml.g5.xlarge", "ml.c6i.large"], "image": image, "volume_key": KEY})
    assert [(item.instance_types, item.kms_key) for item in endpoint.rounds] == [
        (("ml.g5.xlarge",), None),
        (("ml.c6i.large",), KEY),
    ]
    (note,) = endpoint.notes
    assert (note.level, note.id) == ("info", "volume-key")
    assert "does not cover the disks of ml.g5.xlarge:" in note.text
    assert read({"pool": ["ml.c6i.large"], "volume_key": KEY}).notes == ()
    other = KEY.replace("eu-central-1", "us-east-1")
    assert "is a key of us-east-1" in refused({"pool": ["ml.c6i.large"], "volume_key": other})
    assert "the ARN of a KMS key" in refused({"pool": ["ml.c6i.large"], "volume_key": "alias/mine"})


@pytest.mark.parametrize(
    ("name", "kind", "nvme", "gpu_gib"),
    [
        ("ml.g4dn.2xlarge", "cuda", True, 15),
        ("ml.g5.12xlarge", "cuda", True, 88),
        ("ml.g6e.xlarge", "cuda", True, 44),
        ("ml.gr6.4xlarge", "cuda", True, 22),
        ("ml.p5.48xlarge", "cuda", True, 640),
        ("ml.p6-b200.48xlarge", "cuda", None, None),
        ("ml.g5.96xlarge", "cuda", True, None),
        ("ml.c6i.2xlarge", "cpu", False, None),
        ("ml.m6id.large", "cpu", True, None),
        ("ml.c7gd.large", "arm", True, None),
        ("ml.inf2.xlarge", "other", None, None),
        ("ml.g4ad.xlarge", "other", True, None),
    ],
)
def test_facts(name: str, kind: str, nvme: bool | None, gpu_gib: int | None) -> None:
    facts = facts_of(name)
    assert (facts.kind, facts.nvme) == (kind, nvme)
    assert facts.gpu_memory_bytes == (None if gpu_gib is None else gpu_gib * GIB)


def test_arm_and_x86_share_no_image() -> None:
    image = {"uri": f"999988887777.dkr.ecr.eu-central-1.amazonaws.com/a@sha256:{'1' * 64}"}
    problem = refused({"pool": ["ml.c7g.large", "ml.c6i.large"], "image": image})
    assert problem.startswith(f"{PATH}.pool: mixes Arm types (ml.c7g.large) with x86 types (ml.c6i.large)")
    assert read({"pool": ["ml.c7g.large"], "image": image}).pool.instance_types == ("ml.c7g.large",)


def test_the_model_must_fit_the_smallest_gpu() -> None:
    fits = 15 * GIB * 5 // 6
    assert needed_gpu_memory_bytes(fits) <= 15 * GIB < needed_gpu_memory_bytes(fits + 10)
    assert read({"pool": GPUS}, model=MODEL | {"bytes": fits}).notes == ()
    problem = refused({"pool": GPUS}, model=MODEL | {"bytes": 20 * GIB})
    assert problem.startswith(f"{PATH}.pool: a model of 20.0 GiB needs 24.0 GiB of GPU memory")
    for name, size in (("g6.2xlarge", 22), ("g5.2xlarge", 22), ("g4dn.2xlarge", 15)):
        assert f"ml.{name} has {size}.0 GiB" in problem
    assert "g6e" not in problem
    # Without layers on the GPU its memory does not matter; with some of them, who knows.
    assert read({"pool": GPUS, "gpu_layers": 0}, model=MODEL | {"bytes": 20 * GIB}).notes == ()
    (note,) = read({"pool": GPUS, "gpu_layers": 20}, model=MODEL | {"bytes": 20 * GIB}).notes
    assert (note.level, note.id) == ("warning", "gpu-memory-part")
    assert "needs 24.0 GiB" in refused({"pool": GPUS, "gpu_layers": 999}, model=MODEL | {"bytes": 20 * GIB})


def test_what_is_not_known_of_memory_is_said() -> None:
    (unknown_model,) = read({"pool": GPUS}).notes
    assert (unknown_model.level, unknown_model.id) == ("info", "gpu-memory")
    new_type = {"pool": ["ml.p6-b200.48xlarge"]}
    (unknown_type,) = read(new_type, model=MODEL | {"bytes": 20 * GIB}).notes
    assert unknown_type.level == "info"
    assert "the GPU memory of ml.p6-b200.48xlarge is not known" in unknown_type.text


UPDATE = UpdateSettings("all-at-once", None, None, None, 0)


def test_a_pool_that_cannot_hold_is_refused_with_sum_and_choices() -> None:
    three_rounds = {"pool": ["ml.c6i.large", "ml.m6id.large", "ml.c7i.large"], "volume_key": KEY}
    assert refused(three_rounds) == (
        f"{PATH}.pool: the walk may need 4020 s, and a deployment has 3000 s for it:"
        " 2 × 1200 (provision_timeout_s) + 900 (download_timeout_s) + 600 (startup_timeout_s)"
        " + 120 (margin) = 4020 s for 3 rounds. Choose: fewer types or no last_resort, so that there are at"
        " most 2 rounds; provision_timeout_s of at most 690; download_timeout_s and startup_timeout_s of at"
        " most 480 s together"
    )
    # Each choice holds.
    assert read(three_rounds | {"provision_timeout_s": 690})
    assert read(three_rounds | {"download_timeout_s": 240, "startup_timeout_s": 240})
    two = {"pool": GPUS[:2], "pool_strategy": "serial"}
    problem = refused(two)
    assert "1 × 1800 (for SageMaker to report no capacity)" in problem
    assert "at most 1 round;" in problem
    assert "at most 1080 s together; pool_strategy native, where the region has instance pools" in problem
    assert read(two | {"download_timeout_s": 580, "startup_timeout_s": 500})
    assert read(two | {"pool_strategy": "native"})
    waits = {"pool": GPUS[:1], "instance_count": 4, "update": {"type": "rolling", "batch_percent": 25}}
    problem = refused(waits)
    assert "4 batches × 900 (download_timeout_s)" in problem
    assert "240 (waits of update rolling)" in problem
    assert "a larger batch_percent, or update all-at-once" in problem


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("all-at-once", UPDATE),
        ("recreate", UpdateSettings("recreate", None, None, None, None)),
        ("canary", UpdateSettings("canary", 10, None, 300, 0)),
        ({"type": "rolling", "batch_percent": 25}, UpdateSettings("rolling", None, 25, 60, None)),
        (
            {"type": "canary", "canary_percent": 50, "wait_s": 60, "termination_wait_s": 30},
            UpdateSettings("canary", 50, None, 60, 30),
        ),
    ],
)
def test_update_modes(update: object, expected: UpdateSettings) -> None:
    endpoint = {"pool": ["ml.c6i.large"], "instance_count": 4, "update": update, "download_timeout_s": 60}
    assert read(endpoint | {"startup_timeout_s": 60}).update == expected


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        ("blue-green", "update: must be one of all-at-once, canary, rolling, recreate"),
        ({"wait_s": 3}, "update.type: is missing"),
        ({"type": "recreate", "wait_s": 3}, "update.wait_s: is no part of recreate"),
        ({"type": "canary", "canary_percent": 60}, "canary_percent: must be a whole number from 1 to 50"),
        ({"type": "rolling", "batch_percent": 4}, "batch_percent: must be a whole number from 5 to 50"),
        ("canary", "needs instance_count 2 or more"),
        ("rolling", "needs instance_count 2 or more"),
    ],
)
def test_updates_that_are_refused(update: object, problem: str) -> None:
    count = 1 if isinstance(update, str) else 2
    assert problem in refused({"pool": ["ml.c6i.large"], "instance_count": count, "update": update})


def test_a_last_resort_of_one_instance_cannot_be_shifted_to_in_parts() -> None:
    last_resort = {"pool": ["ml.c6i.large"], "instance_count": 1}
    endpoint = {"pool": ["ml.c7i.large"], "instance_count": 2, "last_resort": last_resort}
    canary = {"type": "canary", "wait_s": 60}
    assert "of the last resort too" in refused(endpoint | {"update": canary})
    assert read(endpoint).update.type == "all-at-once"


def test_layers_on_a_gpu_that_is_not_there() -> None:
    problem = refused({"pool": ["ml.c6i.large"], "gpu_layers": -1})
    assert problem == f"{PATH}.gpu_layers: must be 0: the pool has no GPU, and so the CPU image"


def test_rollback_alarms() -> None:
    names = [f"alarm-{i}" for i in range(10)]
    assert read({"pool": ["ml.c6i.large"], "rollback_alarms": names[:9]}).rollback_alarms == tuple(names[:9])
    assert "has 10 names; at most 9" in refused({"pool": ["ml.c6i.large"], "rollback_alarms": names})


def test_the_last_resort_is_a_round_of_its_own() -> None:
    own_model = {"s3_uri": "s3://models/small/", "file": "Small.gguf", "sha256": "1" * 64}
    last_resort = {"pool": ["ml.c6i.4xlarge", "ml.c7i.4xlarge"], "model": own_model, "threads": 8}
    endpoint = read({"pool": GPUS, "instance_count": 2, "last_resort": last_resort})
    assert endpoint.last_resort is not None
    container = endpoint.last_resort.container
    assert (container.flavour, container.model.file, container.engine.gpu_layers) == ("cpu", "Small.gguf", 0)
    assert endpoint.last_resort.instance_count == 2
    assert types(endpoint) == [tuple(GPUS), ("ml.c6i.4xlarge", "ml.c7i.4xlarge")]
    assert endpoint.walk_times.worst_case_s == 2820


@pytest.mark.parametrize(
    ("last_resort", "problem"),
    [
        ({}, "last_resort.pool: is missing"),
        (
            {"pool": [f"ml.c{i}.large" for i in (4, 5)] + [f"ml.m{i}.large" for i in (4, 5, 6, 7)]},
            "one round",
        ),
        ({"pool": ["ml.c6i.large"], "update": "canary"}, "last_resort.update: is no setting"),
        ({"pool": ["ml.c6i.large"], "context_tokens": 3}, "last_resort.context_tokens: is no setting"),
        ({"pool": ["ml.c7g.large"]}, "last_resort.pool[0]: ml.c7g.large is Arm"),
    ],
)
def test_last_resorts_that_are_refused(last_resort: dict[str, Any], problem: str) -> None:
    assert problem in refused({"pool": GPUS, "last_resort": last_resort})


def test_all_models_of_an_environment_share_a_token() -> None:
    def built(secret: str) -> dict[str, Any]:
        source = {"repository": "a/b", "revision": "0" * 40}
        return {"source": source, "file": "X.gguf", "sha256": "0" * 64, "token_secret": secret}

    last_resort = {"pool": ["ml.c6i.large"], "model": built("two")}
    endpoint = {"pool": GPUS, "last_resort": last_resort}
    assert "share one token_secret, not 2" in refused(endpoint, model=built("one"))
    assert read(endpoint, model=built("two")).last_resort is not None


@pytest.mark.parametrize(
    "bucket",
    ["sagemaker-us-east-1-111122223333", "cdk-hnb659fds-assets-111122223333-us-east-1"],
)
def test_a_bucket_that_is_another_regions_by_its_name(bucket: str) -> None:
    model = MODEL | {"s3_uri": f"s3://{bucket}/x/"}
    assert "is a bucket of us-east-1 by its name" in refused({"pool": ["ml.c6i.large"]}, model=model)
    assert read({"pool": ["ml.c6i.large"]}, model=model, region="us-east-1")
