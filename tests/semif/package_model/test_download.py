"""Downloads from a server that breaks, lies, refuses or hands over to another one."""

import hashlib
import random
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from mypy_boto3_s3 import S3Client

from localaws.hub import COMMIT, Fault, Hub
from semif.errors import NotFoundError, RetryableError, SemifError, ServiceError
from semif.package_model.download import ATTEMPTS, Answer, Validator, fetch
from semif.package_model.http_source import HttpSource
from semif.package_model.http_source import Hub as HubAddress
from semif.package_model.recipe import HubSource
from semif.package_model.s3_source import S3Source
from tests.semif.package_model.conftest import BUCKET

NAME = "acme/big/big.gguf"
SIZE = 5_000_000
CONTENT = random.Random(0).randbytes(SIZE)  # noqa: S311 - any bytes will do


@pytest.fixture
def big(hub: Hub, tmp_path: Path) -> Path:
    """A file of 5 MB on the hub."""
    path = tmp_path / "hub" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "big.gguf"


def source(hub: Hub, http: httpx.Client, token: str = "") -> HttpSource:
    address = HubAddress(hub.url, token)
    return HttpSource(http, address, address.file_url(HubSource("acme/big", COMMIT), "big.gguf"))


def bring(what: HttpSource | S3Source, target: Path) -> list[str]:
    said: list[str] = []
    fetch(what, target, say=said.append, pause=lambda _s: None)
    return said


def transfers(hub: Hub) -> list[tuple[str | None, int]]:
    return [(r.range, r.sent_bytes) for r in hub.requests if r.path.endswith("big.gguf")]


def test_a_broken_connection_is_resumed_where_it_broke(
    hub: Hub, http: httpx.Client, big: Path, target: Path
) -> None:
    hub.put_fault(NAME, Fault(cut_after_bytes=2_000_000))
    bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["big.gguf"]
    assert transfers(hub) == [
        (None, 2_000_000), ("bytes=2000000-", 2_000_000), ("bytes=4000000-", 1_000_000)
    ]  # fmt: skip


def test_a_download_that_never_ends_is_given_up_and_the_next_run_goes_on(
    hub: Hub, http: httpx.Client, big: Path, target: Path
) -> None:
    hub.put_fault(NAME, Fault(cut_after_bytes=1000))
    with pytest.raises(RetryableError) as raised:
        bring(source(hub, http), target)
    assert raised.value.code == "truncated_download"
    assert f"{ATTEMPTS * 1000:,} of {SIZE:,} bytes" in raised.value.message
    assert not target.exists()
    hub.clear_faults()
    hub.requests.clear()
    bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT
    assert transfers(hub) == [(f"bytes={ATTEMPTS * 1000}-", SIZE - ATTEMPTS * 1000)]


def test_a_server_that_ignores_ranges_is_asked_for_all_again(
    hub: Hub, http: httpx.Client, big: Path, target: Path
) -> None:
    hub.put_fault(NAME, Fault(cut_after_bytes=2_000_000, cuts=1, ignore_range=True))
    bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT
    assert transfers(hub) == [(None, 2_000_000), ("bytes=2000000-", SIZE)]


def test_a_server_that_ignores_ranges_and_always_breaks_is_given_up(
    hub: Hub, http: httpx.Client, big: Path, target: Path
) -> None:
    hub.put_fault(NAME, Fault(cut_after_bytes=2_000_000, ignore_range=True))
    with pytest.raises(RetryableError, match="broke off"):
        bring(source(hub, http), target)
    assert len(transfers(hub)) == ATTEMPTS


@pytest.mark.parametrize("no_etag", [False, True])
def test_a_file_that_changes_in_between_is_never_mixed(
    hub: Hub, http: httpx.Client, big: Path, target: Path, no_etag: bool
) -> None:
    hub.put_fault(NAME, Fault(cut_after_bytes=1000, no_etag=no_etag))
    with pytest.raises(RetryableError):
        bring(source(hub, http), target)
    changed = CONTENT[::-1]
    big.write_bytes(changed)
    hub.put_fault(NAME, Fault(no_etag=no_etag))
    bring(source(hub, http), target)
    assert target.read_bytes() == changed


def test_an_answer_without_length_is_taken_as_it_ends(
    hub: Hub, http: httpx.Client, big: Path, target: Path
) -> None:
    hub.put_fault(NAME, Fault(no_length=True))
    bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(hub: Hub, http: httpx.Client, big: Path, target: Path) -> None:
    hub.put_fault(NAME, Fault(status=503, statuses=2))
    said = bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT
    assert len([line for line in said if "HTTP 503" in line]) == 2


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "no_such_file"), (400, "http_error"), (503, "source_unreachable"), (401, "gated_repository")],
)
def test_http_errors_are_named(
    *, hub: Hub, http: httpx.Client, big: Path, target: Path, status: int, code: str
) -> None:
    hub.put_fault(NAME, Fault(status=status))
    with pytest.raises(SemifError) as raised:
        bring(source(hub, http), target)
    assert raised.value.code == code
    assert f"HTTP {status}" in raised.value.message
    assert raised.value.next_step


