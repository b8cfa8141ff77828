"""The builds' stack: its projects, their limits, and the least rights of each role."""

import json
from typing import Any

import pytest

from build_run.decision import WAIT_LIMIT
from stacks import build_sources
from stacks.build_settings import MAX_TIMEOUT_MINUTES, PYTHON_IMAGE, QUEUED_TIMEOUT_MINUTES
from stacks.constructs.polling_provider import TOTAL_TIMEOUT
from stacks.dlc import DIGESTS
from tests.stacks.template_reader import Templates, build_of, flat, of_type, rights, statements, the_only

ARTIFACTS, BUILDS, DECISIONS = "semif-dev-artifacts", "semif-dev-builds", "semif-dev-decisions"
BUCKET = "arn:aws:s3:::<semif-dev-artifacts:ExportsOutputRefModelBucketB9306378>"
REPOSITORY_NAME = "<semif-dev-artifacts:ExportsOutputRefImageRepository55BF8BF8>"
REPOSITORY = f"arn:aws:ecr:eu-central-1:ACCOUNT:repository/{REPOSITORY_NAME}"
ASSETS = "arn:aws:s3:::cdk-hnb659fds-assets-ACCOUNT-eu-central-1"
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
PUSH = tuple(
    sorted(
        (
            *PULL,
            "ecr:BatchDeleteImage",
            "ecr:CompleteLayerUpload",
            "ecr:DescribeImageScanFindings",
            "ecr:DescribeImages",
            "ecr:InitiateLayerUpload",
            "ecr:PutImage",
            "ecr:StartImageScan",
            "ecr:UploadLayerPart",
        )
    )
)
WRITES_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")
OWN_LOG = "<Logs6819BB44.Arn>"
SOURCE_RIGHTS = {
    WRITES_LOG: OWN_LOG,
    ("s3:GetObject", "s3:GetObjectVersion"): f"{ASSETS}/*.zip",
    ("s3:GetBucketAcl", "s3:GetBucketLocation"): ASSETS,
}


def projects(templates: Templates) -> dict[str, dict[str, Any]]:
    found = of_type(templates[BUILDS], "AWS::CodeBuild::Project").values()
    return {item["Properties"]["Name"]: flat(item["Properties"]) for item in found}


def test_projects_for_what_is_wanted_and_only_images_are_privileged(
    templates: Templates, gpu_templates: Templates
) -> None:
    privileged = {
        name: project["Environment"]["PrivilegedMode"]
        for some in (templates, gpu_templates)
        for name, project in projects(some).items()
    }
    assert privileged == {
        "semif-dev-archive": False,
        "semif-dev-image-cpu": True,
        "semif-dev-image-cuda": True,
    }
    assert set(projects(templates)) == {"semif-dev-archive", "semif-dev-image-cpu"}
    assert set(projects(gpu_templates)) == {"semif-dev-archive", "semif-dev-image-cuda"}


def test_only_what_is_not_brought_is_built(
    synthesize: Any, environment: dict[str, Any], brought: dict[str, Any]
) -> None:
    own_image = synthesize(environment | {"endpoints": brought["endpoints"]})
    assert set(projects(own_image)) == {"semif-dev-archive"}
    assert "ImageBuildRun" not in json.dumps(own_image)
    assert "Privileged" not in json.dumps(own_image).replace('"PrivilegedMode": false', "")
    own_model = synthesize(environment | {"model": brought["model"]})
    assert set(projects(own_model)) == {"semif-dev-image-cpu"}
    assert {
        item["Properties"]["Kind"] for item in of_type(own_model[DECISIONS], "Custom::BuildRun").values()
    } == {"image"}


def test_nothing_is_built_where_both_are_brought(brought_templates: Templates) -> None:
    assert set(brought_templates) == {ARTIFACTS, DECISIONS}
    text = json.dumps(brought_templates).lower()
    for word in ("codebuild", "privileged", "buildrun", "build_run"):
        assert word not in text


