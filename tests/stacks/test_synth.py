"""The app as the CDK CLI runs it: repeatable to the byte, without credentials, network or Docker; valid."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stacks import build_sources
from stacks.build_settings import BINDINGS, PYTHON_IMAGE
from stacks.constructs import function_code
from stacks.dlc import DIGESTS, PUBLIC_REPOSITORY, Flavour
from stacks.settings import parse_environments

ROOT = Path(__file__).parents[2]
OFFLINE = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "HOME": os.environ["HOME"],  # jsii's cache
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "https_proxy": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "DOCKER_HOST": "tcp://127.0.0.1:9",
    "CDK_DOCKER": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def synth(out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**OFFLINE, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": json.dumps(context), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_two_synths_are_equal_to_the_byte(tmp_path: Path) -> None:
    credentials = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "CDK_DEFAULT_ACCOUNT": "111122223333",
    }
    first = synth(tmp_path / "a", AWS_REGION="us-east-1", CDK_VALIDATION="false")
    second = synth(tmp_path / "b", AWS_REGION="us-east-1", CDK_VALIDATION="false", **credentials)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    python = [name for name in contents(tmp_path / "a") if name.endswith((".py", ".pyc"))]
    assert python
    packages = ("instance_pool", "build_run", "semif", "semif_server", "image_build", "image")
    assert all(name.split("/")[1] in packages and name.endswith(".py") for name in python)


def changed(before: Any, after: Any, path: str = "") -> set[str]:
    """Paths of the values that differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {p for key in before for p in changed(before[key], after[key], f"{path}/{key}")}
    return set() if before == after else {path}


