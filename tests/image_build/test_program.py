"""`python3 -m image_build` as CodeBuild runs it: processes, exit codes, the last line, signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from image_build.check import check
from image_build.errors import BuildError
from localaws.codebuild import buildspec
from tests.image_build.workshop import HOST, TAG, Workshop

CONTAINER = Path(__file__).parents[2] / "container"


@contextmanager
def program(
    workshop: Workshop, *flags: str, module: str = "image_build", **environment: str
) -> Iterator[subprocess.Popen[str]]:
    variables = {
        **os.environ,
        "PYTHONPATH": str(CONTAINER),
        **workshop.build_environment,
        **environment,
    }
    with subprocess.Popen(
        [sys.executable, *flags, "-m", module],
        cwd=workshop.context,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ran(
    workshop: Workshop, *flags: str, module: str = "image_build", **environment: str
) -> tuple[int, str, str]:
    with program(workshop, *flags, module=module, **environment) as process:
        out, err = process.communicate()
    return process.returncode, out, err


def test_the_last_line_of_a_build_is_the_image_by_digest(workshop: Workshop) -> None:
    code, out, err = ran(workshop)

    assert (code, err) == (0, "")
    digest = workshop.tags()[TAG]
    assert out.splitlines()[-1] == f"image: {HOST}/{workshop.repository}@{digest}"
    assert [call.split()[0] for call in workshop.calls()] == [
        "login", "login", "image", "pull", "image", "image", "pull", "build", "image", "run", "push",
    ]  # fmt: skip


def test_the_last_line_of_a_failure_names_it_and_the_next_step(workshop: Workshop) -> None:
    said = "error: bindings_mismatch: bindings 0.3.35, libllama 0.3.36; pin the ones that fit"
    workshop.behave(build_exit=1, build_lines=["one", said, "exit status 1"])

    code, out, err = ran(workshop)

    assert code == 1
    (line,) = err.splitlines()
    assert line.startswith("error: build_failed: docker build ended with exit code 1: bindings_mismatch: ")
    assert said in out
    assert workshop.tags() == {}


def test_a_stopped_build_stops_docker(workshop: Workshop) -> None:
    workshop.behave(hangs_at="build")

    with program(workshop) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "#2 waiting\n":
                break
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: stopped: the build was told to end (SIGTERM); ")
    assert (workshop.docker_folder / "signals").read_text() == "SIGTERM\n"


def test_a_build_stopped_while_it_waits_takes_its_candidate_away(workshop: Workshop) -> None:
    workshop.put_findings({}, status="IN_PROGRESS")

    with program(workshop) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("added size: "):
                break
        assert next(iter(workshop.tags())).startswith(f"candidate-{TAG}-")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert err.startswith("error: stopped: ")
    assert workshop.tags() == {}


def test_the_check_says_what_is_to_be_done_and_changes_nothing(workshop: Workshop) -> None:
    code, out, _ = ran(workshop, module="image_build.check")

    assert code == 0
    assert out == f"{HOST}/{workshop.repository}:{TAG}: to be built\n"
    assert workshop.calls() == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SEMIF_DOCKERFILE": "Dockerfile.gpu"}, "error: settings_invalid: SEMIF_DOCKERFILE: "),
        ({"SEMIF_REPOSITORY_URI": f"{HOST}/none"}, "error: aws_failed: describe_images: RepositoryNotFound"),
        ({"PATH": "/nonexistent"}, "error: docker_missing: "),
    ],
)
def test_the_check_fails_for_what_would_fail_the_build(
    workshop: Workshop, environment: dict[str, str], expected: str
) -> None:
    with pytest.raises(BuildError) as caught:
        check({**os.environ, **workshop.build_environment, **environment}, workshop.context)

    assert caught.value.line().startswith(expected)


def test_nothing_is_installed_where_boto3_is(workshop: Workshop) -> None:
    assert ran(workshop, module="image_build.install") == (0, "boto3 is there\n", "")


def test_where_boto3_lacks_it_comes_by_the_pins(workshop: Workshop, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(
        f"import pathlib, sys; pathlib.Path({str(seen)!r}).write_text(' '.join(sys.argv[1:]))"
    )

    # -S: no package of the environment is there, but this pip, which only notes what it is asked.
    search = os.pathsep.join((str(CONTAINER), str(tmp_path)))
    assert ran(workshop, "-S", module="image_build.install", PYTHONPATH=search) == (0, "", "")

    asked = seen.read_text()
    assert "--require-hashes" in asked
    requirements = Path(asked.rpartition(" ")[2]).read_text()
    pins = re.findall(r"^([a-z0-9-]+)==\S+ \\\n    --hash=sha256:", requirements, re.MULTILINE)
    assert {"boto3", "botocore"} <= set(pins)
    assert len(pins) == len(re.findall(r"^[a-z]", requirements, re.MULTILINE))


def test_the_buildspec_calls_nothing_but_this_package() -> None:
    text = (CONTAINER / "buildspec.yml").read_text()
    phases = buildspec.parse(text).phases

    assert list(phases) == ["install", "pre_build", "build"]
    assert [phase.commands for phase in phases.values()] == [
        ("python3 -m image_build.install",),
        ("python3 -m image_build.check",),
        ("python3 -m image_build",),
    ]
    # CodeBuild compares the version with a string; unquoted, 3.12 is a number to YAML.
    assert yaml.safe_load(text)["phases"]["install"]["runtime-versions"] == {"python": "3.12"}
