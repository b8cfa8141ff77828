"""What a build does: one shell for all phases, its own environment, its log, its output."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from tests.localaws.codebuild.builds import BUCKET, Builds, contexts, phases

ALL_PHASES = (
    *(
        "SUBMITTED",
        "QUEUED",
        "PROVISIONING",
        "DOWNLOAD_SOURCE",
        "INSTALL",
        "PRE_BUILD",
        "BUILD",
        "POST_BUILD",
    ),
    *("UPLOAD_ARTIFACTS", "FINALIZING", "COMPLETED"),
)


def test_a_build_from_s3_runs_all_phases_in_one_shell(builds: Builds) -> None:
    source = builds.put_source(
        {
            "ci/buildspec.yml": """
                version: 0.2
                env: {exported-variables: [MADE]}
                phases:
                  install: {commands: ['plain=one', 'cd ci', 'export MADE="a b"']}
                  build: {commands: ['echo "$plain $MADE"', 'cat "$CODEBUILD_SRC_DIR/data.txt"', pwd]}
                  post_build: {commands: ['exit 0', 'echo "$MADE succeeding $CODEBUILD_BUILD_SUCCEEDING"']}
            """,
            "data.txt": "the data\n",
        }
    )
    project = builds.project(source={"type": "S3", "location": source, "buildspec": "ci/buildspec.yml"})

    build = builds.run(project)

    assert build["buildStatus"] == "SUCCEEDED", builds.log(build)
    assert phases(build) == dict.fromkeys(ALL_PHASES, "SUCCEEDED") | {"COMPLETED": ""}
    assert (contexts(build, "QUEUED"), contexts(build, "BUILD")) == ([], [("", "")])
    said = builds.printed(build)
    assert said[:2] == ["one a b", "the data"]
    assert said[2].endswith("/output/src/ci")
    # `exit` ends its command alone; what was exported and the folder stay.
    assert said[3] == "a b succeeding 1"
    assert build["exportedEnvironmentVariables"] == [{"name": "MADE", "value": "a b"}]
    assert build["endTime"] >= build["startTime"]
    assert not Path(said[2]).exists()


def test_the_log_is_where_the_build_says(builds: Builds) -> None:
    project = builds.project(
        "version: 0.2\nphases: {build: {commands: [echo hello]}}",
        logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": "/builds/x", "streamName": "of"}},
    )

    build = builds.run(project)

    stream = f"of/{build['id'].split(':')[1]}"
    logs = build["logs"]
    assert (logs["groupName"], logs["streamName"]) == ("/builds/x", stream)
    assert logs["cloudWatchLogsArn"].endswith(f":log-group:/builds/x:log-stream:{stream}")
    assert "$252Fbuilds$252Fx/log-events/of$252F" in logs["deepLink"]
    lines = builds.log(build)
    assert lines.index("hello") > next(
        i for i, line in enumerate(lines) if "Running command echo hello" in line
    )
    assert any(line.endswith("Phase complete: BUILD State: SUCCEEDED") for line in lines)


def test_the_environment_is_new(builds: Builds) -> None:
    project = builds.project(
        """
        version: 0.2
        env: {variables: {FROM_SPEC: spec, OF_PROJECT: spec, OF_START: spec}}
        phases: {build: {commands: ['env -0 | tr "\\n\\0" " \\n"']}}
        """,
        environment={
            "environmentVariables": [
                {"name": name, "value": "project"} for name in ("OF_PROJECT", "OF_START")
            ]
        },
    )

    build = builds.run(
        project, environmentVariablesOverride=[{"name": "OF_START", "value": "start", "type": "PLAINTEXT"}]
    )

    found = dict(line.split("=", 1) for line in builds.printed(build))
    assert (found["FROM_SPEC"], found["OF_PROJECT"], found["OF_START"]) == ("spec", "project", "start")
    assert found["CODEBUILD_BUILD_ID"] == build["id"]
    assert found["CODEBUILD_BUILD_ARN"] == build["arn"]
    assert found["CODEBUILD_BUILD_NUMBER"] == str(build["buildNumber"]) == "1"
    assert found["CODEBUILD_BUILD_IMAGE"] == "aws/codebuild/standard:7.0"
    assert found["CODEBUILD_LOG_PATH"] == build["logs"]["streamName"]
    assert found["CODEBUILD_START_TIME"] == str(int(build["startTime"].timestamp() * 1000))
    assert found["AWS_ENDPOINT_URL"] == builds.aws.url
    assert found["AWS_REGION"] == builds.aws.region
    # Nothing of the one who started the local AWS, but the ways to the network and to programs.
    ways = ("PIP_", "SSL_", "LANG", "LC_", "PATH", "CURL_CA", "REQUESTS_CA")
    leaked = set(found) & set(os.environ) - {"HOME", "PWD", "OLDPWD", "SHLVL", "TMPDIR", "_", "CI"}
    assert {
        name for name in leaked if not name.startswith(ways) and not name.lower().endswith("_proxy")
    } == set()
    assert Path(found["HOME"]) != Path.home()


def test_a_build_acts_as_the_service_role_with_a_python_of_its_own(builds: Builds) -> None:
    program = "import boto3, sys; print(sys.prefix); print(boto3.client('sts').get_caller_identity()['Arn'])"
    project = builds.project(
        f"""
        version: 0.2
        phases:
          build:
            commands:
              - python3 -c "{program}"
              - python3 -c "import moto" 2>&1 | tail -1
              - pip --version
        """
    )

    build = builds.run(project)

    prefix, role, absent, pip = builds.printed(build)
    assert build["id"].split(":")[1] in prefix
    assert ":assumed-role/builds/AWSCodeBuild-" in role
    assert absent == "ModuleNotFoundError: No module named 'moto'"
    assert pip.startswith("pip ")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"install": "false"}, {"INSTALL": "FAILED"}),
        ({"pre_build": "false"}, {"INSTALL": "SUCCEEDED", "PRE_BUILD": "FAILED"}),
        (
            {"build": "false"},
            {"BUILD": "FAILED", "POST_BUILD": "SUCCEEDED", "UPLOAD_ARTIFACTS": "SUCCEEDED"},
        ),
        ({"build": "false, on-failure: ABORT"}, {"BUILD": "FAILED"}),
        (
            {"pre_build": "false, on-failure: CONTINUE"},
            {"PRE_BUILD": "FAILED", "BUILD": "SUCCEEDED", "POST_BUILD": "SUCCEEDED"},
        ),
        ({"post_build": "false"}, {"POST_BUILD": "FAILED", "UPLOAD_ARTIFACTS": "SUCCEEDED"}),
    ],
    ids="-".join,
)
def test_which_phase_follows_a_failed_one(
    builds: Builds, spec: dict[str, str], expected: dict[str, str]
) -> None:
    lines = [f"  {name}: {{commands: {_commands(text)}}}" for name, text in spec.items()]
    build = builds.run(builds.project("\n".join(["version: 0.2", "phases:", *lines])))

    found = phases(build)
    assert build["buildStatus"] == "FAILED"
    assert {name: found[name] for name in expected} == expected
    assert found["FINALIZING"] == "SUCCEEDED"
    failed = next(name for name, status in found.items() if status == "FAILED")
    last = list(expected)[-1]
    if last == failed:
        after = list(found)[list(found).index(failed) + 1 :]
        assert after == ["FINALIZING", "COMPLETED"]
    assert contexts(build, failed) == [
        ("COMMAND_EXECUTION_ERROR", "Error while executing command: false. Reason: exit status 1")
    ]


def _commands(text: str) -> str:
    command, comma, rest = text.partition(",")
    return f"[{command}]{comma}{rest}"


def test_a_failed_command_ends_its_phase_but_not_its_last_commands(builds: Builds) -> None:
    project = builds.project(
        """
        version: 0.2
        phases:
          build:
            commands: [echo first, 'set -e; echo second; exit 7', echo never]
            finally: ['echo last $CODEBUILD_BUILD_SUCCEEDING']
          post_build: {commands: ['echo after $CODEBUILD_BUILD_SUCCEEDING']}
        """
    )

    build = builds.run(project)

    assert builds.printed(build) == ["first", "second", "last 0", "after 0"]
    assert contexts(build, "BUILD")[0][1].endswith("exit 7. Reason: exit status 7")


def test_bash_where_the_buildspec_says_so(builds: Builds) -> None:
    project = builds.project(
        """
        version: 0.2
        env: {shell: bash}
        phases:
          build:
            commands:
              - |
                words=(one two)
                echo "${words[1]} ${BASH_VERSION:+bash}"
        """
    )

    assert builds.printed(builds.run(project)) == ["two bash"]


def test_docker_has_no_daemon_without_privileged_mode(builds: Builds) -> None:
    build = builds.run(builds.project("version: 0.2\nphases: {build: {commands: [docker info]}}"))

    assert build["buildStatus"] == "FAILED"
    assert any(line.startswith("Cannot connect to the Docker daemon") for line in builds.printed(build))


def test_docker_logs_in_to_ecr_in_privileged_mode(builds: Builds) -> None:
    program = "import boto3; print(boto3.client('ecr').get_authorization_token()['authorizationData'][0]"
    program += "['authorizationToken'])"
    project = builds.project(
        f"""
        version: 0.2
        phases:
          build:
            commands:
              - python3 -c "{program}" | base64 -d | cut -d':' -f2 >password
              - docker login --username AWS --password-stdin $REGISTRY <password
        """,
        environment={
            "privilegedMode": True,
            "environmentVariables": [
                {"name": "REGISTRY", "value": "123456789012.dkr.ecr.us-east-1.amazonaws.com"}
            ],
        },
    )

    build = builds.run(project)

    assert build["buildStatus"] == "SUCCEEDED", builds.log(build)
    assert "Login Succeeded" in builds.printed(build)


def test_artifacts_go_to_s3(builds: Builds) -> None:
    source = builds.put_source({"buildspec.yml": ""})
    spec = """
        version: 0.2
        phases: {build: {commands: [mkdir -p out/in, echo a > out/a.txt, echo b > out/in/b.bin]}}
        artifacts: {base-directory: out, files: ['**/*'], exclude-paths: ['*.txt']}
    """
    artifacts = {"type": "S3", "location": BUCKET, "path": "made", "name": "it.zip", "packaging": "ZIP"}
    project = builds.project(
        source={"type": "S3", "location": source, "buildspec": spec}, artifacts=artifacts
    )

    build = builds.run(project)

    assert build["artifacts"]["location"] == f"arn:aws:s3:::{BUCKET}/made/it.zip"
    body = builds.s3.get_object(Bucket=BUCKET, Key="made/it.zip")["Body"].read()
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == ["in/b.bin"]

    nothing = builds.run(project, buildspecOverride=spec.replace("'**/*'", "no/such"))
    assert nothing["buildStatus"] == "FAILED"
    assert contexts(nothing, "UPLOAD_ARTIFACTS")[0][0] == "CLIENT_ERROR"
    assert "no matching artifact paths found" in contexts(nothing, "UPLOAD_ARTIFACTS")[0][1]
