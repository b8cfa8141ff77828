import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from semif_server import archive as archive_module
from semif_server.archive import open_archive
from semif_server.errors import ArchiveError

CONTENT = b"GGUF" + bytes(range(100))


def put(directory: Path, *names: str, content: bytes = CONTENT) -> None:
    for name in names:
        (directory / name).write_bytes(content)


def put_manifest(directory: Path, *names: str, **changes: Any) -> None:
    files = [
        {"file": name, "bytes": len(CONTENT), "sha256": hashlib.sha256(name.encode()).hexdigest()} | changes
        for name in names
    ]
    (directory / "model-manifest.json").write_text(json.dumps({"version": 1, "files": files}))


def test_the_only_gguf_is_found_and_hashed(tmp_path: Path) -> None:
    put(tmp_path, "model.gguf", "README.md")
    archive = open_archive(tmp_path, None)
    assert archive.gguf == tmp_path / "model.gguf"
    assert archive.shards == (archive.gguf,)
    assert archive.checksum.result(30) == hashlib.sha256(CONTENT).hexdigest() == archive.sha256
    assert archive.sha256_from == "computed"
    assert archive.profile is None


def test_the_manifest_vouches_for_the_checksum(tmp_path: Path) -> None:
    put(tmp_path, "model.gguf")
    put_manifest(tmp_path, "model.gguf", sha256="ab" * 32)
    archive = open_archive(tmp_path, None)
    assert (archive.sha256, archive.sha256_from) == ("ab" * 32, "manifest")


def test_the_facts_of_a_version_2_manifest_are_left_to_others(tmp_path: Path) -> None:
    put(tmp_path, "model.gguf")
    put_manifest(tmp_path, "model.gguf", sha256="ab" * 32)
    path = tmp_path / "model-manifest.json"
    facts = {"version": 2, "license": "mit", "model": {"architecture": "qwen35"}, "of_a_later_packager": 1}
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    assert open_archive(tmp_path, None).sha256 == "ab" * 32
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 3}))
    with pytest.raises(ArchiveError, match="version"):
        open_archive(tmp_path, None)


def test_an_explicit_path_wins_over_the_directory(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf", "b.gguf")
    assert open_archive(Path("/nowhere"), tmp_path / "b.gguf").gguf.name == "b.gguf"


def test_a_projector_is_no_model(tmp_path: Path) -> None:
    put(tmp_path, "mmproj-F16.gguf", "model.gguf", "model.mmproj-Q8_0.gguf")
    assert open_archive(tmp_path, None).gguf.name == "model.gguf"


def test_shards_count_as_one_model(tmp_path: Path) -> None:
    names = [f"m-{index:05d}-of-00003.gguf" for index in (1, 2, 3)]
    put(tmp_path, *names)
    archive = open_archive(tmp_path, None)
    assert archive.gguf.name == names[0]
    assert [shard.name for shard in archive.shards] == names
    put_manifest(tmp_path, *names)
    assert open_archive(tmp_path, None).sha256 == hashlib.sha256(names[0].encode()).hexdigest()


def test_the_archives_own_profile_is_found(tmp_path: Path) -> None:
    put(tmp_path, "model.gguf")
    put(tmp_path, "profile.json", content=b"{}")
    assert open_archive(tmp_path, None).profile == tmp_path / "profile.json"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], r"holds no \*\.gguf model: put one there or set SEMIF_GGUF_PATH"),
        (["mmproj.gguf"], r"projector files, mmproj, are no models"),
        (["b.gguf", "a.gguf"], r"holds 2 models \(a\.gguf, b\.gguf\): keep one or set SEMIF_GGUF_PATH"),
        (["a.gguf", "m-00001-of-00001.gguf"], r"holds 2 models"),
        (["m-00001-of-00002.gguf"], r"m-00002-of-00002\.gguf is missing"),
        (["m-00002-of-00002.gguf"], r"m-00001-of-00002\.gguf is missing"),
    ],
)
def test_anything_but_one_whole_model_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    put(tmp_path, *names)
    with pytest.raises(ArchiveError, match=message):
        open_archive(tmp_path, None)


def test_missing_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"SEMIF_MODEL_DIR=/nowhere: there is no such directory"):
        open_archive(Path("/nowhere"), None)
    with pytest.raises(ArchiveError, match=r"SEMIF_GGUF_PATH=/nowhere/x\.gguf: there is no such file"):
        open_archive(tmp_path, Path("/nowhere/x.gguf"))


