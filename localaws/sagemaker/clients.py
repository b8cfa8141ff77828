"""boto3 clients of the local AWS for an account and region."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

from localaws.protocol import Scope

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_s3 import S3Client

_CONFIG = Config(
    connect_timeout=5,
    read_timeout=60,
    retries={"total_max_attempts": 3, "mode": "standard"},
    s3={"addressing_style": "path"},
    proxies={},
)
_ANY = "any"
"""The local STS takes any credentials."""
_HERMETIC = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
"""Session variables that keep the user's own profiles and configuration out."""


class AccountClients:
    """Clients that act in an account by assuming a role there, which the local STS always grants."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._session = botocore.session.Session(session_vars=_HERMETIC)
        self._granted: dict[str, Mapping[str, str]] = {}
        self._cache: dict[tuple[Scope, str], Any] = {}
        self._lock = threading.Lock()

    def s3(self, scope: Scope) -> S3Client:
        """Return an S3 client."""
        client: S3Client = self._client(scope, "s3")
        return client

    def logs(self, scope: Scope) -> CloudWatchLogsClient:
        """Return a CloudWatch Logs client."""
        client: CloudWatchLogsClient = self._client(scope, "logs")
        return client

    def _client(self, scope: Scope, service: str) -> Any:
        with self._lock:
            if (scope, service) not in self._cache:
                self._cache[scope, service] = self._make(scope.region, service, self._credentials(scope))
            return self._cache[scope, service]

    def _credentials(self, scope: Scope) -> Mapping[str, str]:
        if scope.account not in self._granted:
            sts = self._make(scope.region, "sts", {"AccessKeyId": _ANY, "SecretAccessKey": _ANY})
            role = f"arn:aws:iam::{scope.account}:role/sagemaker-hosting"
            granted = sts.assume_role(RoleArn=role, RoleSessionName="hosting")["Credentials"]
            self._granted[scope.account] = granted
        return self._granted[scope.account]

    def _make(self, region: str, service: str, credentials: Mapping[str, str]) -> Any:
        return self._session.create_client(
            service,
            region_name=region,
            endpoint_url=self._server_url,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials.get("SessionToken"),
            config=_CONFIG,
        )
