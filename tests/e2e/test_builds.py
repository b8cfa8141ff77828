"""The life of what a deployment builds: refused, built for two stacks, reused, rebuilt, failed, recovered.

Each test goes on from what the one before has deployed. Images are built by buildah on stand-ins for AWS's
container, the model comes from a hub on this machine.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from localaws.hub import Fault, Hub
from localaws.session import CdkResult, LocalAws
from semif.walk_api import walk_attempts
from stacks.example_decision import EXAMPLE_REQUEST
from tests.standins.images import StandIns
from tools.local_environment import HUB_REPOSITORY, LocalEnvironment, Pool, Sources, built_sources, small_hub
from tools.setup import MODEL_FILE, MODEL_SHA256, ROOT

NAME = "built"
PROJECT_PARTS = ("app.py", "cdk.json", "stacks", "container", "lambda", "semif")
POOL = Pool(("ml.c6i.2xlarge",))
# No layers on the GPU: the stand-in has no CUDA backend, and the server would refuse to start.
SECOND = {"second": Pool(("ml.g5.xlarge",), {"gpu_layers": 0})}
FLAVOURS = {"decisions": "cpu", "second": "cuda"}
ENDPOINTS = tuple(FLAVOURS)
HUB_FILE = f"{HUB_REPOSITORY}/{MODEL_FILE}"
IMAGE_PROJECTS = [f"semif-{NAME}-image-cpu", f"semif-{NAME}-image-cuda"]
BUILT_PROJECTS = [f"semif-{NAME}-archive", *IMAGE_PROJECTS]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with small_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def sources(hub: Hub, stand_in_images: StandIns) -> Sources:
    return built_sources(hub)


@pytest.fixture(scope="module")
def built(aws: LocalAws, sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> LocalEnvironment:
    """A CPU and a GPU endpoint of one environment, both on what it builds. Nothing is deployed yet."""
    aws.put_faults({})
    environment = LocalEnvironment(aws, NAME, tmp_path_factory.mktemp("built"), sources, others=SECOND)
    environment.bootstrap(POOL)
    return environment


def deploy(environment: LocalEnvironment) -> CdkResult:
    return environment.deploy(POOL, "*", "--concurrency", "2")


def builds(aws: LocalAws) -> list[dict[str, Any]]:
    """This environment's builds, oldest first."""
    codebuild = aws.client("codebuild")
    ids = codebuild.list_builds(sortOrder="ASCENDING")["ids"]
    found = codebuild.batch_get_builds(ids=ids)["builds"] if ids else []
    return [build for build in found if build["projectName"].startswith(f"semif-{NAME}-")]


def images(aws: LocalAws, environment: LocalEnvironment) -> dict[str, str]:
    """Digest of each tag in the environment's repository."""
    repository = environment.outputs("artifacts")["RepositoryUri"].split("/", 1)[1]
    described = aws.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    return {tag: image["imageDigest"] for image in described for tag in image.get("imageTags", [])}


def digests_in_use(environment: LocalEnvironment) -> dict[str, str]:
    """Digest of the image that each flavour's endpoint runs."""
    return {
        flavour: environment.outputs(endpoint)["ImageUri"].partition("@")[2]
        for endpoint, flavour in FLAVOURS.items()
    }


def answers(aws: LocalAws, endpoint: str) -> dict[str, Any]:
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=f"semif-{NAME}-{endpoint}",
        ContentType="application/json",
        Body=json.dumps(EXAMPLE_REQUEST),
    )
    return dict(json.loads(answer["Body"].read())["result"])


def reasons(aws: LocalAws, environment: LocalEnvironment, kind: str) -> str:
    events = aws.client("cloudformation").describe_stack_events(StackName=environment.stack(kind))
    return "\n".join(event.get("ResourceStatusReason", "") for event in events["StackEvents"])


