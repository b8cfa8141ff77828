"""Decisions of policies, as IAM's documentation words them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localaws.access.conditions import UnsupportedPolicyError, matches
from localaws.access.policy import Decision, Request, decide

ARN = "arn:aws:sagemaker:us-east-1:111122223333:endpoint/semif-dev-decisions"
INVOKE = "sagemaker:InvokeEndpoint"


def allow(**changed: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": INVOKE, "Resource": ARN, **changed}


def said(*statements: dict[str, Any], action: str = INVOKE, resource: str = ARN, **context: str) -> Decision:
    spelled = {key.replace("__", ":"): value for key, value in context.items()}
    return decide([{"Statement": list(statements)}], Request(action, resource, spelled))


@pytest.mark.parametrize(
    ("statement", "decision"),
    [
        (allow(), Decision.ALLOWED),
        (allow(Action=["s3:GetObject", "SageMaker:invoke*"]), Decision.ALLOWED),
        (allow(Action="*", Resource="*"), Decision.ALLOWED),
        (allow(Resource="arn:aws:sagemaker:*:*:endpoint/semif-???-*"), Decision.ALLOWED),
        (allow(Resource=ARN + "-other"), Decision.UNSAID),
        (allow(Resource=ARN.upper()), Decision.UNSAID),
        (allow(Action="sagemaker:InvokeEndpointWithResponseStream"), Decision.UNSAID),
        ({"Effect": "Allow", "NotAction": "sagemaker:Invoke*", "Resource": "*"}, Decision.UNSAID),
        ({"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}, Decision.ALLOWED),
        ({"Effect": "Allow", "Action": INVOKE, "NotResource": "*decisions"}, Decision.UNSAID),
        ({"Effect": "Deny", "Action": INVOKE, "NotResource": "*decisions"}, Decision.UNSAID),
        (allow(Effect="Deny"), Decision.DENIED),
    ],
)
def test_action_and_resource(statement: dict[str, Any], decision: Decision) -> None:
    assert said(statement) is decision


def test_an_explicit_deny_wins_wherever_it_stands() -> None:
    deny = allow(Effect="Deny")
    assert said(deny, allow()) is said(allow(), deny) is Decision.DENIED
    documents = [{"Statement": allow()}, {"Statement": deny}]
    assert decide(documents, Request(INVOKE, ARN)) is Decision.DENIED


@pytest.mark.parametrize(
    ("condition", "vpce", "allowed"),
    [
        ({"StringEquals": {"aws:SourceVpce": ["vpce-1", "vpce-2"]}}, "vpce-2", True),
        ({"StringEquals": {"AWS:sourcevpce": "vpce-1"}}, "vpce-1", True),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, "vpce-10", False),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, None, False),
        ({"StringLike": {"aws:SourceVpce": "vpce-*"}}, "vpce-9", True),
        ({"StringNotEquals": {"aws:SourceVpce": ["vpce-1", "vpce-2"]}}, "vpce-2", False),
        ({"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}, None, True),
        ({"StringEqualsIfExists": {"aws:SourceVpce": "vpce-1"}}, None, True),
        ({"ForAnyValue:StringEquals": {"aws:SourceVpce": "vpce-1"}}, "vpce-1", True),
        ({"ForAnyValue:StringNotEquals": {"aws:SourceVpce": "vpce-1"}}, None, False),
        ({"ForAllValues:StringEquals": {"aws:SourceVpce": "vpce-1"}}, None, True),
        ({"Null": {"aws:SourceVpce": "true"}}, None, True),
        ({"Null": {"aws:SourceVpce": False}}, None, False),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1", "aws:Other": "x"}}, "vpce-1", False),
    ],
)
def test_conditions(condition: dict[str, Any], vpce: str | None, allowed: bool) -> None:
    context = {"aws__SourceVpce": vpce} if vpce else {}
    expected = Decision.ALLOWED if allowed else Decision.UNSAID
    assert said(allow(Condition=condition), **context) is expected


def test_variables_are_filled_and_one_without_a_value_matches_nothing() -> None:
    statement = allow(Resource="arn:aws:sagemaker:*:${aws:PrincipalAccount}:endpoint/*")
    assert said(statement, aws__PrincipalAccount="111122223333") is Decision.ALLOWED
    assert said(statement, aws__PrincipalAccount="999999999999") is Decision.UNSAID
    assert said(statement) is Decision.UNSAID


def test_an_operator_that_is_not_evaluated_is_named_only_where_it_matters() -> None:
    unknown = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    assert said(allow(Action="s3:GetObject", Condition=unknown), allow()) is Decision.ALLOWED
    with pytest.raises(UnsupportedPolicyError, match="IpAddress"):
        said(allow(Condition=unknown))


@given(text=st.text(max_size=20), middle=st.text(max_size=5))
def test_a_pattern_matches_as_text_where_it_has_no_wildcard(text: str, middle: str) -> None:
    plain = text.replace("*", "").replace("?", "")
    assert matches(plain, plain)
    assert matches(plain + "*", plain + middle)
    assert matches(plain, plain + middle) is (middle == "")
