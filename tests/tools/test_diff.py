"""`make diff`, on this checkout: without credentials, and true about what changed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_diff(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a CI job without AWS does: with a region and nothing else of AWS."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        [sys.executable, "-m", "tools.diff", *arguments],
        cwd=ROOT,
        env={**inherited, "PATH": path, "AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_base_must_be_named() -> None:
    done = run_diff()

    assert done.returncode == 2
    assert "make diff BASE=origin/main" in done.stderr


def test_an_unknown_base_is_named() -> None:
    done = run_diff("no-such-ref")

    assert done.returncode == 1
    assert "no-such-ref" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_changed_setting_shows_in_its_stack_and_in_no_other(tmp_path: Path) -> None:
    # A commit beside the branch, made without touching the working copy: HEAD with another pool.
    settings = (ROOT / "cdk.json").read_text()
    assert '"ml.c6i.2xlarge"' in settings
    changed = tmp_path / "cdk.json"
    changed.write_text(settings.replace('"ml.c6i.2xlarge"', '"ml.m5.2xlarge"'))
    environment = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index")}
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    environment |= {f"GIT_{name}": "test@example.invalid" for name in names}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("read-tree", "HEAD")
    blob = git("hash-object", "-w", str(changed))
    git("update-index", "--cacheinfo", f"100644,{blob},cdk.json")
    base = git("commit-tree", git("write-tree"), "-p", "HEAD", "-m", "Another pool")

    done = run_diff(base)

    assert done.returncode == 0, done.stderr
    artifacts, _, decisions = (done.stdout + done.stderr).partition("Stack dev/decisions")
    assert "Round1" not in artifacts
    assert "Round1" in decisions
    assert "ml.m5.2xlarge" in decisions
    assert "ml.c6i.2xlarge" in decisions
