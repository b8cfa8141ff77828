"""The life of what a deployment builds: refused, built for two stacks, reused, rebuilt.

Each test goes on from what the one before has deployed. Images are built by buildah on stand-ins for AWS's
container, the model comes from a hub on this machine. Builds that fail: test_failed_builds.py.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localaws.hub import Hub
from localaws.session import CdkResult, LocalAws
from semif.walk_api import walk_attempts
from tests.e2e.builds import answers, builds, reasons
from tests.standins.images import StandIns
from tools.local_environment import LocalEnvironment, Sources, built_sources, small_hub
from tools.setup import MODEL_FILE, MODEL_SHA256, ROOT

NAME = "built"
PROJECT_PARTS = ("app.py", "cdk.json", "stacks", "container", "lambda", "semif")
SETTINGS = {
    # The first deployment fails, and CloudFormation makes a stack anew by deleting it.
    "protect": False,
    "endpoints": {
        "decisions": {"pool": ["ml.c6i.2xlarge"]},
        # No layers on the GPU: the stand-in has no CUDA backend, and the server would refuse to start.
        "second": {"pool": ["ml.g5.xlarge"], "gpu_layers": 0},
    },
}
FLAVOURS = {"decisions": "cpu", "second": "cuda"}
ENDPOINTS = tuple(FLAVOURS)
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
    return LocalEnvironment(aws, NAME, tmp_path_factory.mktemp("built"), sources)


def deploy(environment: LocalEnvironment) -> CdkResult:
    return environment.deploy(SETTINGS, "*", "--concurrency", "2")


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


def test_an_image_with_an_oci_manifest_is_refused_before_any_model_names_it(
    aws: LocalAws, built: LocalEnvironment
) -> None:
    aws.put_faults({"ecr:*": {"mode": "oci"}})

    result = built.deploy(SETTINGS, "decisions")

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
    before = builds(aws, built)

    result = deploy(built)

    assert result.returncode == 0, result.output
    made = [build for build in builds(aws, built) if build["id"] not in {one["id"] for one in before}]
    # Where both stacks start one at the same moment, the younger is stopped.
    assert {build["buildStatus"] for build in made} <= {"SUCCEEDED", "STOPPED"}
    succeeded = [build["projectName"] for build in builds(aws, built) if build["buildStatus"] == "SUCCEEDED"]
    assert sorted(succeeded) == BUILT_PROJECTS
    tagged = images(aws, built)
    assert {tag.partition("-")[0]: digest for tag, digest in tagged.items()} == digests_in_use(built)
    assert len(tagged) == 2
    assert {built.outputs(endpoint)["ModelSha256"] for endpoint in ENDPOINTS} == {MODEL_SHA256}
    for endpoint in ENDPOINTS:
        assert sum(answers(aws, built, endpoint)["probabilities"]) == pytest.approx(1, abs=1e-9)
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
    before = builds(aws, built)

    result = deploy(built)

    assert result.returncode == 0, result.output
    assert result.output.count("no changes") == 2 + len(ENDPOINTS)
    assert builds(aws, built) == before


def test_a_changed_line_of_the_server_builds_exactly_one_image_per_flavour(
    aws: LocalAws, built: LocalEnvironment, sources: Sources, tmp_path: Path
) -> None:
    before, old_images = builds(aws, built), images(aws, built)
    changed = LocalEnvironment(aws, NAME, tmp_path, sources, project=changed_copy(tmp_path))

    result = deploy(changed)

    assert result.returncode == 0, result.output
    made = [build for build in builds(aws, built) if build["id"] not in {one["id"] for one in before}]
    assert sorted(build["projectName"] for build in made) == IMAGE_PROJECTS
    assert {build["buildStatus"] for build in made} == {"SUCCEEDED"}
    new_images = images(aws, built)
    assert len(new_images) == 4
    assert old_images.items() <= new_images.items()
    new = dict(new_images.items() - old_images.items())
    assert {tag.partition("-")[0]: digest for tag, digest in new.items()} == digests_in_use(built)
    for endpoint in ENDPOINTS:
        assert sum(answers(aws, built, endpoint)["probabilities"]) == pytest.approx(1, abs=1e-9)


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
