"""What an endpoint's stack consumes: the resources of its builds, and where their answers go."""

import importlib
import json
import re
from datetime import UTC, datetime
from typing import Any

from build_run.properties import Archive, Image, parse_wanted
from image_build.settings import parse_settings
from semif.package_model.recipe import parse_recipe
from tests.stacks.template_reader import Templates, build_of, flat, of_type, statements, the_only

DECISIONS = "semif-dev-decisions"
BUCKET_NAME = "<semif-dev-artifacts:ExportsOutputRefModelBucketB9306378>"
BUCKET = f"arn:aws:s3:::{BUCKET_NAME}"
REPOSITORY_NAME = "<semif-dev-artifacts:ExportsOutputRefImageRepository55BF8BF8>"
PROJECT = "arn:aws:codebuild:eu-central-1:ACCOUNT:project/semif-dev"
EVERY_PROJECT = [f"{PROJECT}-archive", f"{PROJECT}-image-cpu", f"{PROJECT}-image-cuda"]


def depends_on(template: dict[str, Any], logical_id: str) -> set[str]:
    """All that CloudFormation makes before a resource."""
    found: set[str] = set()
    waiting = [logical_id]
    while waiting:
        resource = template["Resources"][waiting.pop()]
        text = json.dumps(resource.get("Properties", {}))
        named = {*re.findall(r'"Fn::GetAtt": \["(\w+)"', text), *re.findall(r'"Ref": "(\w+)"', text)}
        named |= set(resource.get("DependsOn", []))
        new = (named & template["Resources"].keys()) - found
        found |= new
        waiting.extend(new)
    return found