def test_limits_logs_and_sources(templates: Templates, gpu_templates: Templates) -> None:
    group = the_only(templates[BUILDS], "AWS::Logs::LogGroup")
    assert group["Properties"] == {
        "LogGroupName": "/semif/dev/builds",
        "RetentionInDays": 90,
        "Tags": [{"Key": "team", "Value": "decisions"}],
    }
    assert group["DeletionPolicy"] == "Delete"
    buildspecs = {
        "archive": "semif/codebuild/buildspec.yml",
        "image-cpu": "buildspec.yml",
        "image-cuda": "buildspec.yml",
    }
    for name, project in {**projects(templates), **projects(gpu_templates)}.items():
        assert (project["TimeoutInMinutes"], project["QueuedTimeoutInMinutes"]) == (45, 50)
        # With a limit of its own a project refuses builds instead of queueing them.
        assert "ConcurrentBuildLimit" not in project
        assert project["EncryptionKey"] == "alias/aws/s3"
        assert project["Artifacts"] == {"Type": "NO_ARTIFACTS"}
        assert project["LogsConfig"] == {
            "CloudWatchLogs": {"GroupName": "<Logs6819BB44>", "Status": "ENABLED", "StreamName": name}
        }
        assert project["Environment"]["Type"] == "LINUX_CONTAINER"
        assert "EnvironmentVariables" not in project["Environment"]
        assert project["Source"]["Type"] == "S3"
        assert project["Source"]["BuildSpec"] == buildspecs[name.removeprefix("semif-dev-")]
        assert project["Source"]["Location"].endswith(".zip")


def test_every_buildspec_is_where_its_project_looks() -> None:
    assert (build_sources.CONTAINER_SOURCES / build_sources.IMAGE_BUILDSPEC).is_file()
    assert (build_sources.PROJECT_ROOT / build_sources.ARCHIVE_BUILDSPEC).is_file()


def test_the_resource_can_wait_for_the_longest_build_and_gives_up_by_itself() -> None:
    limit_minutes = WAIT_LIMIT.total_seconds() / 60
    assert MAX_TIMEOUT_MINUTES < limit_minutes < TOTAL_TIMEOUT.to_minutes()
    assert limit_minutes < MAX_TIMEOUT_MINUTES + QUEUED_TIMEOUT_MINUTES


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_rights_of_an_images_build(templates: Templates, gpu_templates: Templates, flavour: str) -> None:
    template = (templates if flavour == "cpu" else gpu_templates)[BUILDS]
    assert (rights(template, f"Image{flavour.capitalize()}Role")) == SOURCE_RIGHTS | {
        ("ecr:GetAuthorizationToken",): "*",
        ("inspector2:ListCoverage", "inspector2:ListFindings"): "*",
        PUSH: REPOSITORY,
        PULL: "arn:aws:ecr:eu-central-1:763104351884:repository/llama-cpp",
        ("s3:GetObject", "s3:PutObject"): f"{BUCKET}/provenance/images/{flavour}-*",
    }


def test_rights_of_the_archives_build(templates: Templates) -> None:
    assert (rights(templates[BUILDS], "ArchiveRole")) == SOURCE_RIGHTS | {
        (
            "s3:AbortMultipartUpload",
            "s3:GetObject",
            "s3:ListMultipartUploadParts",
            "s3:PutObject",
        ): [f"{BUCKET}/models/*", f"{BUCKET}/provenance/models/*"],
        ("s3:ListBucket",): BUCKET,
    }


def test_every_role_is_for_codebuild_in_this_account_alone(templates: Templates) -> None:
    roles = of_type(templates[BUILDS], "AWS::IAM::Role")
    assert len(roles) == 2
    for role in roles.values():
        (trust,) = flat(role["Properties"]["AssumeRolePolicyDocument"]["Statement"])
        assert trust["Principal"] == {"Service": "codebuild.amazonaws.com"}
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "ACCOUNT"}}


