"""Settings: what is read, and where an error says it is."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from stacks import (
    build_settings,
    callers_settings,
    endpoint_settings,
    model_settings,
    settings,
    update_settings,
)
from stacks.endpoint_settings import COMMON_KEYS
from stacks.images import EcrRepository
from stacks.mapping_reader import SettingsError
from stacks.pool_settings import Round
from stacks.semif_settings import SEMIF_KEYS, SemIfEngine
from stacks.settings import parse_environments
from stacks.standard_settings import STANDARD_KEYS
from stacks.update_settings import UpdateSettings

VALID: dict[str, Any] = {
    "name": "dev",
    "account": "111122223333",
    "region": "eu-central-1",
    "tags": {"team": "x"},
    "model": {"s3_uri": "s3://models/x/", "file": "X.gguf", "sha256": "0" * 64},
    "build": {},
    "endpoints": {
        "decisions": {
            "name": "semif-dev-decisions",
            "image": {"uri": f"111122223333.dkr.ecr.eu-central-1.amazonaws.com/semif/a@sha256:{'1' * 64}"},
            "pool": ["ml.g6e.xlarge", "ml.c6i.2xlarge"],
            "instance_count": 2,
            "gpu_layers": -1,
            "inference_ami_version": "al2023-ami-sagemaker-inference-gpu-4-1",
            "download_timeout_s": 900,
            "startup_timeout_s": 600,
            "max_tokens": 4096,
            "max_request_tokens": 8192,
            "max_shared_decisions": 64,
            "max_body_bytes": 262_144,
            "threads": 4,
        }
    },
}
MINIMAL: dict[str, Any] = {
    "name": "dev",
    "model": {
        "source": {"repository": "owner/X-GGUF", "revision": "0" * 40},
        "file": "X.gguf",
        "sha256": "0" * 64,
    },
    "endpoints": {"decisions": {"pool": ["ml.c6i.2xlarge"]}},
}
DECISIONS = "environments[0].endpoints.decisions"
REMOVED = object()


def changed(path: str, value: object) -> dict[str, Any]:
    environment = copy.deepcopy(VALID)
    *parents, key = path.split("/")
    place = environment
    for parent in parents:
        place = place[parent]
    if value is REMOVED:
        del place[key]
    else:
        place[key] = value
    return environment


def test_everything_is_read() -> None:
    (environment,) = parse_environments([VALID], {})
    assert (environment.account, environment.region) == ("111122223333", "eu-central-1")
    decisions = environment.endpoints[0]
    container, pool = decisions.container, decisions.pool
    assert container.image is not None
    assert container.image.repository == EcrRepository("111122223333", "eu-central-1", "semif/a")
    assert pool.instance_types == ("ml.g6e.xlarge", "ml.c6i.2xlarge")
    assert container.engine == SemIfEngine(-1, 4096, 8192, 64, 262_144, 4)
    assert pool.instance_count == 2


def test_what_the_server_may_hold_at_once_and_for_how_long_is_read() -> None:
    given = {"batching": "throughput", "cache_bytes": 2**31, "sequences": 8, "deadline_s": 30}
    environment = VALID | {"endpoints": {"decisions": VALID["endpoints"]["decisions"] | given}}
    (one,) = parse_environments([environment], {})
    engine = one.endpoints[0].container.engine
    assert isinstance(engine, SemIfEngine)
    assert engine == SemIfEngine(-1, 4096, 8192, 64, 262_144, 4, "throughput", 2**31, 8, 30)


def test_defaults() -> None:
    (environment,) = parse_environments([MINIMAL], {"AWS_REGION": "us-east-1"})
    decisions = environment.endpoints[0]
    assert (environment.account, dict(environment.tags)) == (None, {})
    container, pool = decisions.container, decisions.pool
    assert (decisions.name, container.image) == ("semif-dev-decisions", None)
    assert container.engine == SemIfEngine(0, 4096, 8192, 64, 262_144, None)
    assert pool.rounds == (Round(("ml.c6i.2xlarge",), None, None),)
    assert (pool.strategy, pool.instance_count, pool.left_out) == ("native", 1, {})
    times = (pool.provision_timeout_s, pool.download_timeout_s, pool.startup_timeout_s)
    assert times == (1200, 900, 600)
    assert decisions.update == UpdateSettings("all-at-once", None, None, None, 0)
    assert (decisions.rollback_alarms, decisions.last_resort, decisions.notes) == ((), None, ())


def test_context_from_the_command_line_is_a_string() -> None:
    assert parse_environments(json.dumps([VALID]), {}) == parse_environments([VALID], {})


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-2"}, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "us-west-2", "CDK_DEFAULT_REGION": "us-west-1"}, "us-west-2"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "cn-north-1"}, "cn-north-1"),
    ],
)
def test_the_region_comes_from_the_environment(variables: dict[str, str], region: str) -> None:
    assert parse_environments([MINIMAL], variables)[0].region == region


def test_a_missing_region_names_the_variable() -> None:
    with pytest.raises(SettingsError, match=r"^environments\[0\]\.region: is missing: .*AWS_REGION"):
        parse_environments([MINIMAL], {})


ERRORS: list[tuple[object, str, str]] = [
    (None, "environments", "must be a list of at least one environment"),
    ([], "environments", "must be a list of at least one environment"),
    ("[{", "environments", "is a string but no JSON"),
    ('"dev"', "environments", "must be a list"),
    (["dev"], "environments[0]", "must be an object, not 'dev'"),
    ([VALID, VALID], "environments[1].name", "dev is listed twice"),
    ([changed("nmae", "dev")], "environments[0].nmae", "is no setting; known here: name, account"),
    ([changed("name", "Dev")], "environments[0].name", "must be a lower-case letter"),
    ([changed("name", "a" * 17)], "environments[0].name", "up to 15"),
    ([changed("name", REMOVED)], "environments[0].name", "is missing"),
    ([changed("account", "1234")], "environments[0].account", "12 digits"),
    ([changed("account", 111122223333)], "environments[0].account", "12 digits"),
    ([changed("region", "Frankfurt")], "environments[0].region", "must be a region"),
    ([changed("tags", ["x"])], "environments[0].tags", "must be an object"),
    ([changed("tags/aws:x", "y")], "environments[0].tags.aws:x", "not aws:"),
    ([changed("tags/semif:x", "y")], "environments[0].tags.semif:x", "semif:"),
    ([changed("tags/team", "a|b")], "environments[0].tags.team", "must be a text"),
    ([changed("model", REMOVED)], "environments[0].model", "is missing"),
    ([changed("model/s3_uri", REMOVED)], "environments[0].model.source", "or set s3_uri for an archive"),
    ([changed("model/s3_uri", "s3://models/x")], "environments[0].model.s3_uri", "a slash at its end"),
    ([changed("model/s3_uri", "s3://models/")], "environments[0].model.s3_uri", "s3://BUCKET/PREFIX/"),
    ([changed("model/license", "mit")], "environments[0].model.license", "known here: s3_uri, file, sha256"),
    ([changed("build/cache", True)], "environments[0].build.cache", "is no setting"),
    ([changed("model/file", "X.bin")], "environments[0].model.file", ".gguf"),
    ([changed("model/file", "../X.gguf")], "environments[0].model.file", ".gguf"),
    ([changed("model/sha256", "0" * 63)], "environments[0].model.sha256", "64 lower-case hexadecimal"),
    ([changed("endpoints", REMOVED)], "environments[0].endpoints", "is missing"),
    ([changed("endpoints", [])], "environments[0].endpoints", "must be an object"),
    ([changed("endpoints/decisions", REMOVED)], "environments[0].endpoints", "at least one endpoint"),
    ([changed("endpoints/builds", {})], "environments[0].endpoints.builds", "name of another stack"),
    ([changed("endpoints/Chat", {})], "environments[0].endpoints.Chat", "lower-case letter"),
    ([changed("endpoints/more", {})], "environments[0].endpoints.more.pool", "is missing"),
    (
        [changed("endpoints/more", {"pool": ["ml.c5.large"], "name": "semif-dev-decisions"})],
        "environments[0].endpoints.more.name",
        "semif-dev-decisions is another endpoint's name",
    ),
    ([changed("endpoints/decisions/pools", [])], f"{DECISIONS}.pools", "is no setting"),
    ([changed("endpoints/decisions/name", "a" * 64)], f"{DECISIONS}.name", "1 to 63"),
    ([changed("endpoints/decisions/name", "Semif")], f"{DECISIONS}.name", "lower-case"),
    ([changed("endpoints/decisions/name", "semif-")], f"{DECISIONS}.name", "inner hyphens"),
    ([changed("endpoints/decisions/image", "a:b")], f"{DECISIONS}.image", "must be an object"),
    (
        [changed("endpoints/decisions/image/uri", "public.ecr.aws/a:b")],
        f"{DECISIONS}.image.uri",
        "an image in ECR",
    ),
    (
        [
            changed(
                "endpoints/decisions/image/uri",
                f"111122223333.dkr.ecr.us-east-1.amazonaws.com/a@sha256:{'1' * 64}",
            )
        ],
        f"{DECISIONS}.image.uri",
        "images of its own region only: eu-central-1",
    ),
    ([changed("endpoints/decisions/pool", [])], f"{DECISIONS}.pool", "at least one item"),
    ([changed("endpoints/decisions/pool", "ml.c6i.2xlarge")], f"{DECISIONS}.pool", "must be a list"),
    (
        [changed("endpoints/decisions/pool", ["ml.c6i.2xlarge", "c6i.2xlarge"])],
        f"{DECISIONS}.pool[1]",
        "must be an instance type",
    ),
    (
        [changed("endpoints/decisions/pool", ["ml.a.b", "ml.a.b"])],
        f"{DECISIONS}.pool[1]",
        "ml.a.b is listed twice",
    ),
    (
        [changed("endpoints/decisions/instance_count", 0)],
        f"{DECISIONS}.instance_count",
        "from 1 to 100, not 0",
    ),
    ([changed("endpoints/decisions/instance_count", "1")], f"{DECISIONS}.instance_count", "a whole number"),
    ([changed("endpoints/decisions/instance_count", True)], f"{DECISIONS}.instance_count", "a whole number"),
    ([changed("endpoints/decisions/gpu_layers", -2)], f"{DECISIONS}.gpu_layers", "from -1"),
    (
        [changed("endpoints/decisions/inference_ami_version", "A B")],
        f"{DECISIONS}.inference_ami_version",
        "an AMI",
    ),
    (
        [changed("endpoints/decisions/download_timeout_s", 59)],
        f"{DECISIONS}.download_timeout_s",
        "60 to 3600",
    ),
    (
        [changed("endpoints/decisions/startup_timeout_s", 3601)],
        f"{DECISIONS}.startup_timeout_s",
        "60 to 3600",
    ),
    ([changed("endpoints/decisions/max_tokens", 63)], f"{DECISIONS}.max_tokens", "from 64"),
    (
        [changed("endpoints/decisions/max_request_tokens", 4095)],
        f"{DECISIONS}.max_request_tokens",
        "at least max_tokens",
    ),
    ([changed("endpoints/decisions/max_shared_decisions", 0)], f"{DECISIONS}.max_shared_decisions", "from 1"),
    ([changed("endpoints/decisions/max_body_bytes", 1.5)], f"{DECISIONS}.max_body_bytes", "a whole number"),
    ([changed("endpoints/decisions/batching", "fast")], f"{DECISIONS}.batching", "exact"),
    ([changed("endpoints/decisions/cache_bytes", 0)], f"{DECISIONS}.cache_bytes", "a whole number"),
    ([changed("endpoints/decisions/sequences", 1)], f"{DECISIONS}.sequences", "a whole number"),
    ([changed("endpoints/decisions/deadline_s", 3601)], f"{DECISIONS}.deadline_s", "a whole number"),
    ([changed("endpoints/decisions/threads", 0)], f"{DECISIONS}.threads", "from 1"),
]


@pytest.mark.parametrize(
    ("value", "path", "problem"), ERRORS, ids=[f"{path} {problem}" for _, path, problem in ERRORS]
)
def test_errors_say_where_and_what(value: object, path: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_environments(value, {})
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


def test_every_setting_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    text += (Path(__file__).parents[2] / "docs/standard-endpoint.md").read_text()
    words = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    keys = {
        *settings._ENVIRONMENT_KEYS,
        *COMMON_KEYS,
        *endpoint_settings._LAST_RESORT_KEYS,
        *SEMIF_KEYS,
        *(key for keys in STANDARD_KEYS.values() for key in keys),
        *update_settings._KEYS,
        *model_settings._BUILT_KEYS,
        *model_settings._READY_KEYS,
        *build_settings._KEYS,
        *callers_settings._KEYS,
    }
    assert keys - words == set()
