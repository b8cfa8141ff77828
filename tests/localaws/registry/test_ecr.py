"""ECR's images: digests, tags, scans, and which of them SageMaker takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localaws.registry import manifests
from localaws.session import LocalAws, LocalAwsError

BIND = {"port": "PORT"}


def manifest(name: str) -> str:
    layer = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 1000}
    return manifests.docker_manifest(name.encode(), [layer | {"digest": "sha256:" + "1" * 64}]).decode()


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class Repository:
    """One repository and short ways to its images."""

    def __init__(self, aws: LocalAws, name: str, **settings: Any) -> None:
        self.api, self.name = aws.client("ecr"), name
        self.uri = self.api.create_repository(repositoryName=name, **settings)["repository"]["repositoryUri"]

    def put(self, text: str, **more: str) -> None:
        self.api.put_image(repositoryName=self.name, imageManifest=text, **more)

    def tags(self) -> dict[str, list[str]]:
        found = self.api.describe_images(repositoryName=self.name)["imageDetails"]
        return {image["imageDigest"]: image.get("imageTags", []) for image in found}

    def findings(self, tag: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.describe_image_scan_findings(
            repositoryName=self.name, imageId={"imageTag": tag}
        )
        return found


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


@pytest.fixture
def faults(aws: LocalAws) -> Iterator[LocalAws]:
    yield aws
    aws.put_faults({})


def test_an_image_goes_by_its_manifests_digest(aws: LocalAws) -> None:
    repository = Repository(aws, "ecr/digests")
    text = manifest("one")
    repository.put(text, imageTag="a")
    (image,) = repository.api.describe_images(repositoryName="ecr/digests")["imageDetails"]
    assert image["imageDigest"] == digest(text)
    assert image["imageSizeInBytes"] == len("one") + 1000
    assert image["imageManifestMediaType"] == manifests.DOCKER_MANIFEST
    for image_id in ({"imageTag": "a"}, {"imageDigest": digest(text)}):
        found = repository.api.batch_get_image(repositoryName="ecr/digests", imageIds=[image_id])["images"]
        assert [one["imageManifest"] for one in found] == [text]
    missing = repository.api.batch_get_image(repositoryName="ecr/digests", imageIds=[{"imageTag": "b"}])
    assert missing["failures"][0]["failureCode"] == "ImageNotFound"
    with pytest.raises(ClientError) as refused:
        repository.put(manifest("two"), imageTag="b", imageDigest=digest(text))
    assert code(refused) == "ImageDigestDoesNotMatchException"


def test_a_tag_moves_and_leaves_its_old_image_untagged(aws: LocalAws) -> None:
    repository = Repository(aws, "ecr/moves")
    first, second = manifest("one"), manifest("two")
    repository.put(first, imageTag="a")
    repository.put(second, imageTag="a")
    assert repository.tags() == {digest(first): [], digest(second): ["a"]}
    with pytest.raises(ClientError) as refused:
        repository.put(second, imageTag="a")
    assert code(refused) == "ImageAlreadyExistsException"


def test_an_immutable_tag_stays_and_a_second_tag_is_given_and_taken(aws: LocalAws) -> None:
    repository = Repository(aws, "ecr/immutable", imageTagMutability="IMMUTABLE")
    text = manifest("one")
    repository.put(text, imageTag="candidate")
    with pytest.raises(ClientError, match="cannot be overwritten because the tag is immutable") as refused:
        repository.put(manifest("two"), imageTag="candidate")
    assert code(refused) == "ImageTagAlreadyExistsException"
    repository.put(text, imageTag="final")
    assert repository.tags() == {digest(text): ["candidate", "final"]}
    candidate = repository.api.batch_get_image(
        repositoryName="ecr/immutable", imageIds=[{"imageTag": "candidate"}]
    )["images"][0]["imageId"]
    assert candidate == {"imageTag": "candidate", "imageDigest": digest(text)}
    repository.api.batch_delete_image(repositoryName="ecr/immutable", imageIds=[{"imageTag": "candidate"}])
    assert repository.tags() == {digest(text): ["final"]}


def test_a_push_is_scanned_where_the_repository_says_so(faults: LocalAws) -> None:
    scanned = Repository(faults, "ecr/scanned", imageScanningConfiguration={"scanOnPush": True})
    scanned.put(manifest("one"), imageTag="a")
    assert scanned.findings("a")["imageScanFindings"]["findingSeverityCounts"] == {}
    fault = {"mode": "scan", "findings": {"CRITICAL": 2, "LOW": 1}}
    faults.put_faults({"ecr:ecr/scanned": fault})
    found = scanned.findings("a")
    assert found["imageScanStatus"]["status"] == "COMPLETE"
    assert found["imageScanFindings"]["findingSeverityCounts"] == {"CRITICAL": 2, "LOW": 1}
    severities = [finding["severity"] for finding in found["imageScanFindings"]["findings"]]
    assert severities == ["CRITICAL", "CRITICAL", "LOW"]
    faults.put_faults({"ecr:*": {"mode": "scan", "status": "FAILED"}})
    assert scanned.findings("a")["imageScanStatus"]["status"] == "FAILED"

    plain = Repository(faults, "ecr/plain")
    plain.put(manifest("one"), imageTag="a")
    with pytest.raises(ClientError) as refused:
        plain.findings("a")
    assert code(refused) == "ScanNotFoundException"
    plain.api.start_image_scan(repositoryName="ecr/plain", imageId={"imageTag": "a"})
    assert plain.findings("a")["imageScanStatus"]["status"] == "FAILED"


def test_a_process_image_is_an_image_of_ecr(aws: LocalAws) -> None:
    repository = Repository(aws, "ecr/process", imageTagMutability="IMMUTABLE")
    uri = aws.push_image(f"{repository.uri}:1", command=["true"], bind=BIND)
    assert repository.tags() == {uri.partition("@")[2]: ["1"]}
    assert aws.push_image(f"{repository.uri}:1", command=["true"], bind=BIND) == uri
    with pytest.raises(LocalAwsError, match="ImageTagAlreadyExistsException"):
        aws.push_image(f"{repository.uri}:1", command=["false"], bind=BIND)


@pytest.mark.parametrize("kind", [manifests.OCI_MANIFEST, manifests.OCI_INDEX])
def test_sagemaker_refuses_an_oci_manifest(aws: LocalAws, kind: str) -> None:
    name = f"ecr/oci-{'index' if kind == manifests.OCI_INDEX else 'image'}"
    repository = Repository(aws, name)
    repository.put(json.dumps({"schemaVersion": 2, "mediaType": kind}), imageTag="a")
    with pytest.raises(ClientError, match="Unsupported manifest media type") as refused:
        aws.client("sagemaker").create_model(
            ModelName="oci",
            PrimaryContainer={"Image": f"{repository.uri}:a"},
            ExecutionRoleArn="arn:aws:iam::123456789012:role/execution",
        )
    assert kind in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"mode": "lost"}, "ecr:x.mode: 'lost' is none of: oci, denied, scan."),
        ({"mode": "oci", "findings": {}}, "ecr:x.findings: unknown key; allowed: mode."),
        ({"mode": "scan", "status": "DONE"}, "ecr:x.status: 'DONE' is none of: COMPLETE, FAILED"),
        ({"mode": "scan", "findings": {"SEVERE": 1}}, "ecr:x.findings.SEVERE: is none of: CRITICAL"),
        ({"mode": "scan", "findings": {"LOW": True}}, "ecr:x.findings.LOW: True is not a number from 0."),
        ("oci", "ecr:x: must be an object."),
    ],
)
def test_wrong_faults_are_named(aws: LocalAws, entry: Any, text: str) -> None:
    with pytest.raises(LocalAwsError) as refused:
        aws.put_faults({"ecr:x": entry})
    assert text in str(refused.value)
