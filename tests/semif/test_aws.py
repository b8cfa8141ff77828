"""Sessions: which region and whose keys."""

import pytest

from semif.aws import open_aws
from semif.errors import UsageError


def test_region_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert open_aws(region="eu-west-1", profile=None).region == "eu-west-1"
    assert open_aws(region=None, profile=None).region == "eu-central-1"
    monkeypatch.delenv("AWS_REGION")
    assert open_aws(region=None, profile=None).region == "us-west-2"


def test_no_region_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(UsageError) as raised:
        open_aws(region=None, profile=None)
    assert "AWS_REGION" in raised.value.next_step


def test_unknown_profile() -> None:
    with pytest.raises(UsageError, match="nobody"):
        open_aws(region=None, profile="nobody")


def test_keys_of_the_environment_cannot_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_aws(region=None, profile=None).fixed_credentials
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert not open_aws(region=None, profile=None).fixed_credentials
