"""A hub with a small real model, an S3 that counts what is sent, and a job that joins them."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from moto import mock_aws
from mypy_boto3_s3 import S3Client

from localaws.hub import COMMIT, Hub
from semif.aws import open_aws
from semif.package_model.acquire import Acquired, Ports
from semif.package_model.http_source import Hub as HubAddress
from semif.package_model.http_source import client
from semif.package_model.outputs import BucketOutput
from semif.package_model.package import Job
from semif.package_model.recipe import HubSource, Recipe
from tools.make_tiny_hybrid import write_tiny_hybrid

BUCKET = "models-of-tests"
REPOSITORY = "tests/tiny-GGUF"
FILE = "tiny.gguf"


@dataclass
class Sent:
    """What reached S3: bytes by key, and the names of the calls that write."""

    bytes: int = 0
    calls: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny hybrid, as a file."""
    return write_tiny_hybrid(tmp_path_factory.mktemp("tiny") / FILE)


@pytest.fixture
def hub(tmp_path: Path, tiny: Path) -> Iterator[Hub]:
    """A hub that has the tiny hybrid in one repository."""
    folder = tmp_path / "hub"
    (folder / REPOSITORY).mkdir(parents=True)
    (folder / REPOSITORY / FILE).symlink_to(tiny)
    (folder / REPOSITORY / "README.md").write_text("---\nlicense: mit\n---\n")
    with Hub(folder, licenses={REPOSITORY: "mit"}) as running:
        yield running


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with client() as running:
        yield running


@pytest.fixture
def s3() -> Iterator[S3Client]:
    with mock_aws():
        found = open_aws(region="us-east-1", profile=None).s3()
        found.create_bucket(Bucket=BUCKET)
        yield found


@pytest.fixture
def sent(s3: S3Client) -> Sent:
    """Counts the bodies of what is written to S3 from now on."""
    counted = Sent()

    def count(params: dict[str, Any], model: Any, **_rest: object) -> None:
        counted.calls.append(model.name)
        body = params.get("Body", b"")
        counted.bytes += len(body)

    for name in ("PutObject", "UploadPart", "CreateMultipartUpload", "CompleteMultipartUpload"):
        s3.meta.events.register(f"provide-client-params.s3.{name}", count)
    return counted


@pytest.fixture
def recipe(tiny: Path) -> Recipe:
    """The tiny hybrid, pinned in every way."""
    sha256 = hashlib.sha256(tiny.read_bytes()).hexdigest()
    return Recipe(HubSource(REPOSITORY, COMMIT), FILE, sha256)


JobOf = Callable[..., Job]


@pytest.fixture
def job(tmp_path: Path, hub: Hub, http: httpx.Client, s3: S3Client) -> JobOf:
    """Make a job: prefix layout into the bucket, no pauses."""

    def make(**changes: Any) -> Job:
        def unmade(acquired: Acquired, recipe: Recipe, work: Path) -> Path:
            raise AssertionError("nothing is to be made")

        token = changes.pop("token", "")
        layout = changes.pop("layout", "prefix")
        said = changes.pop("said", [])
        ports = Ports(http, HubAddress(hub.url, token), lambda: s3, said.append, lambda _s: None)
        output = BucketOutput(s3, BUCKET, layout, said.append)
        return Job(**{"output": output, "ports": ports, "work": tmp_path / "work", "make": unmade, **changes})

    return make


def keys(s3: S3Client) -> list[str]:
    """All keys of the bucket, in order."""
    return [found["Key"] for found in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def read(s3: S3Client, key: str) -> bytes:
    """An object's bytes."""
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
