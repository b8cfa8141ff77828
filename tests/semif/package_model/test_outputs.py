"""The ways out: model.tar.gz, shards, a folder; the papers; and how much of memory and disk they take."""

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from mypy_boto3_s3 import S3Client

from localaws.hub import Hub
from semif import s3_upload
from semif.archive import MANIFEST, FileRange, described
from semif.errors import UsageError
from semif.package_model.outputs import FolderOutput
from semif.package_model.package import package
from semif.package_model.recipe import Recipe, UriSource
from semif.package_model.tarball import tar_gz
from semif_server.archive import open_archive
from tests.semif.package_model.conftest import BUCKET, FILE, REPOSITORY, JobOf, Sent, keys, read


def test_model_tar_gz(
    *, job: JobOf, recipe: Recipe, s3: S3Client, sent: Sent, tmp_path: Path, hub: Hub
) -> None:
    key = f"archives/{recipe.sha256}/model.tar.gz"
    assert package(recipe, job(layout="tar.gz")) == f"s3://{BUCKET}/{key}"
    assert keys(s3)[0] == key
    data = read(s3, key)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        assert [(m.name, m.mtime, m.uid, m.uname) for m in tar] == [(FILE, 0, 0, ""), (MANIFEST, 0, 0, "")]
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert open_archive(tmp_path / "unpacked", None).sha256 == recipe.sha256
    papers = json.loads(read(s3, f"provenance/models/{recipe.sha256}/provenance.json"))
    assert papers["subject"] == [
        {"name": "model.tar.gz", "digest": {"sha256": hashlib.sha256(data).hexdigest()}}
    ]
    sent.calls.clear()
    hub.requests.clear()
    package(recipe, job(layout="tar.gz"))
    assert sent.calls == []
    assert not [request for request in hub.requests if request.path.endswith(".gguf")]


def test_a_tarball_that_is_there_without_its_papers_is_not_sent_again(
    job: JobOf, recipe: Recipe, s3: S3Client, sent: Sent
) -> None:
    package(recipe, job(layout="tar.gz"))
    provenance = f"provenance/models/{recipe.sha256}/provenance.json"
    subject = json.loads(read(s3, provenance))["subject"]
    s3.delete_object(Bucket=BUCKET, Key=provenance)
    sent.bytes = 0
    package(recipe, job(layout="tar.gz"))
    assert 0 < sent.bytes < 10_000
    assert json.loads(read(s3, provenance))["subject"] == subject


def test_the_same_files_give_the_same_tarball(tiny: Path) -> None:
    file = described(FILE, [FileRange(tiny, 0, tiny.stat().st_size)])
    one, other = (b"".join(tar_gz([file, described("m.json", [b"{}"])])) for _ in range(2))
    assert one == other
    assert one[4:8] == bytes(4)
    assert len(one) < tiny.stat().st_size * 1.01 + 10_000


def test_shards_are_listed_and_served(job: JobOf, recipe: Recipe, s3: S3Client, tmp_path: Path) -> None:
    recipe = replace(recipe, shard_bytes=300_000)
    address = package(recipe, job(prefix=f"models/{recipe.id}/"))
    prefix = address.removeprefix(f"s3://{BUCKET}/")
    assert prefix == f"models/{recipe.id}/"
    folder = tmp_path / "model"
    folder.mkdir()
    for key in keys(s3):
        if key.startswith(prefix):
            (folder / key.removeprefix(prefix)).write_bytes(read(s3, key))
    archive = open_archive(folder, None)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert [path.name for path in archive.shards] == [entry["file"] for entry in manifest["files"]]
    assert len(archive.shards) == 4
    assert archive.sha256 == manifest["files"][0]["sha256"]
    assert manifest["sources"][0]["sha256"] == recipe.sha256


