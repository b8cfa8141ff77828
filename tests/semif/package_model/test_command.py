"""The command line: what it makes of flags and environment, and how errors leave it."""

import json
from pathlib import Path

import pytest
from mypy_boto3_s3 import S3Client
from typer.testing import CliRunner

from localaws.hub import COMMIT, Fault, Hub
from semif.cli import app
from semif.errors import UsageError
from semif.package_model.command import recipe_from_flags
from semif.package_model.recipe import HubSource, Recipe, UriSource
from tests.semif.package_model.conftest import BUCKET, FILE, REPOSITORY, keys


def from_flags(source: str | None, **flags: object) -> Recipe:
    unset = dict.fromkeys(("revision", "file", "sha256", "quantize", "shard_bytes", "license_name"))
    return recipe_from_flags(source, **{"convert": False, **unset, **flags})  # type: ignore[arg-type]


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_flags("acme/m", file="m.gguf").source == HubSource("acme/m", "main")
    assert from_flags("acme/m", file="m.gguf", revision=COMMIT).source == HubSource("acme/m", COMMIT)
    url = "https://mirror.example/a/m.gguf?sig=1"
    assert from_flags(url) == Recipe(UriSource(url), "m.gguf")
    assert from_flags("s3://bucket/a/m.gguf").file == "m.gguf"
    assert from_flags("./m.gguf").source == UriSource("./m.gguf")
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "m").mkdir()
    assert from_flags("acme/m", convert=True) == Recipe(UriSource("acme/m"), "m-F16.gguf", None, "F16")
    made = from_flags("acme/n", quantize="Q4_K_M")
    assert made == Recipe(HubSource("acme/n", "main"), "n-Q4_K_M.gguf", None, "Q4_K_M")


@pytest.mark.parametrize(
    ("source", "flags", "code"),
    [
        (None, {"file": "m.gguf"}, "no_source"),
        ("acme/m", {}, "no_file"),
        ("https://x/m.gguf", {"revision": "main"}, "no_repository"),
        ("https://x/m.bin", {}, "bad_recipe"),
        ("acme/m", {"quantize": "Q2_K"}, "bad_recipe"),
    ],
)
def test_flags_that_do_not_go_together(source: str | None, flags: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as raised:
        from_flags(source, **flags)
    assert raised.value.code == code


def run(hub: Hub, tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app,
        ["package-model", *arguments, "--work", str(tmp_path / "work")],
        env={"HF_ENDPOINT": hub.url, "AWS_REGION": "us-east-1", "HF_TOKEN": "", **environment},
    )
    return result.exit_code, result.stdout, result.stderr


def test_as_a_build_calls_it(hub: Hub, tmp_path: Path, s3: S3Client, recipe: Recipe) -> None:
    prefix = f"models/{recipe.sha256}/"
    arguments = ("--recipe", recipe.canonical(), "--bucket", BUCKET, "--prefix", prefix)
    code, out, err = run(hub, tmp_path, *arguments, CODEBUILD_BUILD_ARN="arn:aws:codebuild:x:1:build/a:b")
    assert (code, out.strip()) == (0, f"s3://{BUCKET}/{prefix}"), err
    key = f"provenance/models/{recipe.sha256}/provenance.json"
    statement = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    assert statement["predicate"]["runDetails"]["metadata"]["invocationId"].endswith("build/a:b")


def test_by_hand_into_a_folder(hub: Hub, tmp_path: Path, tiny: Path) -> None:
    out = tmp_path / "out"
    code, printed, err = run(
        hub, tmp_path, REPOSITORY, "--file", FILE, "--output", str(out), "--license", "x"
    )
    assert (code, printed.strip()) == (0, str(out)), err
    assert (out / FILE).read_bytes() == tiny.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "fault", "code", "said"),
    [
        ((), None, 2, "no_output"),
        (("--bucket", BUCKET, "--output", "x"), None, 2, "several_outputs"),
        (("--bucket", BUCKET, "--format", "zip"), None, 2, "bad_format"),
        (("--bucket", BUCKET, "--sha256", "ab" * 32), None, 3, "checksum_mismatch"),
        (("--bucket", BUCKET), Fault(status=401), 5, "gated_repository"),
        (("--bucket", BUCKET), Fault(status=404), 5, "no_such_file"),
        (("--bucket", "absent-bucket"), None, 5, "NoSuchBucket"),
        (("--bucket", BUCKET, "--recipe", "{}"), None, 2, "both_sources"),
    ],
)
def test_errors_have_a_code_a_next_step_and_an_exit_code(
    *,
    hub: Hub,
    tmp_path: Path,
    s3: S3Client,
    arguments: tuple[str, ...],
    fault: Fault | None,
    code: int,
    said: str,
) -> None:
    if fault is not None:
        hub.put_fault(f"{REPOSITORY}/{FILE}", fault)
    found, _, err = run(hub, tmp_path, REPOSITORY, "--file", FILE, *arguments)
    assert (found, f"error: {said}" in err, "\nnext: " in err) == (code, True, True), err
    assert keys(s3) == []


def test_two_runs_do_not_share_a_work_folder(hub: Hub, tmp_path: Path, recipe: Recipe) -> None:
    import fcntl  # noqa: PLC0415

    from semif.package_model.acquire import work_key  # noqa: PLC0415

    folder = tmp_path / "work" / work_key(recipe)
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = run(hub, tmp_path, "--recipe", recipe.canonical(), "--output", str(tmp_path / "out"))
    assert (code, "error: busy" in err) == (2, True)