def append(path: Path) -> None:
    with path.open("a") as source:
        source.write("# one line more\n")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what goes into assets, for tests that change it."""
    for name in ("container", "lambda", "semif"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build_sources, "CONTAINER_SOURCES", tmp_path / "container")
    monkeypatch.setattr(build_sources, "PROJECT_ROOT", tmp_path)
    monkeypatch.setattr(function_code, "LAMBDA_SOURCES", tmp_path / "lambda")
    return tmp_path


def content_hash(environment: dict[str, Any], flavour: Flavour, build: object = None) -> str:
    """The hash that names an image, as the sources are now."""
    import aws_cdk as cdk  # noqa: PLC0415 - jsii starts a node process

    pool = {"cpu": "ml.c6i.large", "cuda": "ml.g5.xlarge"}[flavour]
    endpoints = {"decisions": {"pool": [pool]}}
    (settings,) = parse_environments([environment | {"endpoints": endpoints, "build": build}], {})
    image = settings.build.images[flavour]
    source = build_sources.image_source(cdk.Stack(cdk.App()), image)
    return build_sources.image_content_hash(source, image, settings.build.scan_severity)


@pytest.mark.parametrize(
    ("changed_file", "moves"),
    [
        ("container/semif_server/settings.py", (True, True)),
        ("container/Dockerfile", (True, False)),
        ("container/Dockerfile.gpu", (False, True)),
        ("container/requirements-bindings-cpu.txt", (True, False)),
        ("container/requirements-bindings-cuda.txt", (False, True)),
        ("container/requirements-server.txt", (True, True)),
        ("container/semif_server/__pycache__/settings.cpython-311.pyc", (False, False)),
        ("tests/container/test_settings.py", (False, False)),
    ],
)
def test_an_image_is_rebuilt_for_its_own_inputs_alone(
    sources: Path, environment: dict[str, Any], changed_file: str, moves: tuple[bool, bool]
) -> None:
    before = content_hash(environment, "cpu"), content_hash(environment, "cuda")
    (sources / changed_file).parent.mkdir(parents=True, exist_ok=True)
    append(sources / changed_file)
    after = content_hash(environment, "cpu"), content_hash(environment, "cuda")
    assert tuple(old != new for old, new in zip(before, after, strict=True)) == moves


def test_the_base_images_are_inputs_of_an_image(environment: dict[str, Any]) -> None:
    builds: list[dict[str, Any]] = [
        {},
        {"base_image_cpu": f"registry.example/llama-cpp@sha256:{'1' * 64}"},
        {"python_image": f"registry.example/python@sha256:{'1' * 64}"},
        {"bindings_cpu": "requirements-bindings-cuda.txt"},
        {"scan_severity": "HIGH"},
    ]
    hashes = [content_hash(environment, "cpu", build) for build in builds]
    assert len(set(hashes)) == len(builds)
    # Where the parts come from makes no other image.
    same = {"package_index": "https://mirror.example/simple", "timeout_minutes": 9}
    assert content_hash(environment, "cpu", same) == hashes[0]


def test_the_dockerfiles_defaults_are_the_pins_of_the_stacks() -> None:
    for flavour, dockerfile in build_sources.DOCKERFILES.items():
        text = (ROOT / "container" / dockerfile).read_text()
        defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
        assert defaults["BASE_IMAGE"] == f"{PUBLIC_REPOSITORY}@{DIGESTS[flavour]}"
        assert defaults["PYTHON_IMAGE"] == PYTHON_IMAGE
        assert defaults["BINDINGS"] == BINDINGS[flavour]


def test_hashes_follow_content_alone(synthesize: Any, environment: dict[str, Any], sources: Path) -> None:
    first = synthesize(environment)
    for package in (
        sources / "container/semif_server",
        sources / "lambda/instance_pool",
        sources / "lambda/build_run",
        sources / "semif",
    ):
        (package / "__pycache__").mkdir()
        (package / "__pycache__/settings.cpython-311.pyc").write_bytes(b"1")
        (package / "stray.pyc").write_bytes(b"2")
        for module in package.rglob("*.py"):
            os.utime(module, (1, 1))
    (sources / "lambda/other_package").mkdir()
    (sources / "lambda/other_package/handler.py").write_text("pass\n")
    assert synthesize(environment) == first
    append(sources / "container/semif_server/settings.py")
    second = synthesize(environment)
    assert second["semif-dev-artifacts"] == first["semif-dev-artifacts"]
    (source,) = changed(first["semif-dev-builds"], second["semif-dev-builds"])
    assert source == "/Resources/ImageCpu/Properties/Source/Location/Fn::Join"
    image = changed(first["semif-dev-decisions"], second["semif-dev-decisions"])
    properties = {place.partition("/Properties/")[2] for place in image if "/ImageCpuBuild" in place}
    assert len(properties) == len(image)
    assert properties == {
        *("ContentHash", "ImageTag", "Environment/SEMIF_IMAGE_TAG", "SourceLocation/Fn::Join")
    }
    for name, functions in (("instance_pool", "DecisionsInstancePool"), ("build_run", "BuildRun")):
        append(sources / "lambda" / name / "handler.py")
        third = synthesize(environment)
        moved = changed(second["semif-dev-decisions"], third["semif-dev-decisions"])
        assert len(moved) == 2
        for place in moved:
            assert place.startswith(f"/Resources/{functions}")
            assert place.endswith("/Properties/Code/S3Key")
        second = third
    append(sources / "semif/archive.py")
    fourth = synthesize(environment)
    # The packager has changed, not what it makes: the archive is looked for under the same name.
    (moved_source,) = changed(second["semif-dev-decisions"], fourth["semif-dev-decisions"])
    assert re.fullmatch(r"/Resources/ArchiveBuild\w+/Properties/SourceLocation/Fn::Join", moved_source)


def test_cdk_json_passes_the_validator_and_cfn_lint(tmp_path: Path) -> None:
    done = synth(tmp_path / "out", AWS_REGION="eu-central-1")
    assert done.returncode == 0, done.stderr
    templates = sorted(str(path) for path in (tmp_path / "out").rglob("*.template.json"))
    assert len(templates) == 4
    lint = subprocess.run(
        [str(Path(sys.executable).parent / "cfn-lint"), "--ignore-checks", "W3005", "--", *templates],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        # The CDK CLI sets CDK_DEFAULT_REGION to us-east-1 where nobody chose a region.
        (
            {"CDK_DEFAULT_REGION": "us-east-1"},
            "settings: environments[0].region: is missing: set it, or set AWS_REGION",
        ),
        ({"CDK_CONTEXT_JSON": "{}"}, "settings: environments: must be a list of at least one environment"),
    ],
)
def test_wrong_settings_end_in_one_line(tmp_path: Path, variables: dict[str, str], message: str) -> None:
    done = synth(tmp_path / "out", **variables)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr
