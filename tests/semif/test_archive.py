"""Model archives on disk and in a bucket (moto's S3)."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws
from mypy_boto3_s3 import S3Client

from semif.archive import read_archive, upload, write_manifest
from semif.aws import open_aws
from semif.errors import NotFoundError, UsageError

SHA = hashlib.sha256(b"GGUF weights").hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_bytes(b"GGUF weights")
    (tmp_path / "README.txt").write_text("not of the archive")
    return tmp_path


@pytest.fixture
def s3() -> Iterator[S3Client]:
    with mock_aws():
        client = open_aws(region="eu-central-1", profile=None).s3()
        client.create_bucket(
            Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        yield client


def keys(s3: S3Client) -> list[str]:
    return [found["Key"] for found in s3.list_objects_v2(Bucket="models").get("Contents", [])]


def test_manifest_of_one_file(folder: Path) -> None:
    for path in (folder, folder / "m.gguf"):
        archive = read_archive(path)
        assert archive.sha256 == SHA
        assert archive.prefix == f"models/{SHA}/"
        assert json.loads(archive.manifest()) == {
            "version": 1,
            "files": [{"file": "m.gguf", "bytes": 12, "sha256": SHA}],
        }


def test_write_manifest_leaves_one_file(folder: Path) -> None:
    archive = read_archive(folder)
    assert write_manifest(archive, folder).read_bytes() == archive.manifest()
    assert sorted(path.name for path in folder.iterdir()) == ["README.txt", "m.gguf", "model-manifest.json"]


def test_shards_are_one_model(tmp_path: Path) -> None:
    for index in (1, 2, 3):
        (tmp_path / f"q-0000{index}-of-00003.gguf").write_bytes(bytes([index]))
    for path in (tmp_path, tmp_path / "q-00002-of-00003.gguf"):
        archive = read_archive(path)
        assert [file.name[2:7] for file in archive.ggufs] == ["00001", "00002", "00003"]
        assert archive.sha256 == hashlib.sha256(b"\x01").hexdigest()


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "no_model"),
        (["a.gguf", "b.gguf"], "several_models"),
        (["a-00001-of-00002.gguf", "mmproj.gguf"], "several_models"),
        (["a-00001-of-00003.gguf", "a-00003-of-00003.gguf"], "missing_shards"),
        (["a-00002-of-00002.gguf"], "missing_shards"),
    ],
)
def test_not_one_model(tmp_path: Path, names: list[str], code: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UsageError) as raised:
        read_archive(tmp_path)
    assert raised.value.code == code
    assert all(name in raised.value.message for name in names)


def test_no_such_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_archive(tmp_path / "nothing")


def test_upload_then_nothing_to_send(folder: Path, s3: S3Client) -> None:
    (folder / "profile.json").write_text("{}")
    archive, said = read_archive(folder), list[str]()
    assert upload(s3, "models", archive, say=said.append) == f"s3://models/models/{SHA}/"
    assert said == [
        "m.gguf: sending 0.0 MB",
        "profile.json: sending 0.0 MB",
        "model-manifest.json: sending 0.0 MB",
    ]
    assert keys(s3) == [f"models/{SHA}/{name}" for name in ("m.gguf", "model-manifest.json", "profile.json")]
    sent = s3.get_object(Bucket="models", Key=f"models/{SHA}/model-manifest.json")["Body"].read()
    assert sent == archive.manifest()
    said.clear()
    upload(s3, "models", archive, say=said.append)
    assert said == [
        "m.gguf: already there",
        "profile.json: already there",
        "model-manifest.json: already there",
    ]


@pytest.mark.parametrize("there", [b"GGUF weightz", b"short"])
def test_other_content_under_the_same_key_is_replaced(folder: Path, s3: S3Client, there: bytes) -> None:
    key = f"models/{SHA}/m.gguf"
    s3.put_object(
        Bucket="models", Key=key, Body=there, Metadata={"sha256": hashlib.sha256(there).hexdigest()}
    )
    upload(s3, "models", read_archive(folder))
    assert s3.get_object(Bucket="models", Key=key)["Body"].read() == b"GGUF weights"


def test_foreign_file_under_the_prefix_stops_the_upload(folder: Path, s3: S3Client) -> None:
    s3.put_object(Bucket="models", Key=f"models/{SHA}/profile.json", Body=b"{}")
    with pytest.raises(UsageError, match=r"profile\.json"):
        upload(s3, "models", read_archive(folder))
    assert keys(s3) == [f"models/{SHA}/profile.json"]


def test_no_bucket(folder: Path, s3: S3Client) -> None:
    with pytest.raises(NotFoundError, match="s3://absent/models/"):
        upload(s3, "absent", read_archive(folder))
