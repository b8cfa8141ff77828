"""boto3 clients of the local AWS for an account and region."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import boto3
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
                self._cache[scope, service] = self._session(scope).client(
                    service,  # type: ignore[call-overload]
                    endpoint_url=self._server_url,
                    config=_CONFIG,
                )
            return self._cache[scope, service]

    def _session(self, scope: Scope) -> boto3.Session:
        first = boto3.Session(
            aws_access_key_id=_ANY,
            aws_secret_access_key=_ANY,
            region_name=scope.region,
            botocore_session=botocore.session.Session(session_vars=_HERMETIC),
        )
        sts = first.client("sts", endpoint_url=self._server_url, config=_CONFIG)
        role = f"arn:aws:iam::{scope.account}:role/sagemaker-hosting"
        granted = sts.assume_role(RoleArn=role, RoleSessionName="hosting")["Credentials"]
        return boto3.Session(
            aws_access_key_id=granted["AccessKeyId"],
            aws_secret_access_key=granted["SecretAccessKey"],
            aws_session_token=granted["SessionToken"],
            region_name=scope.region,
            botocore_session=botocore.session.Session(session_vars=_HERMETIC),
        )
