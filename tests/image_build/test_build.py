"""Whole builds against moto's ECR and S3, with a docker that keeps the real protocol."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from typing import Any

import pytest

from image_build.build import build_image
from image_build.errors import BuildError, Stopped
from tests.image_build.workshop import BASE, BASE_HOST, HOST, PYTHON, TAG, Workshop

OCI = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture(autouse=True)
def quiet_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="werkzeug")


def refused(workshop: Workshop, **environment: str) -> BuildError:
    with pytest.raises(BuildError) as caught:
        workshop.build(**environment)
    assert TAG not in workshop.tags()
    assert caught.value.line().count("\n") == 0
    return caught.value


def test_the_image_gets_its_tag_and_its_documents(workshop: Workshop) -> None:
    digest = workshop.build(SEMIF_BUILD_ARGS='{"BINDINGS": "requirements-bindings-cpu.txt"}')

    assert workshop.tags() == {TAG: digest}
    assert workshop.lines[-1] == f"image: {HOST}/{workshop.repository}@{digest}"
    assert any(
        "added size: 0.0 MB compressed in 2 layer(s), 0.0 MB unpacked" in line for line in workshop.lines
    )
    sbom, statement = workshop.document("sbom.cdx.json"), workshop.document("provenance.json")
    assert sbom["bomFormat"] == "CycloneDX"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"][0]["digest"] == {"sha256": digest.removeprefix("sha256:")}
    definition = statement["predicate"]["buildDefinition"]
    assert {"uri": f"docker://{BASE}", "digest": {"sha256": "b" * 64}} in definition["resolvedDependencies"]
    assert {"uri": f"docker://{PYTHON}", "digest": {"sha256": "c" * 64}} in definition["resolvedDependencies"]
    assert definition["externalParameters"]["buildArgs"]["BINDINGS"] == "requirements-bindings-cpu.txt"
    details = statement["predicate"]["runDetails"]
    assert ":build/semif-test-image-cpu:" in details["metadata"]["invocationId"]
    assert details["builder"]["id"].endswith(":project/semif-test-image-cpu")
    key = "provenance/images/" + TAG + "/sbom.cdx.json"
    stored = workshop.s3.get_object(Bucket=workshop.bucket, Key=key)["Body"].read()
    assert details["byproducts"][0]["digest"] == {"sha256": hashlib.sha256(stored).hexdigest()}


def test_docker_logs_in_to_private_registries_alone(workshop: Workshop) -> None:
    workshop.build()

    assert [call.rpartition(" ")[2] for call in workshop.calls("login")] == [BASE_HOST, HOST]


def test_the_build_is_single_platform_and_without_attestations(workshop: Workshop) -> None:
    workshop.build()

    (call,) = workshop.calls("build")
    expected = "--platform linux/amd64 --provenance=false --sbom=false --output type=docker -f Dockerfile"
    assert expected in call


def test_a_second_run_builds_nothing(workshop: Workshop) -> None:
    first = workshop.build()
    before = workshop.calls()

    assert workshop.build() == first
    assert workshop.calls() == before
    assert workshop.tags() == {TAG: first}


@pytest.mark.parametrize("media_type", [OCI, OCI_INDEX])
def test_a_manifest_that_sagemaker_refuses_gets_no_tag(workshop: Workshop, media_type: str) -> None:
    workshop.behave(media_type=media_type)

    error = refused(workshop)

    assert error.code == "manifest_not_docker_v2"
    assert f"Unsupported manifest media type {media_type}" in error.line()
    assert workshop.tags() == {}


@pytest.mark.parametrize("enhanced", [False, True])
def test_findings_at_the_severity_refuse_the_image_and_are_named(workshop: Workshop, enhanced: bool) -> None:
    workshop.put_findings({"CRITICAL": 1, "HIGH": 12, "LOW": 3}, enhanced=enhanced)

    error = refused(workshop, SEMIF_SCAN_SEVERITY="HIGH")

    assert error.code == "scan_findings"
    assert "13 finding(s) at or above HIGH: CVE-2026-0 CRITICAL in openssl" in error.message
    assert error.message.endswith("3 more in ECR")
    (candidate,) = workshop.tags()
    assert candidate in error.next_step


def test_findings_below_the_severity_pass(workshop: Workshop) -> None:
    workshop.put_findings({"HIGH": 12, "UNTRIAGED": 3})

    digest = workshop.build()

    assert workshop.tags() == {TAG: digest}
    assert "scan: 12 HIGH, 3 UNTRIAGED; refused from CRITICAL" in workshop.lines


@pytest.mark.parametrize("status", ["UNSUPPORTED_IMAGE", "FAILED"])
def test_an_image_that_no_scan_has_seen_gets_no_tag(workshop: Workshop, status: str) -> None:
    workshop.put_findings({}, status=status)

    error = refused(workshop)

    assert error.code == "scan_unavailable"
    assert status in error.message
    assert "NONE" in error.next_step


def test_with_severity_none_no_scan_is_read(workshop: Workshop) -> None:
    workshop.put_findings({"CRITICAL": 9}, status="UNSUPPORTED_IMAGE")

    digest = workshop.build(SEMIF_SCAN_SEVERITY="NONE")

    assert workshop.tags() == {TAG: digest}


def test_a_scan_that_does_not_begin_is_asked_for(workshop: Workshop) -> None:
    workshop.behave(scan_on_push=False)

    workshop.build()

    assert workshop.clock.slept_s == [5.0, 5.0, 5.0]


def test_a_scan_that_does_not_end_fails_in_time(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_build.build.POLL_S", 100.0)
    workshop.put_findings({}, status="IN_PROGRESS")

    error = refused(workshop)

    assert error.code == "scan_timeout"
    assert sum(workshop.clock.slept_s) == 900


def test_a_failed_self_test_shows_its_last_lines_and_is_named(workshop: Workshop) -> None:
    said = "error: bindings_mismatch: bindings 0.3.35 and libllama 0.3.36 differ; pin the bindings that fit"
    workshop.behave(build_exit=1, build_lines=["loading", said, "------", "exit code: 1"])

    error = refused(workshop)

    assert error.code == "build_failed"
    assert "bindings 0.3.35 and libllama 0.3.36 differ" in error.line()
    assert said in workshop.lines[-1]
    assert workshop.calls("push") == []
    assert workshop.tags() == {}


def test_layers_over_the_limit_get_no_tag(workshop: Workshop) -> None:
    workshop.behave(layer_bytes=81_000_000)

    error = refused(workshop)

    assert error.code == "image_too_large"
    assert "81.0 MB compressed, the limit is 80 MB" in error.message
    assert workshop.tags() == {}


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ({"architecture": "arm64"}, "wrong_platform"),
        ({"sbom": "{}"}, "sbom_missing"),
        ({"sbom": None}, "file_not_read"),
    ],
)
def test_an_image_that_is_not_ours_is_not_pushed(
    workshop: Workshop, behaviour: dict[str, object], code: str
) -> None:
    workshop.behave(**behaviour)

    assert refused(workshop).code == code
    assert workshop.calls("push") == []


@pytest.mark.parametrize("variable", ["SEMIF_BASE_IMAGE", "SEMIF_PYTHON_IMAGE"])
def test_an_image_that_does_not_exist_is_said_before_the_build(workshop: Workshop, variable: str) -> None:
    missing = f"{BASE_HOST}/llama-cpp@sha256:{'0' * 64}"

    error = refused(workshop, **{variable: missing})

    assert error.code == "base_not_pulled"
    assert "manifest unknown" in error.message
    assert workshop.calls("build") == []


def test_a_push_that_is_cut_off_after_its_tag_is_taken_for_done(workshop: Workshop) -> None:
    workshop.behave(pushes_cut_off=1)

    digest = workshop.build()

    assert len(workshop.calls("push")) == 1
    assert workshop.tags() == {TAG: digest}


@pytest.mark.parametrize("same", [True, False], ids=["the same image", "another image"])
@pytest.mark.parametrize("moment", ["push", "put", "put_tag"])
def test_of_two_builds_of_one_tag_the_first_wins(workshop: Workshop, moment: str, same: bool) -> None:
    winner: list[str] = []

    class Overtaken:
        """An edge before whose call `moment` another build begins and ends."""

        def __init__(self, edge: Any) -> None:
            self._edge = edge

        def __getattr__(self, name: str) -> Any:
            if name == moment and not winner:
                workshop.behave(seed="the same" if same else "another")
                winner.append("")
                winner[0] = workshop.build()
            return getattr(self._edge, name)

    workshop.behave(seed="the same")
    digest = build_image(workshop.settings(), workshop.edges(wrap=Overtaken))

    assert digest == winner[0]
    assert workshop.tags() == {TAG: digest}
    assert workshop.document("provenance.json") == workshop.document("provenance.json", digest)
    assert any("taking that one" in line for line in workshop.lines) is not same


class Killed(BaseException):
    """The process is gone: nothing of ours runs after it."""


class Interrupted:
    """Edges that end the run in place of the call number `at`; `names` are the calls so far."""

    def __init__(self, at: int, how: BaseException) -> None:
        self.at, self.how = at, how
        self.names: list[str] = []

    def __call__(self, edge: Any) -> Any:
        outer = self

        class Counted:
            def __getattr__(self, name: str) -> Any:
                method = getattr(edge, name)
                if not callable(method):
                    return method

                def called(*arguments: Any, **named: Any) -> Any:
                    outer.names.append(name)
                    if len(outer.names) == outer.at:
                        raise outer.how
                    return method(*arguments, **named)

                return called

        return Counted()


def steps_from_the_push(workshop: Workshop) -> list[int]:
    """Numbers of a build's calls from the push on: what comes before it changes nothing outside the run."""
    watched = Interrupted(0, Killed())
    build_image(workshop.settings(), workshop.edges(wrap=watched))
    numbers = range(watched.names.index("push") + 1, len(watched.names) + 1)
    assert {"put", "put_tag", "remove_tag"} <= {watched.names[number - 1] for number in numbers}
    return [*numbers]