def test_a_gated_repository_wants_its_token(tmp_path: Path, http: httpx.Client, target: Path) -> None:
    folder = tmp_path / "gated"
    (folder / "acme/big").mkdir(parents=True)
    (folder / NAME).write_bytes(CONTENT)
    with Hub(folder, gated={"acme/big": "hf_right"}) as gated:
        for token, code in (("", "gated_repository"), ("hf_wrong", "token_refused")):
            with pytest.raises(ServiceError) as raised:
                bring(source(gated, http, token), target)
            assert raised.value.code == code
            assert "HF_TOKEN" in raised.value.next_step
            assert "hf_" not in raised.value.report()
        bring(source(gated, http, "hf_right"), target)
    assert target.read_bytes() == CONTENT


def test_the_token_does_not_follow_a_redirect_to_another_host(
    hub: Hub, http: httpx.Client, big: Path, target: Path, tmp_path: Path
) -> None:
    with Hub(tmp_path / "hub") as other:
        hub.put_fault(NAME, Fault(redirect=f"{other.url}/files/{NAME}"))
        bring(source(hub, http, "hf_secret"), target)
        assert [request.authorization for request in other.requests] == [None]
    assert [request.authorization for request in hub.requests] == ["Bearer hf_secret"]
    assert target.read_bytes() == CONTENT


def test_the_token_is_for_the_hub_alone_and_never_in_the_clear() -> None:
    address = HubAddress("https://hub.example", "hf_secret")
    assert address.headers("https://hub.example/a") == {"Authorization": "Bearer hf_secret"}
    for url in ("http://hub.example/a", "https://hub.example:444/a", "https://hub.example.evil/a",
                "https://hub.example@evil/a"):  # fmt: skip
        assert address.headers(url) == {}
    assert HubAddress("http://hub.example", "hf_secret").headers("http://hub.example/a") == {}


def test_no_server_at_all(http: httpx.Client, target: Path) -> None:
    with pytest.raises(RetryableError, match="nothing-here") as raised:
        bring(HttpSource(http, HubAddress(), "http://127.0.0.1:9/nothing-here"), target)
    assert raised.value.code == "source_unreachable"


def test_too_little_room_is_said_before_anything_is_written(
    hub: Hub, http: httpx.Client, big: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(target.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=SIZE))
    with pytest.raises(ServiceError) as raised:
        bring(source(hub, http), target)
    assert raised.value.code == "disk_full"
    assert "5,000,000 bytes free" in raised.value.message
    assert not list(target.parent.iterdir())


def test_a_disk_that_fills_up_while_writing(hub: Hub, http: httpx.Client, big: Path, target: Path) -> None:
    part = target.with_name(f".{target.name}.part")
    hub.put_fault(NAME, Fault(cut_after_bytes=0, cuts=1))
    part.symlink_to("/dev/full")
    with pytest.raises(ServiceError) as raised:
        fetch(Unremoving(source(hub, http), part), target, pause=lambda _s: None)
    assert raised.value.code == "disk_full"
    assert "goes on from there" in raised.value.next_step
    part.unlink()
    bring(source(hub, http), target)
    assert target.read_bytes() == CONTENT


class Unremoving:
    """A source that puts the full device back in the part's place each time the transfer begins."""

    def __init__(self, inner: HttpSource, part: Path) -> None:
        self.inner = inner
        self.part = part
        self.address = inner.address

    def open(self, start: int, validator: Validator | None) -> AbstractContextManager[Answer]:
        if not self.part.is_symlink():
            self.part.symlink_to("/dev/full")
        return self.inner.open(start, validator)


def test_s3_sources_resume_too(s3: S3Client, target: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key="in/big.gguf", Body=CONTENT)
    target.with_name(".big.gguf.part").write_bytes(CONTENT[:1_000_000])
    etag = s3.head_object(Bucket=BUCKET, Key="in/big.gguf")["ETag"].replace('"', '\\"')
    uri = f"s3://{BUCKET}/in/big.gguf"
    state = f'{{"address": "{uri}", "value": "{etag}", "size_bytes": {SIZE}}}'
    target.with_name(".big.gguf.part.json").write_text(state)
    asked: list[object] = []
    s3.meta.events.register(
        "provide-client-params.s3.GetObject", lambda params, **_rest: asked.append(params.get("Range"))
    )
    bring(S3Source(s3, uri), target)
    assert target.read_bytes() == CONTENT
    assert asked == ["bytes=1000000-"]


def test_an_s3_object_that_changed_is_fetched_anew(s3: S3Client, target: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key="in/big.gguf", Body=CONTENT)
    target.with_name(".big.gguf.part").write_bytes(b"x" * 1_000_000)
    uri = f"s3://{BUCKET}/in/big.gguf"
    digest = hashlib.md5(b"other", usedforsecurity=False).hexdigest()
    state = f'{{"address": "{uri}", "value": "\\"{digest}\\"", "size_bytes": {SIZE}}}'
    target.with_name(".big.gguf.part.json").write_text(state)
    bring(S3Source(s3, uri), target)
    assert target.read_bytes() == CONTENT


def test_an_s3_object_that_is_not_there(s3: S3Client, target: Path) -> None:
    with pytest.raises(NotFoundError, match="s3://models-of-tests/absent"):
        bring(S3Source(s3, f"s3://{BUCKET}/absent"), target)
