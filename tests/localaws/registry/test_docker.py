"""`docker` of builds, answered by buildah."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localaws.registry import manifests
from localaws.session import LocalAws
from tests.localaws.registry.conftest import Docker

FLAGS = ("--platform", "linux/amd64", "--provenance=false", "--sbom=false", "--output", "type=docker")


@pytest.fixture(scope="module")
def image(docker: Docker, context: Path) -> str:
    """A built image, by a tag of a repository."""
    reference = f"{docker.repository('docker/built')}:1"
    docker("build", *FLAGS, "-f", "Dockerfile", "-t", reference, "--build-arg", "WORD=care", ".", cwd=context)
    return reference


@pytest.fixture
def faults(aws: LocalAws) -> Iterator[LocalAws]:
    yield aws
    aws.put_faults({})


def test_an_image_is_built_and_described(docker: Docker, image: str) -> None:
    described = json.loads(docker("image", "inspect", "--format", "{{json .}}", image))
    assert (described["Os"], described["Architecture"]) == ("linux", "amd64")
    assert described["Config"]["Env"] == ["PATH=/bin", "GREETING=hello there"]
    assert len(described["RootFS"]["Layers"]) == 1
    assert described["Size"] > 100_000
    assert docker.run("image", "inspect", f"{image}-not").returncode == 1


def test_a_container_has_the_images_files_variables_and_a_read_only_root(docker: Docker, image: str) -> None:
    shown = docker("run", "--rm", "--read-only", "--entrypoint", "cat", image, "/built")
    assert shown == "built with care\n"
    assert docker("run", "--rm", image, "echo $GREETING").strip() == "hello there"
    variables = docker("run", "--rm", "-e", "MORE=1", "--entrypoint", "env", image).split("\n")
    assert sorted(filter(None, variables)) == ["GREETING=hello there", "HOME=/root", "MORE=1", "PATH=/bin"]
    refused = docker.run("run", "--rm", "--read-only", image, "echo x > /new")
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr
    assert docker.run("run", "--rm", image, "echo x > /new; exit 3").returncode == 3


def test_what_is_pushed_is_what_ecr_has(docker: Docker, image: str) -> None:
    ecr = docker.aws.client("ecr")
    pushed = docker("push", image)
    (found,) = ecr.describe_images(repositoryName="docker/built")["imageDetails"]
    assert found["imageTags"] == ["1"]
    assert f"1: digest: {found['imageDigest']} size: " in pushed
    assert found["imageManifestMediaType"] == manifests.DOCKER_MANIFEST
    text = ecr.batch_get_image(repositoryName="docker/built", imageIds=[{"imageTag": "1"}])["images"][0][
        "imageManifest"
    ]
    assert manifests.digest_of(text.encode()) == found["imageDigest"]
    docker("push", image)

    by_digest = f"{image.removesuffix(':1')}@{found['imageDigest']}"
    docker("rmi", image)
    docker("pull", "--platform", "linux/amd64", by_digest)
    assert docker("run", "--rm", "--read-only", "--entrypoint", "cat", by_digest, "/built")
    docker("tag", by_digest, image)


def test_a_registry_without_a_login_or_with_a_wrong_password_refuses(
    docker: Docker, image: str, tmp_path: Path
) -> None:
    stranger = Docker(docker.aws, docker.program, tmp_path)
    refused = stranger.run("push", image)
    assert refused.returncode == 1
    assert "no basic auth credentials" in refused.stderr
    host = image.partition("/")[0]
    refused = stranger.run("login", "--username", "AWS", "--password-stdin", host, stdin="guess")
    assert refused.returncode == 1
    assert "authentication required" in refused.stderr


def test_pushes_fail_as_faults_and_repositories_say(docker: Docker, image: str, faults: LocalAws) -> None:
    faults.put_faults({"ecr:docker/built": {"mode": "denied"}})
    assert "denied" in docker.run("push", image).stderr
    faults.put_faults({"ecr:docker/built": {"mode": "oci"}})
    docker("tag", image, f"{image}-oci")
    docker("push", f"{image}-oci")
    (found,) = faults.client("ecr").batch_get_image(
        repositoryName="docker/built", imageIds=[{"imageTag": "1-oci"}]
    )["images"]
    assert found["imageManifestMediaType"] == manifests.OCI_MANIFEST
    faults.put_faults({})
    elsewhere = image.replace("docker/built", "docker/nowhere")
    docker("tag", image, elsewhere)
    assert "The repository with name 'docker/nowhere' does not exist" in docker.run("push", elsewhere).stderr


def test_an_immutable_tag_is_pushed_once(docker: Docker, context: Path) -> None:
    reference = f"{docker.repository('docker/immutable', imageTagMutability='IMMUTABLE')}:1"
    docker("build", "-t", reference, "--build-arg", "WORD=one", ".", cwd=context)
    docker("push", reference)
    docker("build", "-t", reference, "--build-arg", "WORD=two", ".", cwd=context)
    refused = docker.run("push", reference)
    assert refused.returncode == 1
    assert "the tag is immutable" in refused.stderr


def test_builds_at_the_same_time_do_not_meet(docker: Docker, context: Path) -> None:
    def build(word: str) -> None:
        docker("build", "-t", f"local/{word}:1", "--build-arg", f"WORD={word}", ".", cwd=context)

    threads = [threading.Thread(target=build, args=(word,)) for word in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for word in ("left", "right"):
        shown = docker("run", "--rm", "--entrypoint", "cat", f"local/{word}:1", "/built")
        assert shown == f"built with {word}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("build", "--squash", "."), "docker build: the local AWS does not answer --squash"),
        (("build", "--platform", "linux/arm64", "."), "the local AWS answers linux/amd64 only"),
        (("run", "--privileged", "x"), "docker run: the local AWS does not answer --privileged"),
        (("login", "-u", "AWS", "-p", "x", "host"), "docker login: the local AWS does not answer -p"),
        (("image", "inspect", "x", "y"), "takes 1 to 1 arguments, not 2"),
        (("push", "--all-tags", "x"), "docker push: the local AWS does not answer --all-tags"),
        (("compose", "up"), "docker compose up: the local AWS answers build,"),
    ],
)
def test_what_is_not_answered_is_named(docker: Docker, arguments: tuple[str, ...], text: str) -> None:
    refused = docker.run(*arguments)
    assert refused.returncode == 125
    assert text in refused.stderr


def test_a_failed_step_fails_the_build_and_shows_its_output(
    docker: Docker, tmp_path: Path, image: str
) -> None:
    step = 'RUN ["/bin/dash", "-c", "echo the reason; exit 7"]'
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\n{step}\n")
    failed = docker.run("build", "-t", "local/failed:1", ".", cwd=tmp_path)
    assert failed.returncode == 1
    assert "the reason" in failed.stdout


def test_no_base_image_comes_from_elsewhere(docker: Docker) -> None:
    refused = docker.run("pull", "standin.invalid/none:1")
    assert refused.returncode == 1
    assert "reaches no registry but its own ECR" in refused.stderr