def test_an_explicit_later_shard_is_refused_with_the_first(tmp_path: Path) -> None:
    put(tmp_path, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    with pytest.raises(ArchiveError, match=r"later shard; name the first, m-00001-of-00002\.gguf"):
        open_archive(tmp_path, tmp_path / "m-00002-of-00002.gguf")


@pytest.mark.parametrize(
    ("content", "message"), [(b"", r"is empty"), (b"version https://git-lfs", r"is no GGUF file")]
)
def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    put(tmp_path, "model.gguf", content=content)
    with pytest.raises(ArchiveError, match=message):
        open_archive(tmp_path, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bytes": 1}, r"model\.gguf has 104 bytes, but model-manifest\.json says 1"),
        ({"bytes": 0}, r"files\.0\.bytes: "),
        ({"sha256": "AB" * 32}, r"files\.0\.sha256: "),
        ({"file": "other.gguf"}, r"lists other\.gguf, which is missing"),
        ({"file": "../model.gguf"}, r"files\.0\.file: "),
        ({"md5": "x"}, r"files\.0\.md5: "),
    ],
)
def test_a_manifest_that_does_not_fit_refuses_the_start(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    put(tmp_path, "model.gguf")
    put_manifest(tmp_path, "model.gguf", **changes)
    with pytest.raises(ArchiveError, match=message):
        open_archive(tmp_path, None)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "files": []}', '{"version": 1, "files": []}', '{"version": 1}']
)
def test_a_manifest_of_another_shape_refuses_the_start(tmp_path: Path, text: str) -> None:
    put(tmp_path, "model.gguf")
    (tmp_path / "model-manifest.json").write_text(text)
    with pytest.raises(ArchiveError, match=r"model-manifest\.json: .*Package the model again"):
        open_archive(tmp_path, None)


def test_a_manifest_must_list_every_file_of_the_model_once(tmp_path: Path) -> None:
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    put(tmp_path, *names)
    put_manifest(tmp_path, names[0])
    with pytest.raises(ArchiveError, match=r"does not list m-00002-of-00002\.gguf"):
        open_archive(tmp_path, None)
    put_manifest(tmp_path, *names, names[0])
    with pytest.raises(ArchiveError, match=r"listed twice"):
        open_archive(tmp_path, None)


def test_the_start_does_not_wait_for_a_checksum_that_nobody_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "model.gguf")
    may_go_on = threading.Event()
    compute = archive_module._sha256

    def compute_late(path: Path) -> str:
        assert may_go_on.wait(30)
        return compute(path)

    monkeypatch.setattr(archive_module, "_sha256", compute_late)
    archive = open_archive(tmp_path, None)
    assert (archive.sha256, archive.sha256_from) == (None, "computed")
    may_go_on.set()
    assert archive.checksum.result(30) == archive.sha256


def test_a_checksum_that_can_not_be_computed_stays_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "model.gguf")

    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(archive_module, "_sha256", fail)
    archive = open_archive(tmp_path, None)
    assert isinstance(archive.checksum.exception(30), OSError)
    assert archive.sha256 is None


def test_contents_are_held_against_the_manifest_on_request(tmp_path: Path) -> None:
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    put(tmp_path, *names)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    put_manifest(tmp_path, *names, sha256=sha256)
    archive = open_archive(tmp_path, None, "full")
    assert (archive.sha256, archive.sha256_from) == (sha256, "verified")

    put(tmp_path, names[1], content=CONTENT[:-1] + b"!")
    assert open_archive(tmp_path, None).sha256_from == "manifest"
    with pytest.raises(ArchiveError, match=rf"{names[1]} has the SHA-256 \w+, but model-manifest\.json says"):
        open_archive(tmp_path, None, "full")


def test_full_verification_without_a_manifest_settles_the_checksum_first(tmp_path: Path) -> None:
    put(tmp_path, "model.gguf")
    archive = open_archive(tmp_path, None, "full")
    assert (archive.sha256, archive.sha256_from) == (hashlib.sha256(CONTENT).hexdigest(), "computed")


def test_a_directory_that_can_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "model.gguf")

    def refuse(path: Path, *_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ArchiveError, match=r"model\.gguf: can't be read: Permission denied"):
        open_archive(tmp_path, None)
