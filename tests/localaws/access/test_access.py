"""Roles and policies on a running local AWS, through boto3's STS, IAM and SageMaker runtime."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from localaws.session import LocalAws, LocalAwsError
from tests.localaws.hosted_llama import bearer_token

OWNER, CALLER = "111122223333", "444455556666"
ORGANIZATION = "o-a1b2c3d4e5"
ENDPOINT = f"arn:aws:sagemaker:us-east-1:{OWNER}:endpoint/decisions"
NOT_FOUND = f"Endpoint decisions of account {OWNER} not found"
"""What an endpoint that does not exist answers whoever may ask."""


def invoke_policy(**changed: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "sagemaker:InvokeEndpoint", "Resource": ENDPOINT, **changed}


def document(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


class Accounts:
    """IAM of accounts on a local AWS."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws

    def role(
        self, trust: dict[str, Any] | str, *statements: Any, account: str = OWNER, path: str = "/"
    ) -> str:
        """Make a role; `trust` is a principal or a whole statement. Returns its ARN."""
        iam, name = self.aws.client("iam", account=account), f"caller-{uuid.uuid4().hex[:8]}"
        statement = trust if isinstance(trust, dict) else {"Principal": {"AWS": trust}}
        trusted = document({"Effect": "Allow", "Action": "sts:AssumeRole", **statement})
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusted, Path=path)["Role"]
        if statements:
            policy = document(*statements)
            iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=policy)
        return str(role["Arn"])

    def user(self, *statements: Any, account: str = CALLER) -> dict[str, str]:
        """Make a user with an attached policy. Returns its credentials and its ARN."""
        iam, name = self.aws.client("iam", account=account), f"user-{uuid.uuid4().hex[:8]}"
        made = iam.create_user(UserName=name)["User"]
        if statements:
            policy = iam.create_policy(PolicyName=name, PolicyDocument=document(*statements))["Policy"]["Arn"]
            iam.attach_user_policy(UserName=name, PolicyArn=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        keys = {"AccessKeyId": key["AccessKeyId"], "SecretAccessKey": key["SecretAccessKey"]}
        return {**keys, "Arn": made["Arn"]}

    def assume(self, role: str, credentials: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
        """Assume a role as somebody, the administrator of the caller's account by default."""
        keys = credentials or self.aws.credentials(CALLER)
        sts = self.aws.client_as(keys, "sts", source_vpce=more.pop("source_vpce", None))
        granted: dict[str, str] = sts.assume_role(RoleArn=role, RoleSessionName="session", **more)[
            "Credentials"
        ]
        return granted

    def invoke(
        self, credentials: dict[str, str], *, stream: bool = False, source_vpce: str | None = None
    ) -> str:
        """Invoke the endpoint that does not exist; returns the error's code and message."""
        runtime = self.aws.client_as(credentials, "sagemaker-runtime", source_vpce=source_vpce)
        call = runtime.invoke_endpoint_with_response_stream if stream else runtime.invoke_endpoint
        with pytest.raises(ClientError) as caught:
            call(EndpointName="decisions", Body=b"{}")
        error = caught.value.response["Error"]
        return f"{error['Code']}: {error['Message']}"


@pytest.fixture
def accounts(aws: LocalAws) -> Iterator[Accounts]:
    yield Accounts(aws)
    aws.put_organizations({})


def refused(call: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return str(caught.value.response["Error"]["Message"])


def test_another_account_assumes_the_role_that_trusts_it_and_invokes_that_endpoint_alone(
    accounts: Accounts,
) -> None:
    role = accounts.role(f"arn:aws:iam::{CALLER}:root", invoke_policy())
    granted = accounts.assume(role)
    assert NOT_FOUND in accounts.invoke(granted)
    name = role.rsplit("/", 1)[-1]
    assert accounts.invoke(granted, stream=True) == (
        f"AccessDeniedException: User: arn:aws:sts::{OWNER}:assumed-role/{name}/session is not authorized to"
        f" perform: sagemaker:InvokeEndpointWithResponseStream on resource: {ENDPOINT} because no"
        " identity-based policy allows the sagemaker:InvokeEndpointWithResponseStream action"
    )


def test_an_account_that_the_role_does_not_trust(accounts: Accounts) -> None:
    role = accounts.role("arn:aws:iam::999988887777:root", invoke_policy())
    said = refused(lambda: accounts.assume(role))
    assert said.endswith(f"is not authorized to perform: sts:AssumeRole on resource: {role}")
    service = accounts.role({"Principal": {"Service": "sagemaker.amazonaws.com"}})
    refused(lambda: accounts.assume(service))


def test_the_external_id_must_be_the_one_that_the_trust_asks_for(accounts: Accounts) -> None:
    condition = {"StringEquals": {"sts:ExternalId": "correct-horse"}}
    role = accounts.role({"Principal": {"AWS": CALLER}, "Condition": condition})
    refused(lambda: accounts.assume(role))
    refused(lambda: accounts.assume(role, ExternalId="wrong"))
    assert accounts.assume(role, ExternalId="correct-horse")


def test_anybody_of_an_organization(accounts: Accounts) -> None:
    condition = {"StringEquals": {"aws:PrincipalOrgID": ORGANIZATION}}
    role = accounts.role({"Principal": "*", "Condition": condition})
    refused(lambda: accounts.assume(role))
    accounts.aws.put_organizations({ORGANIZATION: [CALLER, OWNER]})
    assert accounts.assume(role)
    with pytest.raises(LocalAwsError, match="is in o-"):
        accounts.aws.put_organizations({ORGANIZATION: [CALLER], "o-f6g7h8i9j0": [CALLER]})


def test_a_user_of_another_account_needs_its_own_policy_too(accounts: Accounts) -> None:
    role = accounts.role(f"arn:aws:iam::{CALLER}:root")
    nobody = accounts.user()
    refused(lambda: accounts.assume(role, nobody))
    somebody = accounts.user({"Effect": "Allow", "Action": "sts:*", "Resource": role})
    assert accounts.assume(role, somebody)


def test_in_one_account_a_trust_that_names_the_user_is_enough(accounts: Accounts) -> None:
    named, other = accounts.user(account=OWNER), accounts.user(account=OWNER)
    role = accounts.role(named["Arn"])
    assert accounts.assume(role, named)
    refused(lambda: accounts.assume(role, other))
    refused(lambda: accounts.assume(f"arn:aws:iam::{OWNER}:role/not-there", other))


def test_a_deny_in_the_trust_or_in_the_callers_policy_wins(accounts: Accounts) -> None:
    user = accounts.user({"Effect": "Allow", "Action": "*", "Resource": "*"})
    iam = accounts.aws.client("iam", account=OWNER)
    role = accounts.role(CALLER)
    deny = {"Effect": "Deny", "Action": "sts:AssumeRole", "Principal": {"AWS": user["Arn"]}}
    allow = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": CALLER}}
    trust = document(allow, deny)
    iam.update_assume_role_policy(RoleName=role.rsplit("/", 1)[-1], PolicyDocument=trust)
    assert "explicit deny in the role trust policy" in refused(lambda: accounts.assume(role, user))
    banned = accounts.user(
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": "*"},
    )
    other = accounts.role(CALLER)
    assert "explicit deny in an identity-based policy" in refused(lambda: accounts.assume(other, banned))


def test_the_invocation_must_come_through_the_vpc_endpoint(accounts: Accounts) -> None:
    condition = {"StringEquals": {"aws:SourceVpce": ["vpce-0a1b2c3d", "vpce-9"]}}
    granted = accounts.assume(accounts.role(CALLER, invoke_policy(Condition=condition)))
    assert NOT_FOUND in accounts.invoke(granted, source_vpce="vpce-0a1b2c3d")
    assert "AccessDeniedException" in accounts.invoke(granted, source_vpce="vpce-other")
    assert "AccessDeniedException" in accounts.invoke(granted)


def test_an_explicit_deny_of_the_invocation_has_its_own_text(accounts: Accounts) -> None:
    deny = invoke_policy(Effect="Deny", Resource="*")
    granted = accounts.assume(accounts.role(CALLER, invoke_policy(Action="*", Resource="*"), deny))
    assert accounts.invoke(granted).endswith("with an explicit deny in an identity-based policy")


def test_the_session_of_a_role_that_was_deleted_may_do_nothing_more(accounts: Accounts) -> None:
    role = accounts.role(CALLER, invoke_policy())
    granted = accounts.assume(role)
    iam, name = accounts.aws.client("iam", account=OWNER), role.rsplit("/", 1)[-1]
    iam.delete_role_policy(RoleName=name, PolicyName="inline")
    iam.delete_role(RoleName=name)
    assert "AccessDeniedException" in accounts.invoke(granted)


def test_a_session_policy_limits_what_the_role_may(accounts: Accounts) -> None:
    role = accounts.role(CALLER, invoke_policy(Action="sagemaker:*"))
    limit = document(invoke_policy())
    granted = accounts.assume(role, Policy=limit)
    assert NOT_FOUND in accounts.invoke(granted)
    assert "session policy" in accounts.invoke(granted, stream=True)


def test_the_policies_of_a_users_group_count(accounts: Accounts) -> None:
    user = accounts.user(account=OWNER)
    assert "AccessDeniedException" in accounts.invoke(user)
    iam, group = accounts.aws.client("iam", account=OWNER), f"group-{uuid.uuid4().hex[:8]}"
    iam.create_group(GroupName=group)
    policy = document(invoke_policy())
    iam.put_group_policy(GroupName=group, PolicyName="invoke", PolicyDocument=policy)
    iam.add_user_to_group(GroupName=group, UserName=user["Arn"].rsplit("/", 1)[-1])
    assert NOT_FOUND in accounts.invoke(user)


def test_the_openai_path_needs_the_right_to_call_with_a_bearer_token(accounts: Accounts) -> None:
    url = f"{accounts.aws.url}/endpoints/decisions/openai/v1/chat/completions"

    def ask(*statements: Any) -> httpx.Response:
        granted = accounts.assume(accounts.role(CALLER, *statements))
        return httpx.post(url, json={}, headers={"Authorization": f"Bearer {bearer_token(granted)}"})

    denied = ask(invoke_policy())
    assert denied.status_code == 403
    assert "sagemaker:CallWithBearerToken on resource: *" in denied.json()["error"]["message"]
    bearer = {"Effect": "Allow", "Action": "sagemaker:CallWithBearerToken", "Resource": "*"}
    assert "sagemaker:InvokeEndpoint on resource" in ask(bearer).json()["error"]["message"]
    assert NOT_FOUND in ask(bearer, invoke_policy()).json()["error"]["message"]


def test_administrators_and_their_own_roles_stay_all_powerful(accounts: Accounts) -> None:
    administrator = accounts.aws.credentials(OWNER)
    assert NOT_FOUND in accounts.invoke(administrator)
    role = accounts.role({"Principal": {"Service": "sagemaker.amazonaws.com"}}, path="/deep/er/")
    assert accounts.assume(role, administrator)
    default = accounts.aws.client("sts")
    mine = accounts.role({"Principal": {"Service": "lambda.amazonaws.com"}}, account="123456789012")
    assert default.assume_role(RoleArn=mine, RoleSessionName="session")["Credentials"]


def test_a_policy_that_cannot_be_evaluated_says_so(accounts: Accounts) -> None:
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    role = accounts.role({"Principal": {"AWS": CALLER}, "Condition": condition})
    with pytest.raises(ClientError, match="does not evaluate the condition operator IpAddress"):
        accounts.assume(role)
