"""Who else may invoke: the setting, and the role and policy that come of it."""

import os
from typing import Any

import pytest

from stacks.callers_settings import CallersSettings, read_callers
from stacks.mapping_reader import MappingReader, SettingsError
from tests.stacks.template_reader import flat, of_type, the_only

ROLE = "arn:aws:iam::111122223333:role/team/app"


def read(value: object, region: str = "eu-central-1") -> CallersSettings | None:
    return read_callers(MappingReader({"callers": value}, "e"), region=region)


def template(
    callers: object,
    *,
    name: str = "semif-dev-standard",
    openai_path: bool = True,
    region: str = "eu-central-1",
) -> dict[str, Any]:
    import aws_cdk as cdk  # noqa: PLC0415 - after JSII_NODE is set

    from stacks.constructs.invoke_access import InvokeAccess  # noqa: PLC0415

    assert "JSII_NODE" in os.environ
    settings = read(callers, region)
    assert settings is not None
    app = cdk.App()
    stack = cdk.Stack(app, "s", env=cdk.Environment(region=region))
    InvokeAccess(
        stack,
        "Callers",
        name=name,
        endpoint_name="chat",
        region=region,
        callers=settings,
        openai_path=openai_path,
    )
    made: dict[str, Any] = app.synth().get_stack_by_name("s").template
    return made


def test_none_by_default() -> None:
    assert read(None) is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "principals"),
        ({"principals": []}, "principals"),
        ({"principals": ["team-a"]}, "principals[0]"),
        ({"principals": ["arn:aws:s3:::bucket"]}, "principals[0]"),
        ({"principals": ["*"]}, "principals[0]"),
        ({"principals": ["*"], "external_id": "abc"}, "principals[0]"),
        ({"principals": [ROLE, "*"], "organization_id": "o-abcdefghij"}, "principals[1]"),
        ({"principals": ["arn:aws-cn:iam::111122223333:root"]}, "principals[0]"),
        ({"principals": [ROLE], "external_id": "x y"}, "external_id"),
        ({"principals": [ROLE], "organization_id": "ou-abcd"}, "organization_id"),
        ({"principals": [ROLE], "vpc_endpoints": ["vpc-0a1b2c3d"]}, "vpc_endpoints[0]"),
        ({"principals": [ROLE], "services": ["x"]}, "services"),
    ],
)
def test_what_is_refused(value: object, path: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(value)
    assert refused.value.path == f"e.callers.{path}"


def test_a_role_may_invoke_this_endpoint_and_nothing_else() -> None:
    made = template({"principals": ["111122223333", ROLE], "external_id": "shared-words"})
    role = flat(the_only(made, "AWS::IAM::Role")["Properties"])
    policy = flat(the_only(made, "AWS::IAM::ManagedPolicy")["Properties"])
    assert role["RoleName"] == policy["ManagedPolicyName"] == "semif-dev-standard-invoke-eu-central-1"
    assert role["ManagedPolicyArns"] == [f"<{next(iter(of_type(made, 'AWS::IAM::ManagedPolicy')))}>"]
    assert "Policies" not in role
    invoke, bearer = policy["PolicyDocument"]["Statement"]
    assert invoke == {
        "Sid": "Invoke",
        "Effect": "Allow",
        "Action": ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"],
        "Resource": "arn:aws:sagemaker:eu-central-1:ACCOUNT:endpoint/chat",
    }
    assert (bearer["Action"], bearer["Resource"]) == ("sagemaker:CallWithBearerToken", "*")
    trust = role["AssumeRolePolicyDocument"]["Statement"]
    assert [statement["Principal"]["AWS"] for statement in trust] == [
        "arn:aws:iam::111122223333:root",
        ROLE,
    ]
    for statement in trust:
        assert statement["Action"] == "sts:AssumeRole"
        assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": "shared-words"}}


def test_anyone_of_an_organization_from_given_vpc_endpoints() -> None:
    made = template(
        {"principals": ["*"], "organization_id": "o-abcdefghij", "vpc_endpoints": ["vpce-0a1b2c3d"]},
        openai_path=False,
    )
    (trust,) = the_only(made, "AWS::IAM::Role")["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"AWS": "*"}
    assert trust["Condition"] == {"StringEquals": {"aws:PrincipalOrgID": "o-abcdefghij"}}
    (invoke,) = the_only(made, "AWS::IAM::ManagedPolicy")["Properties"]["PolicyDocument"]["Statement"]
    assert invoke["Condition"] == {"StringEquals": {"aws:SourceVpce": ["vpce-0a1b2c3d"]}}


def test_the_longest_names_fit_a_role() -> None:
    name = f"semif-{'e' * 16}-{'k' * 16}"
    made = template({"principals": ["111122223333"]}, name=name, region="cn-northwest-1")
    assert len(the_only(made, "AWS::IAM::Role")["Properties"]["RoleName"]) <= 64