def deployed(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties with made-up values in the place of references, as the function gets them."""
    values = json.dumps(properties).replace("ACCOUNT", "111122223333").replace("SUFFIX", "amazonaws.com")
    return dict(json.loads(re.sub(r"<[^>]+>", "name", values)))


def test_the_image_is_built_as_the_build_program_reads_it(templates: Templates) -> None:
    properties = build_of(templates[DECISIONS], "image")
    wanted = parse_wanted(deployed(properties))
    assert isinstance(wanted.result, Image)
    assert wanted.result.tag == f"cpu-{wanted.content_hash[:16]}"
    assert wanted.result.repository_name == "name"
    assert wanted.timeout_minutes == 95
    settings = parse_settings(dict(wanted.environment), now=datetime(2026, 1, 1, tzinfo=UTC))
    assert settings.image_tag == wanted.result.tag
    assert f"sha256:{settings.base_image.sha256}" == properties["BaseImageDigest"]
    assert settings.python_image is not None
    assert settings.build_args["BINDINGS"] == "requirements-bindings-cpu.txt"
    assert settings.dockerfile == "Dockerfile"
    assert settings.repository_uri == "111122223333.dkr.ecr.eu-central-1.amazonaws.com/name"


def test_the_archive_is_built_as_the_packager_reads_it(templates: Templates) -> None:
    wanted = parse_wanted(deployed(build_of(templates[DECISIONS], "archive")))
    assert wanted.result == Archive("name", f"models/{'ab' * 32}/", "ab" * 32)
    environment = dict(wanted.environment)
    recipe = parse_recipe(environment["SEMIF_RECIPE"])
    assert f"models/{recipe.id}/" == environment["SEMIF_PREFIX"] == wanted.result.prefix
    assert wanted.content_hash == recipe.id
    assert environment["SEMIF_BUCKET"] == "name"


def test_what_moves_is_a_property_of_its_own(templates: Templates) -> None:
    archive = build_of(templates[DECISIONS], "archive")
    assert (archive["ModelRevision"], archive["ModelSha256"]) == ("0123456789" * 4, "ab" * 32)
    for kind in ("image", "archive"):
        # CloudFormation hands a custom resource strings, and a diff shows them as they are.
        properties = build_of(templates[DECISIONS], kind)
        environment = properties.pop("Environment")
        assert all(isinstance(value, str) for value in {**properties, **environment}.values())
        assert re.fullmatch(
            r"cdk-hnb659fds-assets-ACCOUNT-eu-central-1/[0-9a-f]{64}\.zip", properties["SourceLocation"]
        )


def test_the_endpoint_waits_for_what_it_consumes(templates: Templates) -> None:
    template = templates[DECISIONS]
    (endpoint,) = of_type(template, "Custom::InstancePoolEndpoint")
    assert set(of_type(template, "Custom::BuildRun")) <= depends_on(template, endpoint)
    outputs = {key: flat(item["Value"]) for key, item in template["Outputs"].items()}
    assert outputs["ImageUri"] == "<ImageCpuBuild38F9F75E.ImageUri>"
    assert outputs["ModelUri"] == "<ArchiveBuildF47F5CCB.ModelUri>"
    assert outputs["ModelSha256"] == "<ArchiveBuildF47F5CCB.Sha256>"


def test_a_build_outlives_neither_its_functions_nor_their_rights(templates: Templates) -> None:
    template = templates[DECISIONS]
    for build in of_type(template, "Custom::BuildRun"):
        assert {"BuildRunIsCompleteRoleDefaultPolicy5A524A0F", "BuildRunIsCompleteD3E8CB54"} <= depends_on(
            template, build
        )


def test_rights_of_the_functions(templates: Templates) -> None:
    template = templates[DECISIONS]
    found = {item.pop("Sid", "OwnLogs"): item for item in statements(template, "BuildRunIsCompleteRole")}
    assert {item.pop("Effect") for item in found.values()} == {"Allow"}
    assert re.fullmatch(r"<BuildRunLogs\w+\.Arn>", found.pop("OwnLogs")["Resource"])
    assert found == {
        "Start": {"Action": "codebuild:StartBuild", "Resource": EVERY_PROJECT[:2]},
        "Follow": {
            "Action": ["codebuild:BatchGetBuilds", "codebuild:ListBuildsForProject", "codebuild:StopBuild"],
            "Resource": EVERY_PROJECT,
        },
        "LastLines": {
            "Action": "logs:GetLogEvents",
            "Resource": "arn:aws:logs:eu-central-1:ACCOUNT:log-group:/semif/dev/builds:log-stream:*",
        },
        "OwnState": {"Action": "cloudformation:DescribeStackResource", "Resource": "<AWS::StackId>"},
        "Image": {
            "Action": "ecr:DescribeImages",
            "Resource": f"arn:aws:ecr:eu-central-1:ACCOUNT:repository/{REPOSITORY_NAME}",
        },
        "Manifest": {"Action": "s3:GetObject", "Resource": f"{BUCKET}/models/*/model-manifest.json"},
        "ManifestListing": {
            "Action": "s3:ListBucket",
            "Resource": BUCKET,
            "Condition": {"StringLike": {"s3:prefix": ["models/*"]}},
        },
    }


def test_every_function_names_one_that_exists(templates: Templates) -> None:
    handlers = {
        item["Properties"]["Handler"]
        for item in of_type(templates[DECISIONS], "AWS::Lambda::Function").values()
        if item["Properties"]["Runtime"].startswith("python")
    }
    packages = ("build_run", "instance_pool")
    assert handlers == {f"{name}.handler.{step}" for name in packages for step in ("on_event", "is_complete")}
    for handler in handlers:
        module, _, name = handler.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))


def test_the_gpu_image_is_of_its_own_flavour(gpu_templates: Templates) -> None:
    template = gpu_templates[DECISIONS]
    properties = build_of(template, "image")
    assert properties["ProjectName"] == "semif-dev-image-cuda"
    assert properties["ImageTag"].startswith("cuda-")
    assert properties["Environment"]["SEMIF_DOCKERFILE"] == "Dockerfile.gpu"
    container = the_only(template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
    assert container["Environment"]["SEMIF_N_GPU_LAYERS"] == "-1"
    pool = the_only(template, "Custom::InstancePoolEndpoint")["Properties"]
    assert pool["Round1"]["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"


def test_what_is_brought_is_used_as_it_is(brought_templates: Templates, brought: dict[str, Any]) -> None:
    template = brought_templates[DECISIONS]
    container = the_only(template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
    image = brought["endpoints"]["decisions"]["image"]["uri"]
    assert container["Image"] == image
    assert container["ModelDataSource"]["S3DataSource"] == {
        "CompressionType": "None",
        "S3DataType": "S3Prefix",
        "S3Uri": "s3://my-models/qwen/v1/",
    }
    assert container["Environment"]["SEMIF_GGUF_PATH"] == "/opt/ml/model/Mine.gguf"
    found = {item["Sid"]: item for item in statements(template, "ExecutionRole")}
    assert found["ModelArchive"]["Resource"] == "arn:aws:s3:::my-models/qwen/v1/*"
    assert found["ModelListing"]["Resource"] == "arn:aws:s3:::my-models"
    assert found["ModelListing"]["Condition"] == {"StringLike": {"s3:prefix": ["qwen/v1/*"]}}
    assert found["Image"]["Resource"] == "arn:aws:ecr:eu-central-1:999988887777:repository/team/image"
    outputs = {key: flat(item["Value"]) for key, item in template["Outputs"].items()}
    assert (outputs["ImageUri"], outputs["ModelUri"]) == (image, "s3://my-models/qwen/v1/")
    assert outputs["ModelSha256"] == "cd" * 32


def test_a_packed_archive_is_unpacked_by_sagemaker(synthesize: Any, brought: dict[str, Any]) -> None:
    model = brought["model"] | {"s3_uri": "s3://my-models/qwen/model.tar.gz"}
    template = synthesize(brought | {"model": model})[DECISIONS]
    container = the_only(template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
    assert container["ModelDataSource"]["S3DataSource"] == {
        "CompressionType": "Gzip",
        "S3DataType": "S3Object",
        "S3Uri": "s3://my-models/qwen/model.tar.gz",
    }
    assert statements(template, "ExecutionRole")[0]["Resource"] == (
        "arn:aws:s3:::my-models/qwen/model.tar.gz*"
    )


def test_shards_are_named_by_the_build_that_cuts_them(synthesize: Any, environment: dict[str, Any]) -> None:
    model = environment["model"] | {"shard_bytes": 2_000_000_000}
    template = synthesize(environment | {"model": model})[DECISIONS]
    container = flat(the_only(template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"])
    assert container["Environment"]["SEMIF_GGUF_PATH"] == "/opt/ml/model/<ArchiveBuildF47F5CCB.File>"
    build = build_of(template, "archive")
    # The checksum is the source's; that of the first shard is not known before.
    assert build["ModelSha256"] == ""
    assert build["Prefix"] == f"models/{build['ContentHash']}/"
    assert build["ContentHash"] != "ab" * 32


def test_the_server_loads_the_file_that_the_archive_holds(
    synthesize: Any, environment: dict[str, Any]
) -> None:
    model = {"source": environment["model"]["source"], "file": "Small-Q8_0.gguf", "quantize": "Q8_0"}
    templates = synthesize(environment | {"model": model})
    container = flat(
        the_only(templates[DECISIONS], "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
    )
    assert container["Environment"]["SEMIF_GGUF_PATH"] == "/opt/ml/model/<ArchiveBuildF47F5CCB.File>"
    assert build_of(templates[DECISIONS], "archive")["ModelSha256"] == ""


def test_endpoints_of_one_environment_share_an_archive_and_an_image_per_flavour(
    synthesize: Any, environment: dict[str, Any]
) -> None:
    endpoints = {
        "decisions": {"pool": ["ml.c6i.2xlarge"]},
        "spare": {"pool": ["ml.m5.2xlarge"]},
        "fast": {"pool": ["ml.g6e.xlarge"]},
    }
    templates = synthesize(environment | {"endpoints": endpoints})
    assert set(templates) == {f"semif-dev-{name}" for name in ("artifacts", "builds", *endpoints)}
    assert len(of_type(templates["semif-dev-builds"], "AWS::CodeBuild::Project")) == 3
    images = {name: build_of(templates[f"semif-dev-{name}"], "image") for name in endpoints}
    assert images["decisions"]["ContentHash"] == images["spare"]["ContentHash"]
    assert images["fast"]["ImageTag"].startswith("cuda-")
    assert {build_of(templates[f"semif-dev-{name}"], "archive")["Prefix"] for name in endpoints} == {
        f"models/{'ab' * 32}/"
    }
    names = {flat(templates[f"semif-dev-{name}"]["Outputs"]["EndpointName"]["Value"]) for name in endpoints}
    assert names == {f"semif-dev-{name}" for name in endpoints}