def test_an_image_with_an_oci_manifest_is_refused_before_any_model_names_it(
    aws: LocalAws, built: LocalEnvironment
) -> None:
    aws.put_faults({"ecr:*": {"mode": "oci"}})

    result = built.deploy(POOL, "decisions")

    aws.put_faults({})
    assert result.returncode != 0
    assert built.status("decisions") == "ROLLBACK_COMPLETE"
    assert "application/vnd.oci.image.manifest.v1+json" in reasons(aws, built, "decisions")
    assert not [tag for tag in images(aws, built) if tag.startswith("cpu-")]
    models = aws.client("sagemaker").list_models()["Models"]
    assert not [model for model in models if model["ModelName"].startswith(built.stack("decisions"))]


def test_two_stacks_get_one_image_per_flavour_and_share_the_archive(
    aws: LocalAws, built: LocalEnvironment
) -> None:
    before = builds(aws)

    result = deploy(built)

    assert result.returncode == 0, result.output
    made = [build for build in builds(aws) if build["id"] not in {one["id"] for one in before}]
    # Where both stacks start one at the same moment, the younger is stopped.
    assert {build["buildStatus"] for build in made} <= {"SUCCEEDED", "STOPPED"}
    succeeded = [build["projectName"] for build in builds(aws) if build["buildStatus"] == "SUCCEEDED"]
    assert sorted(succeeded) == BUILT_PROJECTS
    tagged = images(aws, built)
    assert {tag.partition("-")[0]: digest for tag, digest in tagged.items()} == digests_in_use(built)
    assert len(tagged) == 2
    assert {built.outputs(endpoint)["ModelSha256"] for endpoint in ENDPOINTS} == {MODEL_SHA256}
    for endpoint in ENDPOINTS:
        assert sum(answers(aws, endpoint)["probabilities"]) == pytest.approx(1, abs=1e-9)
        (attempt,) = walk_attempts(aws.client("sagemaker"), f"semif-{NAME}-{endpoint}")
        assert attempt.outcome == "in-service"


def test_bill_of_materials_and_provenance_lie_beside_image_and_archive(
    aws: LocalAws, built: LocalEnvironment
) -> None:
    bucket = built.outputs("artifacts")["BucketName"]
    tags = images(aws, built)

    listed = aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]

    keys = {item["Key"] for item in listed}
    for folder in (*(f"provenance/images/{tag}" for tag in tags), f"provenance/models/{MODEL_SHA256}"):
        assert {f"{folder}/sbom.cdx.json", f"{folder}/provenance.json"} <= keys
    archive = f"models/{MODEL_SHA256}/"
    assert {key for key in keys if key.startswith("models/")} == {
        f"{archive}{MODEL_FILE}",
        f"{archive}model-manifest.json",
    }
    for tag, digest in tags.items():
        key = f"provenance/images/{tag}/provenance.json"
        statement = json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
        assert digest == f"sha256:{statement['subject'][0]['digest']['sha256']}"


def test_a_deployment_without_a_change_starts_no_build(aws: LocalAws, built: LocalEnvironment) -> None:
    before = builds(aws)

    result = deploy(built)

    assert result.returncode == 0, result.output
    assert result.output.count("no changes") == 2 + len(ENDPOINTS)
    assert builds(aws) == before


def test_a_changed_line_of_the_server_builds_exactly_one_image_per_flavour(
    aws: LocalAws, built: LocalEnvironment, sources: Sources, tmp_path: Path
) -> None:
    before, old_images = builds(aws), images(aws, built)
    changed = LocalEnvironment(aws, NAME, tmp_path, sources, others=SECOND, project=changed_copy(tmp_path))

    result = deploy(changed)

    assert result.returncode == 0, result.output
    made = [build for build in builds(aws) if build["id"] not in {one["id"] for one in before}]
    assert sorted(build["projectName"] for build in made) == IMAGE_PROJECTS
    assert {build["buildStatus"] for build in made} == {"SUCCEEDED"}
    new_images = images(aws, built)
    assert len(new_images) == 4
    assert old_images.items() <= new_images.items()
    new = dict(new_images.items() - old_images.items())
    assert {tag.partition("-")[0]: digest for tag, digest in new.items()} == digests_in_use(built)
    for endpoint in ENDPOINTS:
        assert sum(answers(aws, endpoint)["probabilities"]) == pytest.approx(1, abs=1e-9)


