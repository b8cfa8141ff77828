"""How long credentials live, as botocore reads them from a process's environment."""

from datetime import UTC, datetime, timedelta

import pytest

from semif.aws import aws_errors, open_aws
from semif.doctor_api import session_of
from semif.doctor_facts import Session
from semif.errors import CredentialsExpiredError


def in_hours(hours: int) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)


def test_keys_of_a_user_do_not_end() -> None:
    found = session_of(open_aws(region=None, profile=None))
    assert found == Session(temporary=False, renewable=False, expires_at=None)


def test_a_token_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    found = session_of(open_aws(region=None, profile=None))
    assert found == Session(temporary=True, renewable=False, expires_at=None)


@pytest.mark.parametrize("hours", [3, -3])
def test_a_token_with_an_end(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = in_hours(hours)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", ends.isoformat())
    found = session_of(open_aws(region=None, profile=None))
    assert found == Session(temporary=True, renewable=False, expires_at=ends)


def test_a_call_with_credentials_that_have_ended_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", in_hours(-3).isoformat())
    aws = open_aws(region=None, profile=None)
    with pytest.raises(CredentialsExpiredError), aws_errors("identity"):
        aws.client("sts").get_caller_identity()
