"""Reads what `semif doctor` judges. Each look-up stands alone: one that fails becomes an `Unknown`."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from semif.assembly import EnvironmentPlan, Template, compute_types, fleet_of
from semif.aws import DENIED, Aws, ClientError, aws_errors, describe
from semif.doctor_facts import (
    EndpointState,
    Facts,
    Identity,
    Quota,
    Session,
    StackState,
    Versions,
)
from semif.errors import NotFoundError, SemifError
from semif.findings import Unknown
from semif.fleet_api import fleet_in_use, fleet_of_endpoint
from semif.model_source_api import look_at_source

BOOTSTRAP: Final = "/cdk-bootstrap/hnb659fds/version"
OWNERSHIP_TAG: Final = "semif:stack-id"
USE: Final = " for endpoint usage"
COMPUTE: Final = {
    "BUILD_GENERAL1_SMALL": "linux/small",
    "BUILD_GENERAL1_MEDIUM": "linux/medium",
    "BUILD_GENERAL1_LARGE": "linux/large",
}

T = TypeVar("T")


def gather(aws: Aws, plan: EnvironmentPlan, templates: Mapping[str, Template], versions: Versions) -> Facts:
    """Look at everything once. Raises nothing of AWS's."""
    now, session = datetime.now(UTC), session_of(aws)
    identity = look("sts:GetCallerIdentity", lambda: _identity(aws))
    if isinstance(identity, Unknown):
        return Facts(now, versions, session, identity)
    sagemaker = aws.sagemaker()
    return Facts(
        now,
        versions,
        session,
        identity,
        bootstrap=look(f"ssm:GetParameter on {BOOTSTRAP}", lambda: _bootstrap(aws)),
        quotas=look("servicequotas:ListServiceQuotas", lambda: _instance_quotas(aws)),
        in_use=look("sagemaker:ListEndpoints and DescribeEndpoint", lambda: fleet_in_use(sagemaker)),
        endpoints={
            endpoint.key: state
            for endpoint in plan.endpoints
            if (state := _look_at_endpoint(sagemaker, endpoint.name)) is not None
        },
        stacks=look("cloudformation:DescribeStacks", lambda: _stacks(aws, plan, templates)),
        compute_types=compute_types(templates),
        build_quotas=look("servicequotas:ListServiceQuotas", lambda: _build_quotas(aws))
        if plan.builds
        else {},
        sources={model.address: look_at_source(aws, model, plan.region) for model in plan.models},
        secrets={
            model.token_secret: _secret(aws, model.token_secret)
            for model in plan.models
            if model.token_secret
        },
    )


def look(action: str, read: Callable[[], T]) -> T | Unknown:
    """What `read` returns, or why it could not."""
    try:
        with aws_errors(action):
            return read()
    except SemifError as error:
        return Unknown(action, error.message.removeprefix(f"{action}: "), denied=error.code in DENIED)


def session_of(aws: Aws) -> Session:
    """How long the session's credentials live."""
    credentials = aws.session.get_credentials()
    if credentials is None:
        return Session(temporary=False, renewable=False, expires_at=None)
    # botocore tells the end of credentials only here.
    expires_at = getattr(credentials, "_expiry_time", None)
    # Those that end were given for a time; those without an end may still have a token.
    temporary = expires_at is not None or bool(credentials.get_frozen_credentials().token)
    return Session(temporary, temporary and not aws.fixed_credentials and expires_at is not None, expires_at)


def _identity(aws: Aws) -> Identity:
    found = aws.client("sts").get_caller_identity()
    return Identity(found["Account"], found["Arn"])


def _bootstrap(aws: Aws) -> int:
    try:
        with aws_errors(BOOTSTRAP):
            return int(aws.ssm().get_parameter(Name=BOOTSTRAP)["Parameter"]["Value"])
    except NotFoundError:
        return 0


def _instance_quotas(aws: Aws) -> dict[str, Quota]:
    return {
        quota.name.removesuffix(USE): quota
        for quota in _quotas(aws, "sagemaker")
        if quota.name.startswith("ml.") and quota.name.endswith(USE)
    }


def _build_quotas(aws: Aws) -> dict[str, Quota]:
    """By compute type; one is named "Concurrently running builds for Linux/Small environment"."""
    quotas = [quota for quota in _quotas(aws, "codebuild") if "concurrently" in quota.name.lower()]
    return {
        compute_type: quota
        for compute_type, words in COMPUTE.items()
        for quota in quotas
        if words in quota.name.lower()
    }


def _quotas(aws: Aws, service: str) -> list[Quota]:
    pages = aws.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode=service)
    return [
        Quota(item["QuotaName"], item["QuotaCode"], float(item["Value"]))
        for page in pages
        for item in page["Quotas"]
    ]


def _look_at_endpoint(sagemaker: Any, name: str) -> EndpointState | Unknown | None:
    return look("sagemaker:DescribeEndpoint and ListTags", lambda: _endpoint(sagemaker, name))


def _endpoint(sagemaker: Any, name: str) -> EndpointState | None:
    try:
        found = sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        if "could not find" in describe(error)[1].lower():
            return None
        raise
    tags = sagemaker.list_tags(ResourceArn=found["EndpointArn"], MaxResults=50)["Tags"]
    owner = next((tag["Value"] for tag in tags if tag["Key"] == OWNERSHIP_TAG), "")
    return EndpointState(found["EndpointStatus"], owner, fleet_of_endpoint(sagemaker, found))


def _stacks(aws: Aws, plan: EnvironmentPlan, templates: Mapping[str, Template]) -> dict[str, StackState]:
    cloudformation = aws.cloudformation()
    states = {}
    for name in plan.stacks:
        try:
            found = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        except ClientError as error:
            code, text, _ = describe(error)
            if code == "ValidationError" and "does not exist" in text:
                continue
            raise
        states[name] = StackState(
            id=found["StackId"],
            status=found["StackStatus"],
            protected=bool(found.get("EnableTerminationProtection")),
            new_fleet=_new_fleet(cloudformation, name, templates.get(name)),
        )
    return states


def _new_fleet(cloudformation: Any, name: str, wanted: Template | None) -> bool | None:
    """Whether a deployment changes what instances depend on; None if that cannot be seen."""
    if wanted is None:
        return None
    try:
        deployed = cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
    except ClientError:
        return None
    if isinstance(deployed, str):
        try:
            deployed = json.loads(deployed)
        except ValueError:
            return None
    return fleet_of(deployed) != fleet_of(wanted)


def _secret(aws: Aws, name: str) -> bool | Unknown:
    def exists() -> bool:
        try:
            aws.client("secretsmanager").describe_secret(SecretId=name)
        except ClientError as error:
            if describe(error)[0] == "ResourceNotFoundException":
                return False
            raise
        return True

    return look("secretsmanager:DescribeSecret", exists)
