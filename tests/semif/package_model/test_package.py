"""From a repository to an archive in a bucket: what is written, when, and what is not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mypy_boto3_s3 import S3Client

from localaws.hub import COMMIT, Fault, Hub
from semif.errors import RefusedError, UsageError
from semif.package_model.package import package
from semif.package_model.recipe import HubSource, Recipe, UriSource
from tests.semif.package_model.conftest import BUCKET, FILE, REPOSITORY, JobOf, Sent, keys, read


def test_a_pinned_gguf_becomes_an_archive(
    *, job: JobOf, recipe: Recipe, s3: S3Client, tiny: Path, tmp_path: Path, hub: Hub
) -> None:
    prefix = f"models/{recipe.sha256}/"
    assert package(recipe, job(prefix=prefix)) == f"s3://{BUCKET}/{prefix}"
    assert keys(s3) == [
        f"{prefix}model-manifest.json",
        f"{prefix}{FILE}",
        f"provenance/models/{recipe.sha256}/provenance.json",
        f"provenance/models/{recipe.sha256}/sbom.cdx.json",
    ]
    assert read(s3, prefix + FILE) == tiny.read_bytes()
    manifest = json.loads(read(s3, f"{prefix}model-manifest.json"))
    assert manifest["version"] == 2
    assert manifest["files"] == [{"file": FILE, "bytes": tiny.stat().st_size, "sha256": recipe.sha256}]
    assert manifest["recipe"] == recipe.to_json()
    assert manifest["sources"] == [
        {
            "uri": f"{hub.url}/{REPOSITORY}/resolve/{COMMIT}/{FILE}",
            "revision": COMMIT,
            "bytes": tiny.stat().st_size,
            "sha256": recipe.sha256,
        }
    ]
    assert manifest["license"] == "mit"
    assert not list((tmp_path / "work").iterdir())


def test_a_second_run_sends_and_fetches_nothing(
    job: JobOf, recipe: Recipe, s3: S3Client, sent: Sent, hub: Hub
) -> None:
    package(recipe, job())
    assert sent.bytes > 800_000
    before = {key: read(s3, key) for key in keys(s3)}
    sent.bytes, sent.calls = 0, []
    hub.requests.clear()
    package(recipe, job())
    assert (sent.bytes, sent.calls) == (0, [])
    assert not [request for request in hub.requests if request.path.endswith(".gguf")]
    assert {key: read(s3, key) for key in keys(s3)} == before


def test_another_checksum_is_refused_before_anything_is_written(
    job: JobOf, recipe: Recipe, s3: S3Client, sent: Sent, tmp_path: Path
) -> None:
    package(recipe, job())
    before = keys(s3)
    sent.calls.clear()
    wanted = replace(recipe, sha256="ab" * 32)
    with pytest.raises(RefusedError) as raised:
        package(wanted, job())
    assert raised.value.code == "checksum_mismatch"
    assert f"has SHA-256 {recipe.sha256}, expected {'ab' * 32}" in raised.value.message
    assert (sent.calls, keys(s3)) == ([], before)
    assert not list((tmp_path / "work").rglob("*.gguf"))


def test_wrong_bytes_of_the_right_length_are_refused_and_the_next_run_recovers(
    job: JobOf, recipe: Recipe, s3: S3Client, hub: Hub
) -> None:
    hub.put_fault(f"{REPOSITORY}/{FILE}", Fault(wrong_bytes=True))
    with pytest.raises(RefusedError, match=str(recipe.sha256)):
        package(recipe, job())
    assert keys(s3) == []
    hub.clear_faults()
    package(recipe, job())
    assert f"models/{recipe.sha256}/model-manifest.json" in keys(s3)


def test_a_branch_is_resolved_and_recorded(job: JobOf, recipe: Recipe, s3: S3Client) -> None:
    package(replace(recipe, source=HubSource(REPOSITORY, "main"), sha256=None), job())
    manifest = json.loads(read(s3, f"models/{recipe.sha256}/model-manifest.json"))
    assert manifest["recipe"]["source"] == {"repository": REPOSITORY, "revision": COMMIT}
    assert manifest["sources"][0]["revision"] == COMMIT


def test_the_hubs_own_checksum_is_held_against_the_bytes(
    job: JobOf, recipe: Recipe, s3: S3Client, hub: Hub
) -> None:
    hub.put_fault(f"{REPOSITORY}/{FILE}", Fault(wrong_bytes=True))
    with pytest.raises(RefusedError, match=f"expected {recipe.sha256}"):
        package(replace(recipe, sha256=None), job())
    assert keys(s3) == []


def test_a_mirror_without_the_hubs_api_will_do(
    job: JobOf, recipe: Recipe, s3: S3Client, hub: Hub, tiny: Path
) -> None:
    uri = f"{hub.url}/files/{REPOSITORY}/{FILE}?signature=secret"
    package(Recipe(UriSource(uri), "other-name.gguf", license="mit"), job())
    manifest = json.loads(read(s3, f"models/{recipe.sha256}/model-manifest.json"))
    assert manifest["files"][0]["file"] == "other-name.gguf"
    assert manifest["sources"][0]["uri"] == uri.partition("?")[0]


def test_s3_and_local_sources(job: JobOf, recipe: Recipe, s3: S3Client, tiny: Path) -> None:
    s3.upload_file(str(tiny), BUCKET, "incoming/tiny.gguf")
    package(replace(recipe, source=UriSource(f"s3://{BUCKET}/incoming/tiny.gguf")), job())
    from_s3 = read(s3, f"models/{recipe.sha256}/{FILE}")
    package(replace(recipe, source=UriSource(str(tiny))), job())
    assert read(s3, f"models/{recipe.sha256}/{FILE}") == from_s3 == tiny.read_bytes()
    assert tiny.exists()


def test_a_wrong_prefix_is_refused_before_the_download(job: JobOf, recipe: Recipe, hub: Hub) -> None:
    with pytest.raises(UsageError, match=f"lies under models/{recipe.sha256}/"):
        package(recipe, job(prefix="models/other/"))
    assert not [request for request in hub.requests if request.path.endswith(".gguf")]


def test_wherever_an_upload_is_cut_off_a_manifest_means_a_whole_archive_with_its_papers(
    job: JobOf, recipe: Recipe, s3: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(recipe, shard_bytes=300_000)
    put_object = s3.put_object
    whole = keys_after_a_run(job, recipe, s3)
    manifest = f"models/{recipe.id}/model-manifest.json"
    assert manifest in whole
    for cut in range(len(whole)):
        empty(s3)
        calls: list[object] = []

        def failing(calls: list[object] = calls, cut: int = cut, **arguments: object) -> object:
            if len(calls) == cut:
                raise KeyboardInterrupt
            calls.append(arguments["Key"])
            return put_object(**arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(s3, "put_object", failing)
        with pytest.raises(KeyboardInterrupt):
            package(recipe, job())
        monkeypatch.setattr(s3, "put_object", put_object)
        assert len(keys(s3)) == cut
        assert manifest not in keys(s3)
    said: list[str] = []
    package(recipe, job(said=said))
    assert keys(s3) == whole
    # Of the papers the provenance stays without a word, being of the same making.
    assert len([line for line in said if line.endswith("already there")]) == len(whole) - 2


def keys_after_a_run(job: JobOf, recipe: Recipe, s3: S3Client) -> list[str]:
    package(recipe, job())
    return keys(s3)


def empty(s3: S3Client) -> None:
    for key in keys(s3):
        s3.delete_object(Bucket=BUCKET, Key=key)
