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

from stacks import artifacts
from stacks.constructs import instance_pool_provider

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
        timeout=120,
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
    assert all("/instance_pool/" in name and name.endswith(".py") for name in python)


def changed(before: Any, after: Any, path: str = "") -> set[str]:
    """Paths of the values that differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {p for key in before for p in changed(before[key], after[key], f"{path}/{key}")}
    return set() if before == after else {path}


def test_hashes_follow_content_alone(
    synthesize: Any, environment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((artifacts, "container"), (instance_pool_provider, "lambda")):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(module, f"{name.upper()}_SOURCES", tmp_path / name)
    first = synthesize(environment)
    for package in (tmp_path / "container/semif_server", tmp_path / "lambda/instance_pool"):
        (package / "__pycache__").mkdir()
        (package / "__pycache__/settings.cpython-311.pyc").write_bytes(b"1")
        (package / "stray.pyc").write_bytes(b"2")
        for path in package.rglob("*.py"):
            os.utime(path, (1, 1))
    (tmp_path / "lambda/other_package").mkdir()
    (tmp_path / "lambda/other_package/handler.py").write_text("pass\n")
    assert synthesize(environment) == first
    with (tmp_path / "container/semif_server/settings.py").open("a") as source:
        source.write("# one line more\n")
    second = synthesize(environment)
    output, parameter = sorted(changed(first["semif-dev-artifacts"], second["semif-dev-artifacts"]))
    assert output == "/Outputs/ImageUri/Value/Fn::Join"
    assert re.fullmatch(r"/Resources/ImageUriParameter\w+/Properties/Value/Fn::Join", parameter)
    (only,) = changed(first["semif-dev-decisions"], second["semif-dev-decisions"])
    assert only.endswith("/Properties/PrimaryContainer/Image/Fn::Join")
    with (tmp_path / "lambda/instance_pool/walk.py").open("a") as source:
        source.write("# one line more\n")
    third = synthesize(environment)
    assert third["semif-dev-artifacts"] == second["semif-dev-artifacts"]
    functions = changed(second["semif-dev-decisions"], third["semif-dev-decisions"])
    assert {path.rpartition("/Properties/")[2] for path in functions} == {"Code/S3Key"}
    assert len(functions) == 2


def test_cdk_json_passes_the_validator_and_cfn_lint(tmp_path: Path) -> None:
    done = synth(tmp_path / "out", AWS_REGION="eu-central-1")
    assert done.returncode == 0, done.stderr
    templates = sorted(str(path) for path in (tmp_path / "out").rglob("*.template.json"))
    assert len(templates) == 2
    lint = subprocess.run(
        [str(Path(sys.executable).parent / "cfn-lint"), "--ignore-checks", "W3005", "--", *templates],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
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
