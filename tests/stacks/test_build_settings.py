"""The settings `model` and `build`, and the image that a pool of instance types needs."""

import hashlib
from typing import Any

import pytest

from semif.package_model.recipe import parse_recipe
from stacks.build_settings import BINDINGS, MAX_TIMEOUT_MINUTES, PYTHON_IMAGE, BuildSettings
from stacks.dlc import ACCOUNTS, DIGESTS
from stacks.instance_types import CUDA_13_AMI
from stacks.mapping_reader import SettingsError
from stacks.model_settings import BuiltModel, HubSource, ReadyModel, S3Place, UriSource
from stacks.settings import EnvironmentSettings, parse_environments

HUB = {"repository": "owner/X-GGUF", "revision": "a" * 40}
MODEL: dict[str, Any] = {"source": HUB, "file": "X.gguf", "sha256": "b" * 64}
PINNED = f"registry.example:5000/team/base@sha256:{'1' * 64}"
ENDPOINT_IMAGE = f"111122223333.dkr.ecr.eu-central-1.amazonaws.com/a@sha256:{'2' * 64}"
POOL = "environments[0].endpoints.decisions.pool"


def parse(
    *,
    model: object = MODEL,
    build: object = None,
    pool: tuple[str, ...] = ("ml.c6i.2xlarge",),
    image: str | None = None,
    region: str = "eu-central-1",
) -> EnvironmentSettings:
    decisions = {"pool": list(pool), "image": {"uri": image} if image else None}
    environment = {
        "name": "dev",
        "region": region,
        "model": model,
        "build": build,
        "endpoints": {"decisions": decisions},
    }
    return parse_environments([environment], {})[0]


def built(model: object) -> BuiltModel:
    settings = parse(model=model).model
    assert isinstance(settings, BuiltModel)
    return settings


def test_an_unchanged_file_goes_by_its_own_checksum() -> None:
    model = built(MODEL | {"license": "apache-2.0", "token_secret": "hub/token"})
    assert model.source == HubSource("owner/X-GGUF", "a" * 40)
    assert (model.content_hash, model.prefix) == ("b" * 64, f"models/{'b' * 64}/")
    assert (model.license, model.token_secret, model.unchanged) == ("apache-2.0", "hub/token", True)


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        MODEL | {"license": "apache-2.0"},
        MODEL | {"shard_bytes": 2_000_000_000},
        MODEL | {"source": {"uri": "https://files.example/X.gguf"}},
        {"source": HUB, "file": "X-Q8_0.gguf", "quantize": "Q8_0", "shard_bytes": 65_536},
    ],
)
def test_the_packager_names_the_archive_as_the_app_does(model: dict[str, Any]) -> None:
    settings = built(model)
    recipe = parse_recipe(settings.recipe)
    assert recipe.id == settings.content_hash
    assert recipe.canonical() == settings.recipe
    assert recipe.keeps_gguf is settings.unchanged


def test_a_changed_file_goes_by_its_recipe() -> None:
    cut = built(MODEL | {"shard_bytes": 2_000_000_000})
    assert cut.content_hash == hashlib.sha256(cut.recipe.encode()).hexdigest()
    assert not cut.unchanged
    assert len({built(MODEL | {"shard_bytes": size}).prefix for size in (65_536, 65_537, None)}) == 3


def test_an_archive_of_yours() -> None:
    model = parse(model={"s3_uri": "s3://models/a/b/", "file": "X.gguf", "sha256": "c" * 64}).model
    assert model == ReadyModel("s3://models/a/b/", "X.gguf", "c" * 64, None)
    assert (model.place, model.packed) == (S3Place("models", "a/b/"), False)
    for key in ("model.tar.gz", "a/b/model.tar.gz"):
        packed = parse(model={"s3_uri": f"s3://models/{key}", "file": "X.gguf", "sha256": "c" * 64}).model
        assert isinstance(packed, ReadyModel)
        assert (packed.place, packed.packed) == (S3Place("models", key), True)


def test_build_has_defaults_for_everything() -> None:
    build = parse().build
    image = build.images["cpu"]
    assert set(build.images) == {"cpu"}
    assert image.base_image.uri == (
        f"763104351884.dkr.ecr.eu-central-1.amazonaws.com/llama-cpp@{DIGESTS['cpu']}"
    )
    assert image.base_image.repository is not None
    assert (image.python_image.uri, image.python_image.repository) == (PYTHON_IMAGE, None)
    assert image.bindings == BINDINGS["cpu"]
    assert (build.package_index, build.hub) == (None, None)
    assert (build.scan_severity, build.timeout_minutes) == ("CRITICAL", MAX_TIMEOUT_MINUTES)
    assert parse(build={}).build == build


def test_everything_of_build_is_read() -> None:
    given = {
        "base_image_gpu": PINNED,
        "python_image": PINNED,
        "bindings_gpu": "requirements-other.txt",
        "package_index": "https://mirror.example/simple",
        "hub": "http://10.0.0.7:8080",
        "scan_severity": "NONE",
        "timeout_minutes": 10,
    }
    build = parse(build=given, pool=("ml.g6e.xlarge",)).build
    image = build.images["cuda"]
    assert (image.flavour, image.bindings) == ("cuda", "requirements-other.txt")
    assert (image.base_image.uri, image.base_image.repository) == (PINNED, None)
    assert image.base_image.digest == f"sha256:{'1' * 64}"
    assert build == BuildSettings(
        {"cuda": image}, "https://mirror.example/simple", "http://10.0.0.7:8080", "NONE", 10
    )


def test_no_image_is_built_for_an_endpoint_that_brings_one() -> None:
    pool = ("ml.g6e.xlarge", "ml.c6i.2xlarge")
    assert parse(image=ENDPOINT_IMAGE, pool=pool).build.images == {}


def test_china_has_its_own_account_and_domain() -> None:
    image = parse(region="cn-northwest-1", pool=("ml.g5.xlarge",)).build.images["cuda"]
    assert image.base_image.uri == (
        f"727897471807.dkr.ecr.cn-northwest-1.amazonaws.com.cn/llama-cpp@{DIGESTS['cuda']}"
    )


def test_a_region_without_the_container_names_those_with_it() -> None:
    with pytest.raises(SettingsError) as caught:
        parse(region="us-gov-west-1")
    assert caught.value.path == "environments[0].region"
    for part in (*ACCOUNTS, "us-gov-west-1", "environments[0].build.base_image_cpu", "image.uri"):
        assert part in str(caught.value)
    assert parse(region="us-gov-west-1", build={"base_image_cpu": PINNED}).build.images
    image = ENDPOINT_IMAGE.replace("eu-central-1", "us-gov-west-1")
    assert parse(region="us-gov-west-1", image=image).build.images == {}


@pytest.mark.parametrize(
    ("pool", "flavour"),
    [
        (("ml.c6i.2xlarge", "ml.m5.2xlarge", "ml.r7i.large", "ml.c6id.large", "ml.t3.medium"), "cpu"),
        (
            (
                "ml.g4dn.xlarge",
                "ml.g5.xlarge",
                "ml.g6e.xlarge",
                "ml.gr6.4xlarge",
                "ml.p4d.24xlarge",
                "ml.p6-b200.48xlarge",
            ),
            "cuda",
        ),
    ],
)
def test_the_flavour_is_the_pools(pool: tuple[str, ...], flavour: str) -> None:
    settings = parse(pool=pool)
    assert settings.endpoints[0].container.flavour == flavour
    assert set(settings.build.images) == {flavour}


def test_gpu_instances_use_their_gpu_and_a_driver_that_is_new_enough() -> None:
    gpu = parse(pool=("ml.g5.xlarge",)).endpoints[0]
    assert (gpu.container.engine.gpu_layers, gpu.rounds[0].inference_ami_version) == (-1, CUDA_13_AMI)
    for other in (parse().endpoints[0], parse(pool=("ml.g5.xlarge",), image=ENDPOINT_IMAGE).endpoints[0]):
        assert (other.container.engine.gpu_layers, other.rounds[0].inference_ami_version) == (0, None)


