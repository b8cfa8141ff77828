"""What can go wrong before the first command: the source, the buildspec, the secrets."""

from __future__ import annotations

from typing import Any

import pytest

from localaws.codebuild.buildspec import BuildspecError, parse
from tests.localaws.codebuild.builds import BUCKET, Builds, contexts, phases

ECHO = "version: 0.2\nphases: {build: {commands: [echo hello]}}"


def failure(builds: Builds, build: dict[str, Any]) -> tuple[str, str]:
    assert build["buildStatus"] == "FAILED", builds.log(build)
    assert list(phases(build))[-3:] == ["DOWNLOAD_SOURCE", "FINALIZING", "COMPLETED"]
    (context,) = contexts(build, "DOWNLOAD_SOURCE")
    assert builds.log(build)[-1].endswith(f"Phase context status code: {context[0]} Message: {context[1]}")
    return context


def test_a_source_that_is_not_there(builds: Builds) -> None:
    builds.put_source({})
    source = {"type": "S3", "location": f"{BUCKET}/absent.zip", "buildspec": ECHO}

    code, message = failure(builds, builds.run(builds.project(source=source)))

    assert code == "CLIENT_ERROR"
    assert message.startswith("NoSuchKey: The specified key does not exist.")
    assert f"{BUCKET}/absent.zip" in message


def test_a_source_that_is_no_zip(builds: Builds) -> None:
    builds.put_source({})
    builds.s3.put_object(Bucket=BUCKET, Key="text.zip", Body=b"no zip")
    source = {"type": "S3", "location": f"{BUCKET}/text.zip", "buildspec": ECHO}

    code, message = failure(builds, builds.run(builds.project(source=source)))

    assert code == "CLIENT_ERROR"
    assert "cannot be unzipped" in message


def test_a_source_may_be_a_folder_and_another_one(builds: Builds) -> None:
    other = builds.put_source({"buildspec.yml": ECHO.replace("hello", "from a zip")})
    builds.s3.put_object(Bucket=BUCKET, Key="folder/buildspec.yml", Body=ECHO.encode())
    project = builds.project(source={"type": "S3", "location": f"{BUCKET}/folder/"})

    assert builds.printed(builds.run(project)) == ["hello"]
    overridden = builds.run(project, sourceTypeOverride="S3", sourceLocationOverride=other)
    assert builds.printed(overridden) == ["from a zip"]
    assert overridden["source"]["location"] == other


def test_a_buildspec_that_is_not_in_the_source(builds: Builds) -> None:
    source = {"type": "S3", "location": builds.put_source({"readme": ""}), "buildspec": "ci/spec.yml"}

    code, message = failure(builds, builds.run(builds.project(source=source)))

    assert code == "YAML_FILE_ERROR"
    assert message.endswith("/output/src/ci/spec.yml: no such file or directory")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 0.1\nphases: {}", "wrong version: '0.1'"),
        ("version: 0.2", "phases: at least one phase"),
        ("version: 0.2\nphases: {test: {}}", "unknown key 'test' in phases"),
        ("version: 0.2\nphases: {build: {command: [a]}}", "unknown key 'command' in phases.build"),
        ("version: 0.2\nphases: {build: {commands: a}}", "expected phases.build.commands to be a list"),
        (
            "version: 0.2\nphases: {build: {commands: [echo a: b]}}",
            "Expected Commands[0] to be of string type in phases.build: found subkeys",
        ),
        ("version: 0.2\nphases: {build: {on-failure: STOP}}", "phases.build.on-failure: 'STOP' is none of"),
        ("version: 0.2\nenv: {shell: fish}\nphases: {build: {}}", "env.shell: 'fish' is none of"),
        ("version: 0.2\nversion: 0.2\nphases: {build: {}}", "key 'version' already set"),
        ("version: [", "yaml: "),
        ("- a", "a buildspec is a map"),
        ("version: 0.2\nbatch: {}\nphases: {build: {}}", "unknown key 'batch' in the buildspec"),
    ],
)
def test_a_buildspec_that_is_refused(text: str, told: str) -> None:
    with pytest.raises(BuildspecError) as raised:
        parse(text)

    assert told in str(raised.value)


def test_a_buildspec_is_text_even_where_yaml_sees_more() -> None:
    found = parse(
        "version: 0.2\nenv: {variables: {A: yes, B: 010}}\nphases: {build: {commands: [true, 1.50]}}"
    )

    assert found.variables == {"A": "yes", "B": "010"}
    assert found.phases["build"].commands == ("true", "1.50")


def test_secrets_and_parameters_are_looked_up_and_never_shown(builds: Builds) -> None:
    secrets: Any = builds.aws.client("secretsmanager")
    arn = secrets.create_secret(Name="of-a-build", SecretString='{"token": "t0ps3cret"}')["ARN"]
    secrets.create_secret(Name="plain-of-a-build", SecretString="hush")
    builds.aws.client("ssm").put_parameter(Name="/of/a/build", Value="p4rameter", Type="SecureString")
    project = builds.project(
        """
        version: 0.2
        env: {secrets-manager: {TOKEN: 'of-a-build:token'}, parameter-store: {PARAMETER: /of/a/build}}
        phases:
          build:
            commands:
              - echo "$TOKEN $PARAMETER $WHOLE $BY_ARN"
              - test "$TOKEN$PARAMETER$WHOLE$BY_ARN" = t0ps3cretp4rameterhusht0ps3cret
        """,
        environment={
            "environmentVariables": [
                {"name": "WHOLE", "value": "plain-of-a-build", "type": "SECRETS_MANAGER"},
                {"name": "BY_ARN", "value": f"{arn}:token", "type": "SECRETS_MANAGER"},
            ]
        },
    )

    build = builds.run(project)

    assert build["buildStatus"] == "SUCCEEDED", builds.log(build)
    assert builds.printed(build) == ["*** *** *** ***"]
    assert not any("t0ps3cret" in line or "p4rameter" in line for line in builds.log(build))
    assert {"name": "WHOLE", "value": "plain-of-a-build", "type": "SECRETS_MANAGER"} in build["environment"][
        "environmentVariables"
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "SECRETS_MANAGER",
            (
                "Secrets Manager Error",
                "ResourceNotFoundException: Secrets Manager can't find the specified secret.",
            ),
        ),
        ("PARAMETER_STORE", ("Decrypted Variables Error", "parameter does not exist: absent")),
    ],
)
def test_a_secret_that_is_not_there(builds: Builds, kind: str, expected: tuple[str, str]) -> None:
    build = builds.run(
        builds.project(ECHO), environmentVariablesOverride=[{"name": "X", "value": "absent", "type": kind}]
    )

    assert failure(builds, build) == expected
