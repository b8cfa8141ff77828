"""The templates: names that must not move, data, rights, and the joints to the code."""

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from instance_pool.attempts import STACK_ID, Outcome, ended_tags, first_tags, started_tags
from instance_pool.pool import PREFIX_LENGTH
from instance_pool.properties import parse_pool
from instance_pool.walk import BUDGET, MARGIN
from semif.attempts import MAX_NAME_IN_CONFIGURATION, read_attempt
from semif.deployment import POOL_TYPE
from semif.walk_lines import WALK_BUDGET_S
from semif_server.settings import Settings
from stacks.constructs.instance_pool_provider import CONFIGURATION_PREFIX_LENGTH
from stacks.constructs.polling_provider import TOTAL_TIMEOUT
from stacks.constructs.pooled_endpoint import RESOURCE_TYPE
from stacks.example_decision import EXAMPLE_REQUEST, example_command
from stacks.time_proof import BUDGET_S, MARGIN_S
from tests.stacks.template_reader import Templates, flat, of_type, rights, statements, the_only

ARTIFACTS, BUILDS, DECISIONS = "semif-dev-artifacts", "semif-dev-builds", "semif-dev-decisions"
EXPORT = "semif-dev-artifacts:ExportsOutputRef"
POOL = "DecisionsInstancePool"
SAGEMAKER_ARN = "arn:aws:sagemaker:eu-central-1:ACCOUNT"
ENDPOINT_ARN = f"{SAGEMAKER_ARN}:endpoint/semif-dev-decisions"
CONFIGURATION_ARN = f"{SAGEMAKER_ARN}:endpoint-config/semif-dev-decisions-*"


def test_stack_names_and_retained_resources_stay(templates: Templates) -> None:
    assert set(templates) == {ARTIFACTS, BUILDS, DECISIONS}
    retained = {
        (stack, key, item["Type"])
        for stack, template in templates.items()
        for key, item in template["Resources"].items()
        if item.get("DeletionPolicy") == "Retain"
    }
    assert retained == {
        (ARTIFACTS, "ModelBucket", "AWS::S3::Bucket"),
        (ARTIFACTS, "ImageRepository", "AWS::ECR::Repository"),
    }
    for _, key, _ in retained:
        assert templates[ARTIFACTS]["Resources"][key]["UpdateReplacePolicy"] == "Retain"


def test_exports_stay(templates: Templates) -> None:
    exports = {
        output["Export"]["Name"]: flat(output["Value"])
        for output in templates[ARTIFACTS]["Outputs"].values()
        if "Export" in output
    }
    assert exports == {
        f"{EXPORT}ModelBucketB9306378": "<ModelBucket>",
        f"{EXPORT}ImageRepository55BF8BF8": "<ImageRepository>",
    }


