"""The pure parts: what refuses an image, what names one, and what is said of it."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given, settings
from hypothesis import strategies as st

from image_build import findings, manifest
from image_build.ecr_api import EcrApi
from image_build.errors import AwsError, BuildError, RefusedError, SettingsError
from image_build.findings import Finding, Next, ScanReport, Severity
from image_build.manifest import DOCKER_V2, MEDIA_TYPES, LocalImage, Manifest
from image_build.provenance import check_sbom, documents, hash_folder
from image_build.settings import OWN_BUILD_ARGS, candidate_tag, parse_settings

NOW = datetime(2026, 12, 1, tzinfo=UTC)
GOOD = {
    "SEMIF_IMAGE_TAG": "cuda-0123456789abcdef",
    "SEMIF_REPOSITORY_URI": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/semif/images",
    "SEMIF_BASE_IMAGE": f"public.ecr.aws/deep-learning-containers/llama-cpp@sha256:{'b' * 64}",
    "SEMIF_DOCKERFILE": "Dockerfile.gpu",
    "SEMIF_BUCKET": "semif-models",
}
SEVERITIES = st.sampled_from(
    [*(severity.name for severity in Severity), "UNDEFINED", "UNTRIAGED", "DOOMSDAY"]
)
COUNTS = st.dictionaries(SEVERITIES, st.integers(0, 500))
LAYERS = tuple(f"sha256:{number:064x}" for number in range(6))


def scan_statuses() -> list[str]:
    """Every status that ECR's own model knows."""
    client = boto3.client("ecr", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    shape: Any = client.meta.service_model.shape_for("ScanStatus")
    return list(shape.enum)


@given(COUNTS, st.sampled_from(Severity), st.sampled_from(Severity))
def test_a_lower_severity_never_refuses_less(counts: dict[str, int], one: Severity, other: Severity) -> None:
    low, high = sorted((one, other))

    assert findings.refused_count(counts, low) >= findings.refused_count(counts, high)
    assert findings.refused_count(counts, Severity.INFORMATIONAL) == sum(counts.values())


@given(COUNTS)
def test_what_ecr_did_not_rate_passes_and_what_nobody_knows_refuses(counts: dict[str, int]) -> None:
    expected = counts.get("CRITICAL", 0) + counts.get("DOOMSDAY", 0)

    assert findings.refused_count(counts, Severity.CRITICAL) == expected


@given(st.lists(st.builds(Finding, st.text(max_size=30), SEVERITIES, st.text(max_size=30)), max_size=40))
def test_a_refusal_says_how_many_findings_it_leaves_out(found: list[Finding]) -> None:
    counts: dict[str, int] = {}
    for finding in found:
        counts[finding.severity] = counts.get(finding.severity, 0) + 1
    total = findings.refused_count(counts, Severity.HIGH)

    error = findings.refusal(counts, found, Severity.HIGH, candidate="semif:candidate-x")

    assert error.message.startswith(f"the scan has {total} finding(s) at or above HIGH")
    assert error.message.endswith(f"{total - 10} more in ECR") is (total > 10)
    assert "\n" not in error.line()


@given(st.sampled_from([None, "A_NEW_STATUS", *scan_statuses()]), st.floats(0, 2_000), st.booleans())
def test_every_status_of_a_scan_ends_in_time(status: str | None, waited_s: float, asked: bool) -> None:
    report = ScanReport(status, "", {})
    if status in {"COMPLETE", "ACTIVE"}:
        assert findings.next_step(report, waited_s=waited_s, asked=asked) is Next.READ
    elif status in {None, "IN_PROGRESS", "PENDING"} and waited_s < findings.SCAN_TIMEOUT_S:
        step = findings.next_step(report, waited_s=waited_s, asked=asked)
        assert step is (Next.ASK if status is None and not asked and waited_s >= 10 else Next.WAIT)
    else:
        with pytest.raises(BuildError, match="ECR's scan"):
            findings.next_step(report, waited_s=waited_s, asked=asked)


@given(st.text(), st.sampled_from(["cpu", "cuda"]))
def test_a_candidate_tag_is_a_tag_whatever_the_build_is_called(build_id: str, flavour: str) -> None:
    tag = candidate_tag(f"{flavour}-0123456789abcdef", build_id)

    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag)
    assert tag.startswith(f"candidate-{flavour}-0123456789abcdef-")


@given(st.uuids(), st.uuids())
def test_two_builds_have_two_candidates(one: object, other: object) -> None:
    tags = {candidate_tag("cpu-0123456789abcdef", f"semif-dev-image-cpu:{build}") for build in (one, other)}

    assert len(tags) == len({one, other})


