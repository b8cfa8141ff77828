"""SageMaker's bearer token, which the OpenAI path takes in place of a signature.

It is a presigned request for CallWithBearerToken, base64 encoded: made without a call, good as long as it
says and as the credentials are. Whoever has it has the caller's rights on the endpoint.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

HOST = "sagemaker.amazonaws.com"
"""The same for every region: the region is in the token."""
LONGEST_S = 12 * 3600
_NO_BODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Keys:
    """Credentials to sign with."""

    access_key: str
    secret_key: str
    session_token: str | None


def bearer_token(keys: Keys, region: str, now: datetime, lifetime_s: int) -> str:
    """Sign for `lifetime_s` from `now`, a time in UTC; by Signature Version 4 with the query string."""
    time = f"{now:%Y%m%dT%H%M%SZ}"
    scope = f"{now:%Y%m%d}/{region}/sagemaker/aws4_request"
    query = {
        "Action": "CallWithBearerToken",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": time,
        "X-Amz-Expires": str(lifetime_s),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session_token is not None:
        query["X-Amz-Security-Token"] = keys.session_token
    signed = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))
    canonical = f"POST\n/\n{signed}\nhost:{HOST}\n\nhost\n{_NO_BODY}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}".encode(), "sha256").hex()
    presigned = f"{HOST}/?{signed}&X-Amz-Signature={signature}&Version=1"
    return "sagemaker-api-key-" + base64.b64encode(presigned.encode()).decode()