def changed_copy(folder: Path) -> Path:
    """A working copy in which one line of the server is another."""
    copy = folder / "project"
    copy.mkdir()
    for part in PROJECT_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / part)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    with (copy / "container" / "semif_server" / "prompt.py").open("a") as module:
        module.write("# changed\n")
    return copy


@dataclass(frozen=True)
class Trouble:
    """What goes wrong, and the word for it in CloudFormation's reason."""

    cause: str
    hub: Fault | None = None
    aws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)


TROUBLES = {
    "wrong checksum": Trouble("checksum_mismatch", model={"sha256": "0" * 64}),
    "gated repository": Trouble("gated_repository", hub=Fault(status=401)),
    "disk full": Trouble("disk_full", hub=Fault(announce_bytes=1 << 50)),
    "truncated download": Trouble("truncated_download", hub=Fault(cut_after_bytes=1_000_000)),
    "time-out": Trouble(
        "TIMED_OUT",
        aws={f"codebuild:semif-{NAME}-archive": {"mode": "timeout", "phase": "BUILD", "seconds": 0}},
    ),
    "failed phase": Trouble(
        "PROVISIONING",
        aws={f"codebuild:semif-{NAME}-archive": {"mode": "fail", "phase": "PROVISIONING"}},
    ),
}


@pytest.fixture(params=list(TROUBLES.values()), ids=list(TROUBLES))
def trouble(request: pytest.FixtureRequest, aws: LocalAws, hub: Hub) -> Iterator[Trouble]:
    trouble: Trouble = request.param
    if trouble.hub is not None:
        hub.put_fault(HUB_FILE, trouble.hub)
    aws.put_faults(trouble.aws)
    yield trouble
    aws.put_faults({})
    hub.clear_faults()


def sharded(sources: Sources, **model: Any) -> Sources:
    """Another archive than the one that is there: the same model in shards."""
    return Sources({**sources.model, "shard_bytes": 60_000_000, **model}, sources.build)


def test_a_failed_build_fails_the_update_with_its_cause_and_the_old_endpoint_serves(
    aws: LocalAws, built: LocalEnvironment, sources: Sources, tmp_path: Path, trouble: Trouble
) -> None:
    before = built.outputs("decisions")
    other = sharded(sources, **trouble.model)

    result = LocalEnvironment(aws, NAME, tmp_path, other, others=SECOND).deploy(
        POOL, "decisions", "--exclusively"
    )

    assert result.returncode != 0
    assert built.status("decisions") == "UPDATE_ROLLBACK_COMPLETE"
    said = reasons(aws, built, "decisions")
    assert trouble.cause in said
    assert f"semif-{NAME}-archive:" in said
    assert built.outputs("decisions") == before
    assert sum(answers(aws, "decisions")["probabilities"]) == pytest.approx(1, abs=1e-9)
    assert [build for build in builds(aws) if build["buildStatus"] == "IN_PROGRESS"] == []


def test_the_next_deployment_recovers_and_the_sharded_archive_serves(
    aws: LocalAws, built: LocalEnvironment, sources: Sources, tmp_path: Path
) -> None:
    environment = LocalEnvironment(aws, NAME, tmp_path, sharded(sources), others=SECOND)

    result = environment.deploy(POOL, "decisions", "--exclusively")

    assert result.returncode == 0, result.output
    assert "-00001-of-0000" in answers(aws, "decisions")["model"]["gguf"]["file"]