@pytest.mark.parametrize(
    ("pool", "path", "problem"),
    [
        (
            ("ml.g5.xlarge", "ml.c6i.large"),
            POOL,
            "mixes GPU types (ml.g5.xlarge) with CPU types (ml.c6i.large)",
        ),
        (("ml.c6i.large", "ml.c7g.large"), f"{POOL}[1]", "ml.c7g.large is Arm"),
        (("ml.m6gd.large",), f"{POOL}[0]", "Arm"),
        (("ml.g5g.xlarge",), f"{POOL}[0]", "Arm"),
        (("ml.inf2.xlarge",), f"{POOL}[0]", "neither x86 CPU nor NVIDIA GPU"),
        (("ml.g4ad.xlarge",), f"{POOL}[0]", "neither x86 CPU nor NVIDIA GPU"),
        (("ml.p3.2xlarge",), f"{POOL}[0]", "Volta"),
        (("ml.trn1n.32xlarge",), f"{POOL}[0]", "neither x86 CPU nor NVIDIA GPU"),
        (("ml.abc.xlarge",), f"{POOL}[0]", "neither x86 CPU nor NVIDIA GPU"),
    ],
)
def test_a_pool_that_no_image_serves(pool: tuple[str, ...], path: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(pool=pool)
    assert caught.value.path == path
    assert problem in str(caught.value)
    assert "image.uri" in str(caught.value)


MODEL_ERRORS: list[tuple[dict[str, Any], str, str]] = [
    ({"source": {"repository": "owner/X", "revision": "main"}}, "source.revision", "a branch may move"),
    ({"source": {"repository": "X", "revision": "a" * 40}}, "source.repository", "OWNER/NAME"),
    ({"source": {"uri": "ftp://x/y"}}, "source.uri", "https://HOST/"),
    ({"source": {"uri": "https://user:word@x/y"}}, "source.uri", "https://HOST/"),
    ({"source": {"uri": "s3://bucket/folder/"}}, "source.uri", "s3://BUCKET/KEY"),
    ({"source": HUB | {"uri": "https://x/y"}}, "source.repository", "is no setting; known here: uri"),
    ({"sha256": None}, "sha256", "is missing"),
    ({"quantize": "Q8_0"}, "sha256", "leave it out"),
    ({"quantize": "Q3_K", "sha256": None}, "quantize", "must be one of Q4_K_M, Q5_K_M, Q8_0"),
    (
        {"quantize": "Q8_0", "sha256": None, "source": {"uri": "https://x/y"}},
        "quantize",
        "needs a checkpoint",
    ),
    ({"shard_bytes": 65_535}, "shard_bytes", "from 65536"),
    ({"license": "@"}, "license", "a licence"),
    ({"token_secret": "a b"}, "token_secret", "name or ARN"),
    ({"s3_uri": "s3://models/x/"}, "source", "is no setting; known here: s3_uri, file, sha256"),
]


@pytest.mark.parametrize(
    ("change", "key", "problem"), MODEL_ERRORS, ids=[f"{key} {problem}" for _, key, problem in MODEL_ERRORS]
)
def test_errors_of_the_model(change: dict[str, Any], key: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(model=MODEL | change)
    assert caught.value.path == f"environments[0].model.{key}"
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("base_image_cpu", "public.ecr.aws/x/llama-cpp:v1", "an image by digest"),
        ("base_image_gpu", f"public.ecr.aws/x/llama-cpp:v1@sha256:{'1' * 64}", "without a tag"),
        ("python_image", "python", "an image by digest"),
        ("bindings_cpu", "../x.txt", "requirements file"),
        ("package_index", "https://user:word@mirror.example/simple", "without credentials"),
        ("hub", "mirror.example", "a URL"),
        ("scan_severity", "critical", "must be one of CRITICAL, HIGH"),
        ("timeout_minutes", 46, "from 5 to 45"),
    ],
)
def test_errors_of_build(key: str, value: object, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(build={key: value})
    assert caught.value.path == f"environments[0].build.{key}"
    assert problem in str(caught.value)


def test_a_source_at_an_address() -> None:
    model = built(MODEL | {"source": {"uri": "s3://bucket/folder/X.gguf"}})
    assert model.source == UriSource("s3://bucket/folder/X.gguf")
    assert model.revision == "s3://bucket/folder/X.gguf"
