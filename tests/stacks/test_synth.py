"""The app as the CDK CLI runs it: repeatable to the byte, without credentials, network or Docker; valid."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OFFLINE = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "HOME": "/nonexistent",
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