def test_the_bucket_is_closed_and_versioned(templates: Templates) -> None:
    template = templates[ARTIFACTS]
    properties = the_only(template, "AWS::S3::Bucket")["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(properties["PublicAccessBlockConfiguration"]) == 4
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    encryption = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption == [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    (lifecycle,) = properties["LifecycleConfiguration"]["Rules"]
    assert lifecycle == {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}, "Status": "Enabled"}
    assert "BucketName" not in properties
    (statement,) = the_only(template, "AWS::S3::BucketPolicy")["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_repository_lets_sagemaker_pull(templates: Templates) -> None:
    properties = the_only(templates[ARTIFACTS], "AWS::ECR::Repository")["Properties"]
    assert properties["ImageTagMutability"] == "IMMUTABLE"
    assert properties["ImageScanningConfiguration"] == {"ScanOnPush": True}
    assert "RepositoryName" not in properties
    (statement,) = properties["RepositoryPolicyText"]["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Action"] == [
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
    ]


def test_no_lifecycle_rule_ever_expires_a_finished_image(templates: Templates) -> None:
    properties = the_only(templates[ARTIFACTS], "AWS::ECR::Repository")["Properties"]
    rules = json.loads(properties["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    rules.sort(key=lambda rule: rule["rulePriority"])
    # An image that matches a rule's tags is never expired by a later rule, so these come first. A rule with
    # two prefixes would match images that have both.
    for rule, prefix in zip(rules, ("cpu-", "cuda-"), strict=False):
        assert rule["selection"]["tagPrefixList"] == [prefix]
        assert rule["selection"]["countType"] == "imageCountMoreThan"
        assert rule["selection"]["countNumber"] > 100_000  # ECR's quota of images in a repository
    candidates, untagged = (rule["selection"] for rule in rules[2:])
    days = {"countType": "sinceImagePushed", "countUnit": "days", "countNumber": 7}
    assert candidates == {"tagStatus": "tagged", "tagPrefixList": ["candidate-"]} | days
    assert untagged == {"tagStatus": "untagged"} | days


def test_encryption_of_images_is_not_changed_by_an_update(templates: Templates) -> None:
    # AES-256 is what ECR does without the property; with it an existing repository would be replaced.
    properties = the_only(templates[ARTIFACTS], "AWS::ECR::Repository")["Properties"]
    assert "EncryptionConfiguration" not in properties


def test_the_model(templates: Templates) -> None:
    properties = flat(the_only(templates[DECISIONS], "AWS::SageMaker::Model")["Properties"])
    assert "ModelName" not in properties
    assert properties["EnableNetworkIsolation"] is True
    assert properties["Tags"] == [{"Key": "team", "Value": "decisions"}]
    container = properties["PrimaryContainer"]
    assert container["ModelDataSource"]["S3DataSource"] == {
        "CompressionType": "None",
        "S3DataType": "S3Prefix",
        "S3Uri": "<ArchiveBuildF47F5CCB.ModelUri>",
    }
    assert container["Image"] == "<ImageCpuBuild38F9F75E.ImageUri>"


def test_every_variable_is_a_setting_of_the_server(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = the_only(templates[DECISIONS], "AWS::SageMaker::Model")
    variables = model["Properties"]["PrimaryContainer"]["Environment"]
    assert set(variables) <= set(Settings.names())
    for name, value in variables.items():
        monkeypatch.setenv(name, str(flat(value)))
    settings = Settings()
    # The archive's own word for its file, in the model's folder.
    assert str(settings.gguf_path).startswith("/opt/ml/model/<ArchiveBuild")
    assert (settings.max_tokens, settings.max_request_tokens) == (4096, 8192)
    assert (settings.n_gpu_layers, settings.max_shared_decisions, settings.max_body_bytes) == (0, 64, 262_144)
    assert not {"SEMIF_HOST", "SEMIF_PORT", "SEMIF_THREADS"} & set(variables)


def test_the_custom_resources_properties_parse_as_strings(templates: Templates) -> None:
    resource = the_only(templates[DECISIONS], RESOURCE_TYPE)
    pool = parse_pool(flat(resource["Properties"]))
    assert (pool.endpoint_name, pool.variant_name, pool.native) == ("semif-dev-decisions", "AllTraffic", True)
    (only,) = pool.rounds
    assert only.types == ("ml.c7i.2xlarge", "ml.c6i.2xlarge")
    assert (only.initial_instance_count, only.inference_ami_version, only.last_resort) == (1, None, False)
    assert pool.tags == (("team", "decisions"),)
    times = (pool.provision_timeout_s, pool.download_timeout_s, pool.startup_timeout_s)
    assert times == (1200, 900, 600)
    assert (pool.update.type, pool.update.termination_wait_s) == ("all-at-once", 0)
    assert pool.rollback_alarms == ("semif-dev-decisions-errors",)
    assert CONFIGURATION_ARN.endswith(f"/{pool.round_name(0)[: -len('0123456789-0')]}*")


def test_the_endpoint_goes_before_its_role_and_the_walk(templates: Templates) -> None:
    resource = the_only(templates[DECISIONS], "Custom::InstancePoolEndpoint")
    waits_for = " ".join(resource["DependsOn"])
    for part in (
        "ExecutionRoleDefaultPolicy",
        "ExecutionRole",
        "IsCompleteRoleDefaultPolicy",
        "waiterstatemachine",
    ):
        assert part in waits_for
    assert "ExecutionRoleDefaultPolicy" in " ".join(
        the_only(templates[DECISIONS], "AWS::SageMaker::Model")["DependsOn"]
    )


def test_the_watch_and_the_walk_agree(templates: Templates) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    endpoint = "e" * 63
    tags = first_tags(
        stack_id="arn:1",
        endpoint_name=endpoint,
        request_id="r-1",
        types=("ml.g6e.xlarge", "ml.g5.xlarge"),
        next_types=("ml.c6i.2xlarge",),
        index=0,
        rounds=2,
        last_resort=False,
        skipped=(),
    )
    tags |= started_tags(when) | ended_tags(Outcome.CAPACITY, "none left", when + timedelta(seconds=9))
    configuration = f"{endpoint[:CONFIGURATION_PREFIX_LENGTH]}-0123456789-0"
    read = read_attempt(configuration, tags, endpoint, made_at=when)
    assert read is not None
    assert (read.outcome, read.reason, read.seconds) == ("capacity", "none left", 9.0)
    assert (read.position, read.configuration, read.request_id) == (1, configuration, "r-1")
    assert MAX_NAME_IN_CONFIGURATION == CONFIGURATION_PREFIX_LENGTH == PREFIX_LENGTH
    assert BUDGET.total_seconds() == WALK_BUDGET_S < TOTAL_TIMEOUT.to_seconds()
    assert {RESOURCE_TYPE} == {
        kind for kind in (r["Type"] for r in templates[DECISIONS]["Resources"].values()) if "Pool" in kind
    }
    assert RESOURCE_TYPE == POOL_TYPE


def test_the_walk_and_the_proof_count_alike() -> None:
    assert BUDGET.total_seconds() == BUDGET_S < TOTAL_TIMEOUT.to_seconds()
    assert MARGIN.total_seconds() == MARGIN_S


def test_ssm_takes_every_value(templates: Templates) -> None:
    for template in templates.values():
        for item in of_type(template, "AWS::SSM::Parameter").values():
            value = flat(item["Properties"]["Value"])
            assert "{{" not in value  # would be a reference to another parameter
            assert 0 < len(value.encode()) <= 4096


def test_the_waiter_polls_each_15_s_for_55_minutes(templates: Templates) -> None:
    machines = of_type(templates[DECISIONS], "AWS::StepFunctions::StateMachine")
    assert len(machines) == 2  # the walk's and the builds'
    for machine in machines.values():
        definition = json.loads(flat(machine["Properties"]["DefinitionString"]))
        (retry,) = definition["States"]["framework-isComplete-task"]["Retry"]
        assert (retry["IntervalSeconds"], retry["MaxAttempts"], retry["BackoffRate"]) == (15, 220, 1)


LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")


def test_rights_of_the_execution_role(templates: Templates) -> None:
    template = templates[DECISIONS]
    (role,) = (r for k, r in of_type(template, "AWS::IAM::Role").items() if k.startswith("ExecutionRole"))
    (trust,) = flat(role["Properties"]["AssumeRolePolicyDocument"]["Statement"])
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "ACCOUNT"}}
    assert "ManagedPolicyArns" not in role["Properties"]
    bucket = f"arn:aws:s3:::<{EXPORT}ModelBucketB9306378>"
    repository = f"arn:aws:ecr:eu-central-1:ACCOUNT:repository/<{EXPORT}ImageRepository55BF8BF8>"
    assert rights(template, "ExecutionRole") == {
        ("s3:GetObject",): f"{bucket}/models/*",
        ("s3:ListBucket",): bucket,
        ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"): repository,
        ("ecr:GetAuthorizationToken",): "*",
        ("cloudwatch:PutMetricData",): "*",
        (
            "logs:CreateLogGroup",
            "logs:CreateLogStream",
            "logs:DescribeLogStreams",
            "logs:PutLogEvents",
        ): "arn:aws:logs:eu-central-1:ACCOUNT:log-group:/aws/sagemaker/Endpoints/*",
    }
    conditions = [s["Condition"] for s in statements(template, "ExecutionRole") if "Condition" in s]
    assert conditions == [
        {"StringLike": {"s3:prefix": ["models/*"]}},
        {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Endpoints"}},
    ]


def test_rights_of_the_functions(templates: Templates) -> None:
    template = templates[DECISIONS]
    found = {item.pop("Sid", "OwnLogs"): item for item in statements(template, f"{POOL}IsCompleteRole")}
    assert {item.pop("Effect") for item in found.values()} == {"Allow"}
    log_group = found.pop("OwnLogs")["Resource"]
    assert re.fullmatch(rf"<{POOL}Logs\w+\.Arn>", log_group)
    own = [CONFIGURATION_ARN, ENDPOINT_ARN]
    any_name = [f"{SAGEMAKER_ARN}:endpoint-config/*", f"{SAGEMAKER_ARN}:endpoint/*"]
    deletions = ["sagemaker:DeleteEndpoint", "sagemaker:DeleteEndpointConfig"]
    readings = ["sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig", "sagemaker:ListTags"]
    scaling = "application-autoscaling"
    alarms = "arn:aws:cloudwatch:eu-central-1:ACCOUNT:alarm"
    assert found == {
        "EndpointWithConfiguration": {
            "Action": ["sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"],
            "Resource": own,
        },
        "Configurations": {"Action": "sagemaker:CreateEndpointConfig", "Resource": CONFIGURATION_ARN},
        "Tags": {"Action": ["sagemaker:AddTags", "sagemaker:DeleteTags"], "Resource": own},
        "Deletion": {"Action": deletions, "Resource": own},
        "Reading": {"Action": readings, "Resource": any_name},
        "DeletionOfRenamed": {
            "Action": deletions,
            "Resource": any_name,
            "Condition": {"StringEquals": {f"aws:ResourceTag/{STACK_ID}": "<AWS::StackId>"}},
        },
        "Listing": {
            "Action": ["sagemaker:ListEndpointConfigs", "sagemaker:ListEndpoints"],
            "Resource": "*",
        },
        "Circumstances": {
            "Action": [
                *(
                    f"{scaling}:DescribeScal{what}"
                    for what in ("ableTargets", "ingActivities", "ingPolicies")
                ),
                f"{scaling}:DescribeScheduledActions",
                "cloudwatch:DescribeAlarms",
                "servicequotas:ListServiceQuotas",
            ],
            "Resource": "*",
        },
        "Scaling": {
            "Action": [
                f"{scaling}:DeregisterScalableTarget",
                f"{scaling}:PutScalingPolicy",
                f"{scaling}:PutScheduledAction",
                f"{scaling}:RegisterScalableTarget",
            ],
            "Resource": "*",
            "Condition": {"StringEquals": {f"{scaling}:service-namespace": "sagemaker"}},
        },
        "ScalingOfTheVariant": {
            "Action": "sagemaker:UpdateEndpointWeightsAndCapacities",
            "Resource": ENDPOINT_ARN,
        },
        "ScalingAlarms": {
            "Action": ["cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"],
            "Resource": f"{alarms}:TargetTracking-endpoint/semif-dev-decisions/variant/*",
        },
        "OwnState": {"Action": "cloudformation:DescribeStacks", "Resource": "<AWS::StackId>"},
    }
    assert rights(template, f"{POOL}OnEventRole") == {LOGS: log_group}


SCALING_ACTIONS = (
    *("DescribeScalableTargets", "DescribeScalingActivities", "DescribeScalingPolicies"),
    *("DescribeScheduledActions", "DeregisterScalableTarget", "RegisterScalableTarget"),
    *("PutScalingPolicy", "PutScheduledAction"),
)
"""Those that write are bound to SageMaker's namespace; a target's id is not known before it exists."""


def test_no_role_has_more_than_these(templates: Templates) -> None:
    for template in templates.values():
        for role in of_type(template, "AWS::IAM::Role").values():
            assert "ManagedPolicyArns" not in role["Properties"]
            assert "Policies" not in role["Properties"]
        broad = {
            action
            for key in of_type(template, "AWS::IAM::Policy")
            for statement in statements(template, key.split("DefaultPolicy")[0])
            if statement["Resource"] == "*"
            for action in (
                [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
            )
        }
        assert broad <= {
            "cloudwatch:PutMetricData",
            "ecr:GetAuthorizationToken",
            "inspector2:ListCoverage",
            "inspector2:ListFindings",
            "sagemaker:ListEndpointConfigs",
            "sagemaker:ListEndpoints",
            "servicequotas:ListServiceQuotas",
            "cloudwatch:DescribeAlarms",
            *(f"application-autoscaling:{name}" for name in SCALING_ACTIONS),
        }
        assert not any("*" in action for action in broad)


def test_outputs_and_parameters(templates: Templates) -> None:
    expected = {
        ARTIFACTS: ["BucketName", "RepositoryUri"],
        BUILDS: ["ArchiveProject", "ImageCpuProject", "LogGroup"],
        DECISIONS: [
            *("Attempts", "Degraded", "EndpointArn", "EndpointName", "ExampleCommand", "ImageUri"),
            *("InstanceType", "LogGroup", "ModelSha256", "ModelUri", "Region", "Round"),
        ],
    }
    for stack, names in expected.items():
        template = templates[stack]
        outputs = {
            key: flat(item["Value"]) for key, item in template["Outputs"].items() if "Export" not in item
        }
        assert sorted(outputs) == names
        parameters = {
            item["Properties"]["Name"]: flat(item["Properties"]["Value"])
            for item in of_type(template, "AWS::SSM::Parameter").values()
        }
        path = stack.replace("semif-dev-", "/semif/dev/")
        if stack == DECISIONS:
            pool = json.loads(parameters.pop(f"{path}/pool"))
            resource = flat(the_only(template, RESOURCE_TYPE)["Properties"])
            assert pool == {key: value for key, value in resource.items() if key != "ServiceToken"}
            assert parameters.pop(f"{path}/pool-function").startswith(f"<{POOL}IsComplete")
        assert parameters == {
            f"{path}/{re.sub('(?<!^)(?=[A-Z])', '-', name).lower()}": value for name, value in outputs.items()
        }
    assert "/semif/dev/decisions/model-sha256" in parameters


def test_the_example_command_survives_bash(templates: Templates) -> None:
    words = shlex.split(templates[DECISIONS]["Outputs"]["ExampleCommand"]["Value"])
    assert words[:3] == ["aws", "sagemaker-runtime", "invoke-endpoint"]
    given = dict(zip(words[3:-1:2], words[4:-1:2], strict=True))
    assert given["--region"] == "eu-central-1"
    assert given["--endpoint-name"] == "semif-dev-decisions"
    assert json.loads(given["--body"]) == EXAMPLE_REQUEST


def test_the_example_command_quotes_whatever_the_request_holds() -> None:
    request = {"state": 'it\'s "$HOME" `here` \\ ümlaut!'}
    echoed = subprocess.run(
        ["bash", "-c", example_command("e", "r", request).replace("aws ", "printf '%s\\n' ", 1)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert json.loads(echoed[echoed.index("--body") + 1]) == request


def test_names_fit(synthesize: Any, environment: dict[str, Any]) -> None:
    long = environment | {"name": "a23456789-123456"}
    for stack, template in synthesize(long).items():
        assert len(stack) <= 63
        for resource in of_type(template, RESOURCE_TYPE).values():
            pool = parse_pool(flat(resource["Properties"]))
            assert len(pool.attempt_name(99, ("ml.c6i.2xlarge",), "request")) <= 63


@pytest.mark.parametrize(
    ("region", "partition"),
    [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("ap-southeast-3", "aws")],
)
def test_partitions(synthesize: Any, environment: dict[str, Any], region: str, partition: str) -> None:
    build = {"base_image_cpu": f"registry.example/llama-cpp@sha256:{'1' * 64}"}
    one_type = {"decisions": {"pool": ["ml.c6i.2xlarge"]}}
    settings = {"region": region, "account": "111122223333", "build": build, "endpoints": one_type}
    templates = synthesize(environment | settings)
    text = json.dumps([flat(template) for template in templates.values()])
    arns = set(re.findall(r"arn:(aws[a-z-]*):", text))
    assert arns <= {partition, "aws"}
    # Where the partition is not literal it is CloudFormation's own, which `flat` writes as aws.
    if partition != "aws":
        assert "arn:aws:" not in json.dumps(list(templates.values()))


def test_a_given_image_is_what_may_be_pulled(synthesize: Any, environment: dict[str, Any]) -> None:
    uri = "999988887777.dkr.ecr.eu-central-1.amazonaws.com/team/image@sha256:" + "1" * 64
    decisions = {
        "image": {"uri": uri},
        "pool": ["ml.g5.xlarge"],
        "inference_ami_version": "al2023-ami-sagemaker-inference-gpu-4-1",
        "threads": 7,
        "batching": "exact",
        "cache_bytes": 2**31,
        "sequences": 8,
        "deadline_s": 30,
    }
    template = synthesize(environment | {"endpoints": {"decisions": decisions}})[DECISIONS]
    container = the_only(template, "AWS::SageMaker::Model")["Properties"]["PrimaryContainer"]
    assert container["Image"] == uri
    variables = container["Environment"]
    assert variables["SEMIF_THREADS"] == "7"
    assert (variables["SEMIF_BATCHING"], variables["SEMIF_CACHE_BYTES"]) == ("exact", "2147483648")
    assert (variables["SEMIF_SEQUENCES"], variables["SEMIF_DEADLINE_S"]) == ("8", "30")
    assert set(variables) <= set(Settings.names())
    arn = "arn:aws:ecr:eu-central-1:999988887777:repository/team/image"
    assert arn in rights(template, "ExecutionRole").values()
    pool = parse_pool(flat(the_only(template, RESOURCE_TYPE)["Properties"]))
    assert pool.rounds[0].inference_ami_version == "al2023-ami-sagemaker-inference-gpu-4-1"


def test_invoke_is_granted_on_one_endpoint(environment: dict[str, Any]) -> None:
    import aws_cdk as cdk  # noqa: PLC0415 - jsii starts a node process
    from aws_cdk import assertions  # noqa: PLC0415
    from aws_cdk import aws_iam as iam  # noqa: PLC0415

    from stacks.settings import parse_environments  # noqa: PLC0415
    from stacks.stage import EnvironmentStage  # noqa: PLC0415

    stage = EnvironmentStage(cdk.App(), parse_environments([environment], {})[0])
    stack = stage.endpoints["decisions"]
    caller = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
    stack.endpoint.grant_invoke(caller)
    template = dict(assertions.Template.from_stack(stack).to_json())
    (statement,) = statements(template, "Caller")
    assert statement["Action"] == "sagemaker:InvokeEndpoint"
    assert statement["Resource"].endswith(":endpoint/semif-dev-decisions")
