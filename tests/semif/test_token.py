"""`semif token` against the verification of the local AWS, which shares no code with it."""

from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from localaws.access.bearer_token import TokenError, read_token
from localaws.access.identities import Identity
from semif.bearer_token import Keys, bearer_token
from semif.cli import app

NOW = datetime(2026, 12, 1, 10, 30, tzinfo=UTC)
KEYS = Keys("ASIAEXAMPLE", "wJalr/secret+key", "Fwo//token+with==signs")
CALLER = Identity(
    account="111122223333",
    arn="arn:aws:sts::111122223333:assumed-role/caller/session",
    principal="arn:aws:iam::111122223333:role/caller",
    secret=KEYS.secret_key,
    session_token=KEYS.session_token,
)


def known(access_key: str) -> Identity:
    assert access_key == KEYS.access_key
    return CALLER


def test_a_token_names_its_signer_and_region() -> None:
    bearer = read_token(bearer_token(KEYS, "eu-central-1", NOW, 60), known, NOW)
    assert (bearer.identity, bearer.region) == (CALLER, "eu-central-1")


def test_a_token_ends_after_its_lifetime() -> None:
    token = bearer_token(KEYS, "us-east-1", NOW, 60)
    assert read_token(token, known, NOW + timedelta(seconds=60))
    with pytest.raises(TokenError, match="expired"):
        read_token(token, known, NOW + timedelta(seconds=61))
    with pytest.raises(TokenError, match="time to come"):
        read_token(token, known, NOW - timedelta(hours=1))


@pytest.mark.parametrize(
    "keys",
    [Keys(KEYS.access_key, "another", KEYS.session_token), Keys(KEYS.access_key, KEYS.secret_key, None)],
)
def test_a_token_by_other_credentials_is_refused(keys: Keys) -> None:
    with pytest.raises(TokenError):
        read_token(bearer_token(keys, "us-east-1", NOW, 60), known, NOW)


def test_the_command_prints_a_token_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", KEYS.session_token or "")
    result = CliRunner().invoke(app, ["token", "--region", "us-west-2", "--lifetime", "90"])
    assert result.exit_code == 0, result.output
    (token,) = result.output.splitlines()
    assert read_token(token, known, datetime.now(UTC)).region == "us-west-2"
    assert CliRunner().invoke(app, ["token", "--lifetime", "50000"]).exit_code == 2