def cut_off(workshop: Workshop, at: int, how: BaseException) -> None:
    """Begin on an empty repository, and end by `how` in place of the call number `at`."""
    for tag in workshop.tags():
        workshop.ecr.batch_delete_image(repositoryName=workshop.repository, imageIds=[{"imageTag": tag}])
    with contextlib.suppress(type(how)):
        build_image(workshop.settings(), workshop.edges(wrap=Interrupted(at, how)))


def subject_of_the_tag(workshop: Workshop) -> str:
    (subject,) = workshop.document("provenance.json")["subject"]
    return f"sha256:{subject['digest']['sha256']}"


def test_a_run_killed_between_any_two_steps_is_recovered_by_the_next(workshop: Workshop) -> None:
    for at in steps_from_the_push(workshop):
        cut_off(workshop, at, Killed())
        if tagged := workshop.tags().get(TAG):
            assert subject_of_the_tag(workshop) == tagged, f"after call {at}"

        digest = workshop.build()

        tags = workshop.tags()
        assert tags[TAG] == digest, f"after call {at}"
        assert [tag for tag, of in tags.items() if of == digest] == [TAG], f"after call {at}"
        assert subject_of_the_tag(workshop) == digest, f"after call {at}"


def test_a_run_stopped_between_any_two_steps_leaves_no_candidate(workshop: Workshop) -> None:
    endings = set()
    for at in steps_from_the_push(workshop):
        cut_off(workshop, at, Stopped("SIGTERM"))

        left = workshop.tags()
        endings.add(frozenset(tag.partition("-")[0] for tag in left))
        # Once the final tag is given nothing is half-made; the next run takes the candidate's tag away.
        assert left == {} or TAG in left, f"after call {at}"
    assert frozenset() in endings
    assert frozenset({"cpu"}) in endings


def test_documents_lie_outside_the_models(workshop: Workshop) -> None:
    workshop.build()

    keys = [entry["Key"] for entry in workshop.s3.list_objects_v2(Bucket=workshop.bucket)["Contents"]]
    assert len(keys) == 4
    assert all(key.startswith(f"provenance/images/{TAG}/") for key in keys)
    assert json.dumps(workshop.document("provenance.json")).count(BASE) == 2