def test_a_set_of_shards_is_packaged_as_it_is(
    job: JobOf, recipe: Recipe, s3: S3Client, tmp_path: Path
) -> None:
    package(replace(recipe, shard_bytes=300_000), job())
    names = [key.rpartition("/")[2] for key in keys(s3) if key.endswith(".gguf")]
    for key in keys(s3):
        if key.endswith(".gguf"):
            (tmp_path / "hub" / REPOSITORY / key.rpartition("/")[2]).write_bytes(read(s3, key))
            s3.delete_object(Bucket=BUCKET, Key=key)
    address = package(replace(recipe, file=names[0], sha256=None), job())
    prefix = address.removeprefix(f"s3://{BUCKET}/")
    manifest = json.loads(read(s3, prefix + MANIFEST))
    assert [entry["file"] for entry in manifest["files"]] == names
    assert len(manifest["sources"]) == 4
    assert manifest["model"]["vocabulary_tokens"] == 269
    with pytest.raises(UsageError, match="later shard"):
        package(replace(recipe, file=names[1], sha256=None), job())


def test_shards_whose_checksums_nobody_knows_are_refused(job: JobOf, recipe: Recipe, hub: Hub) -> None:
    uri = f"{hub.url}/files/{REPOSITORY}/x-00001-of-00002.gguf"
    with pytest.raises(UsageError, match=r"no checksum is known of x-00002-of-00002\.gguf"):
        package(Recipe(UriSource(uri), "x-00001-of-00002.gguf", sha256="1" * 64), job())
    assert not [request for request in hub.requests if request.path.endswith(".gguf")]


@pytest.mark.parametrize("layout", ["prefix", "tar.gz"])
def test_a_folder(job: JobOf, recipe: Recipe, tmp_path: Path, tiny: Path, layout: str) -> None:
    folder, said = tmp_path / "out", list[str]()
    output = FolderOutput(folder, layout, said.append, tmp_path / "work")  # type: ignore[arg-type]
    package(recipe, replace(job(), output=output))
    assert any("writing" in line for line in said) == (layout == "tar.gz")  # the GGUF itself is not copied
    assert not list((tmp_path / "work").iterdir())
    names = {FILE, MANIFEST} if layout == "prefix" else {"model.tar.gz"}
    assert {path.name for path in folder.iterdir()} == names | {"provenance"}
    assert {path.name for path in (folder / "provenance").iterdir()} == {"sbom.cdx.json", "provenance.json"}
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    package(recipe, replace(job(), output=output))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_with_another_model_is_left_alone(job: JobOf, recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"other\.gguf"):
        package(recipe, replace(job(), output=FolderOutput(tmp_path / "out", "prefix", print)))


def test_the_papers(job: JobOf, recipe: Recipe, s3: S3Client) -> None:
    package(recipe, job(invocation="arn:aws:codebuild:x", builder="urn:b", tools={"semif": "1"}))
    bom = read(s3, f"provenance/models/{recipe.id}/sbom.cdx.json").decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bom) is None
    (model,) = json.loads(bom)["components"]
    assert model["type"] == "machine-learning-model"
    assert model["licenses"] == [{"license": {"id": "MIT"}}]
    assert model["hashes"] == [{"alg": "SHA-256", "content": recipe.sha256}]
    statement = json.loads(read(s3, f"provenance/models/{recipe.id}/provenance.json"))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": FILE, "digest": {"sha256": recipe.sha256}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"recipe": recipe.to_json()}
    assert definition["resolvedDependencies"][0]["digest"] == {"sha256": recipe.sha256}
    assert statement["predicate"]["runDetails"]["metadata"]["invocationId"] == "arn:aws:codebuild:x"


def test_parts_are_few_enough_for_any_model() -> None:
    for size in (1, 8 << 20, 100 << 30, 4 << 40):
        part = s3_upload.part_bytes(size)
        assert part >= s3_upload.LEAST_PART_BYTES
        assert size / part < s3_upload.MOST_PARTS


def test_a_large_object_goes_in_parts_and_a_failed_one_leaves_none(s3: S3Client) -> None:
    content = random.Random(1).randbytes(20_000_000)  # noqa: S311 - any bytes will do

    def chunks(fails: bool) -> Iterator[bytes]:
        for start in range(0, len(content), 300_000):
            if fails and start > 10_000_000:
                raise KeyboardInterrupt
            yield content[start : start + 300_000]

    def put(fails: bool) -> None:
        s3_upload.put_stream(
            s3, BUCKET, "big", chunks(fails), size_bytes=len(content), metadata={"a": "b"},
            content_type="x/y",
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        put(fails=True)
    assert keys(s3) == []
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)
    put(fails=False)
    got = s3.get_object(Bucket=BUCKET, Key="big")
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (content, {"a": "b"}, "x/y")