def test_settings_by_hand_need_nothing_of_codebuild() -> None:
    found = parse_settings(GOOD, now=NOW)

    assert found.severity is Severity.CRITICAL
    assert found.run.started_at == NOW
    assert found.python_image is None
    assert found.build_args == {"BASE_IMAGE": GOOD["SEMIF_BASE_IMAGE"]}
    assert [registry.region for registry in found.registries] == ["eu-central-1"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *((name, "") for name in GOOD),
        ("SEMIF_IMAGE_TAG", "latest"),
        ("SEMIF_REPOSITORY_URI", "public.ecr.aws/semif"),
        ("SEMIF_REPOSITORY_URI", GOOD["SEMIF_REPOSITORY_URI"] + ":tag"),
        ("SEMIF_BASE_IMAGE", "public.ecr.aws/llama-cpp:server-sagemaker-cpu-v1"),
        ("SEMIF_PYTHON_IMAGE", "python:3.12"),
        ("SEMIF_DOCKERFILE", "../Dockerfile"),
        ("SEMIF_BUCKET", "Not A Bucket"),
        ("SEMIF_SCAN_SEVERITY", "critical"),
        ("SEMIF_CONTENT_HASH", "abc"),
        ("SEMIF_BUILD_ARGS", "BINDINGS=x"),
        ("SEMIF_BUILD_ARGS", '["BINDINGS"]'),
        ("SEMIF_BUILD_ARGS", '{"BINDINGS": 1}'),
        *(("SEMIF_BUILD_ARGS", json.dumps({name: "x"})) for name in OWN_BUILD_ARGS),
        ("PIP_INDEX_URL", "https://user:secret@mirror.internal/simple"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings({**GOOD, variable: value}, now=NOW)

    assert caught.value.line().startswith(f"error: settings_invalid: {variable}: ")
    assert "secret" not in caught.value.line()


def pushed(media_type: str, sizes: tuple[int, ...] = (1,)) -> Manifest:
    text = json.dumps({"mediaType": media_type, "layers": [{"size": size} for size in sizes]})
    return Manifest(f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", media_type, text)


@given(st.text() | st.sampled_from(MEDIA_TYPES))
def test_one_media_type_alone_passes(media_type: str) -> None:
    if media_type == DOCKER_V2:
        manifest.check_manifest(pushed(media_type))
    else:
        with pytest.raises(RefusedError, match="Unsupported manifest media type"):
            manifest.check_manifest(pushed(media_type))


def test_a_digest_that_is_not_the_manifests_is_refused() -> None:
    with pytest.raises(RefusedError, match="whose digest is"):
        manifest.check_manifest(Manifest(f"sha256:{'0' * 64}", DOCKER_V2, "{}"))


@given(st.integers(0, 5), st.lists(st.integers(0, 10**11), min_size=6, max_size=6))
def test_the_added_size_is_that_of_the_layers_above_the_base(below: int, sizes: list[int]) -> None:
    base = LocalImage("linux/amd64", LAYERS[:below], sum(sizes[:below]))
    image = LocalImage("linux/amd64", LAYERS, sum(sizes))
    manifest.check_local(image, base)

    size = manifest.added_size(pushed(DOCKER_V2, tuple(sizes)), image, base)

    assert size.layers == 6 - below
    assert size.compressed_bytes == size.unpacked_bytes == sum(sizes[below:])
    if size.compressed_bytes > 80_000_000:
        with pytest.raises(RefusedError, match="the limit is 80 MB"):
            manifest.check_size(size)
    else:
        manifest.check_size(size)


@pytest.mark.parametrize("layers", [LAYERS[:2], (LAYERS[0], LAYERS[2], LAYERS[3])])
def test_an_image_on_another_base_is_refused(layers: tuple[str, ...]) -> None:
    base = LocalImage("linux/amd64", LAYERS[:2], 2)

    with pytest.raises(RefusedError, match="do not continue the base's 2"):
        manifest.check_local(LocalImage("linux/amd64", layers, 3), base)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"bomFormat": "SPDX"}', '{"bomFormat": "CycloneDX"}'])
def test_what_is_no_sbom_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match=r"sbom\.cdx\.json"):
        check_sbom(text.encode())


def test_provenance_by_hand_names_no_build() -> None:
    found = documents(
        parse_settings(GOOD, now=NOW), pushed(DOCKER_V2), b"{}", source_hash="e" * 64, finished_at=NOW
    )

    predicate = json.loads(found.provenance)["predicate"]
    assert predicate["runDetails"]["metadata"] == {
        "startedOn": "2026-12-01T00:00:00Z",
        "finishedOn": "2026-12-01T00:00:00Z",
    }
    assert predicate["runDetails"]["builder"] == {"id": "urn:semif-sagemaker:image-build:v1:by-hand"}
    (source, base) = predicate["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"dirHash": "e" * 64}
    assert base["digest"] == {"sha256": "b" * 64}


FILES = st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.binary(max_size=20), max_size=5)


@settings(max_examples=25)
@given(FILES, FILES)
def test_the_source_hash_is_one_of_content_and_names(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert (hashed(one) == hashed(other)) is (one == other)
    assert hashed(one) == hashed({**dict(reversed(one.items())), "__pycache__/x.pyc": b"0"})


def hashed(files: dict[str, bytes]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return hash_folder(Path(folder))


@pytest.mark.parametrize(
    ("code", "given_now"),
    [("ImageAlreadyExistsException", False), ("ImageTagAlreadyExistsException", False), ("", True)],
)
def test_a_tag_that_exists_is_no_error(code: str, given_now: bool) -> None:
    client = boto3.client("ecr", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        if code:
            stub.add_client_error("put_image", code)
        else:
            stub.add_response("put_image", {})
        api = EcrApi(client, "123456789012", "semif")

        assert api.put_tag(pushed(DOCKER_V2), "cpu-0123456789abcdef") is given_now


def test_a_right_that_lacks_is_said_with_its_operation() -> None:
    client = boto3.client("ecr", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        stub.add_client_error("put_image", "AccessDeniedException", "not\nauthorized")
        with pytest.raises(AwsError) as caught:
            EcrApi(client, "123456789012", "semif").put_tag(pushed(DOCKER_V2), "cpu-0123456789abcdef")

    assert caught.value.line() == (
        "error: aws_failed: put_image: AccessDeniedException: not authorized;"
        " allow this action to the build's role"
    )
