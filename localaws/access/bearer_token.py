"""SageMaker's bearer tokens: a presigned call of CallWithBearerToken, which names and proves its signer."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from localaws.access.identities import Identity

PREFIX = "sagemaker-api-key-"
LONGEST_S = 12 * 3600
_HOST = "sagemaker.amazonaws.com"
_CLOCK_SKEW = timedelta(minutes=5)
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class TokenError(Exception):
    """A token that is not taken. `status` is 401 for what is no token at all, else 403."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who signed a token, and for which region."""

    access_key: str
    identity: Identity
    region: str


def read_token(token: str, identify: Callable[[str], Identity], now: datetime) -> Bearer:
    """Verify a token.

    The signature is checked where the local AWS gave out the access key; of other keys it knows no secret.

    Raises:
        TokenError: no such token, expired, for another service, or not signed by the key's owner.
    """
    query = _query(token)
    fields = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True))
    try:
        access_key, date, region, service, kind = fields["X-Amz-Credential"].split("/")
        signed_at = datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        lifetime_s = int(fields["X-Amz-Expires"])
        signature = fields["X-Amz-Signature"]
    except (KeyError, ValueError) as error:
        raise TokenError("The bearer token is not a presigned request.", 401) from error
    if (fields.get("Action"), service, kind) != ("CallWithBearerToken", "sagemaker", "aws4_request"):
        raise TokenError("The bearer token was not made for Amazon SageMaker.")
    if not 0 < lifetime_s <= LONGEST_S:
        raise TokenError(f"The bearer token's lifetime must be from 1 to {LONGEST_S} seconds.")
    if signed_at - _CLOCK_SKEW > now:
        raise TokenError("The bearer token is signed for a time to come.")
    identity = identify(access_key)
    if now > signed_at + timedelta(seconds=lifetime_s) or identity.expired:
        raise TokenError("The bearer token has expired.")
    if identity.secret is not None:
        if identity.session_token != fields.get("X-Amz-Security-Token"):
            raise TokenError("The security token included in the bearer token is invalid.")
        scope = f"{date}/{region}/sagemaker/aws4_request"
        expected = _signature(query, fields["X-Amz-Date"], scope, identity.secret)
        if not hmac.compare_digest(expected, signature):
            raise TokenError("The bearer token's signature does not match its access key.")
    return Bearer(access_key, identity, region)


def _query(token: str) -> str:
    if not token.startswith(PREFIX):
        raise TokenError(f"The bearer token does not begin with {PREFIX}.", 401)
    try:
        text = base64.b64decode(token.removeprefix(PREFIX), validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise TokenError("The bearer token is not base64.", 401) from error
    host, _, query = text.partition("/?")
    if host != _HOST or not query:
        raise TokenError("The bearer token is not a presigned request.", 401)
    return query


def _signature(query: str, time: str, scope: str, secret: str) -> str:
    """Signature Version 4 of the presigned POST; what was appended after signing does not count."""
    signed = sorted(
        part for part in query.split("&") if not part.startswith(("X-Amz-Signature=", "Version="))
    )
    canonical = "\n".join(["POST", "/", "&".join(signed), f"host:{_HOST}", "", "host", _EMPTY_SHA256])
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}".encode(), "sha256").hex()