@pytest.mark.parametrize(
    ("secret", "arn"),
    [
        ("hub/token", "arn:aws:secretsmanager:eu-central-1:ACCOUNT:secret:hub/token-??????"),
        *(2 * ("arn:aws:secretsmanager:eu-central-1:111122223333:secret:hub-Ab1Cd2",),),
    ],
)
def test_the_hubs_token_is_a_secret_of_the_archives_build_alone(
    synthesize: Any, environment: dict[str, Any], secret: str, arn: str
) -> None:
    templates = synthesize(environment | {"model": environment["model"] | {"token_secret": secret}})
    found = projects(templates)
    assert found["semif-dev-archive"]["Environment"]["EnvironmentVariables"] == [
        {"Name": "HF_TOKEN", "Type": "SECRETS_MANAGER", "Value": secret}
    ]
    assert rights(templates[BUILDS], "ArchiveRole")[("secretsmanager:GetSecretValue",)] == arn
    assert "secretsmanager" not in json.dumps(statements(templates[BUILDS], "ImageCpuRole"))
    assert secret not in json.dumps(templates[DECISIONS])
    assert "EnvironmentVariables" not in found["semif-dev-image-cpu"]["Environment"]


def test_settings_reach_the_builds_and_their_rights(synthesize: Any, environment: dict[str, Any]) -> None:
    build = {
        "base_image_cpu": f"222233334444.dkr.ecr.eu-west-1.amazonaws.com/mirror/llama-cpp@sha256:{'1' * 64}",
        "python_image": f"222233334444.dkr.ecr.eu-west-1.amazonaws.com/mirror/python@sha256:{'2' * 64}",
        "bindings_cpu": "requirements-mine.txt",
        "package_index": "https://mirror.example/simple",
        "hub": "https://hub.example",
        "scan_severity": "HIGH",
        "timeout_minutes": 20,
    }
    model = environment["model"] | {"source": {"uri": "s3://sources/a/X.gguf"}}
    templates = synthesize(environment | {"build": build, "model": model})
    pulled = [
        s["Resource"] for s in statements(templates[BUILDS], "ImageCpuRole") if tuple(s["Action"]) == PULL
    ]
    # CDK joins statements that differ in their resource alone.
    assert pulled == [
        [
            "arn:aws:ecr:eu-west-1:222233334444:repository/mirror/llama-cpp",
            "arn:aws:ecr:eu-west-1:222233334444:repository/mirror/python",
        ]
    ]
    assert rights(templates[BUILDS], "ArchiveRole")[("s3:GetObject",)] == "arn:aws:s3:::sources/a/X.gguf"
    image, archive = (build_of(templates[DECISIONS], kind)["Environment"] for kind in ("image", "archive"))
    assert (image["SEMIF_BASE_IMAGE"], image["SEMIF_PYTHON_IMAGE"]) == (
        build["base_image_cpu"],
        build["python_image"],
    )
    assert json.loads(image["SEMIF_BUILD_ARGS"]) == {"BINDINGS": "requirements-mine.txt"}
    assert (image["SEMIF_SCAN_SEVERITY"], image["PIP_INDEX_URL"]) == ("HIGH", "https://mirror.example/simple")
    assert (archive["HF_ENDPOINT"], archive["PIP_INDEX_URL"]) == (
        "https://hub.example",
        "https://mirror.example/simple",
    )
    assert {project["TimeoutInMinutes"] for project in projects(templates).values()} == {20}
    assert {build_of(templates[DECISIONS], kind)["TimeoutMinutes"] for kind in ("image", "archive")} == {"70"}


def test_base_images_of_the_default(templates: Templates, gpu_templates: Templates) -> None:
    for some, flavour, dockerfile in (
        (templates, "cpu", "Dockerfile"),
        (gpu_templates, "cuda", "Dockerfile.gpu"),
    ):
        run = build_of(some[DECISIONS], "image")
        base = f"763104351884.dkr.ecr.eu-central-1.amazonaws.com/llama-cpp@{DIGESTS[flavour]}"
        assert run["Environment"]["SEMIF_BASE_IMAGE"] == base
        assert run["Environment"]["SEMIF_PYTHON_IMAGE"] == PYTHON_IMAGE
        assert run["Environment"]["SEMIF_DOCKERFILE"] == dockerfile
        assert run["BaseImageDigest"] == DIGESTS[flavour]
