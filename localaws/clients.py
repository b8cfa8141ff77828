"""boto3 clients that act in an account of this local AWS, with credentials from its STS."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config

from localaws.protocol import Scope

SERVICE_KEY = "localaws"
"""Access key of the local AWS itself: its services may assume every role, as AWS's do by the role's trust."""

_CONFIG = Config(
    connect_timeout=10,
    max_pool_connections=64,
    retries={"total_max_attempts": 1},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class Clients:
    """Clients by scope and service; each is made once. Safe for threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = boto3.Session(aws_access_key_id=SERVICE_KEY, aws_secret_access_key="local")  # noqa: S106
        self._lock = threading.Lock()
        self._clients: dict[tuple[Scope, str], Any] = {}
        self._credentials: dict[str, Mapping[str, str]] = {}

    def get(self, service: str, scope: Scope) -> Any:
        """Return the client of one service in one account and region."""
        with self._lock:
            key = (scope, service)
            if key not in self._clients:
                self._clients[key] = self._make(service, scope)
            return self._clients[key]

    def credentials(self, role_arn: str, session_name: str, region: str) -> Mapping[str, str]:
        """Assume a role; returns AccessKeyId, SecretAccessKey and SessionToken."""
        with self._lock:
            sts: Any = self._client("sts", region, {})
        found: Mapping[str, str] = sts.assume_role(RoleArn=role_arn, RoleSessionName=session_name)[
            "Credentials"
        ]
        return found

    def _make(self, service: str, scope: Scope) -> Any:
        if scope.account not in self._credentials:
            sts = self._client("sts", scope.region, {})
            role = f"arn:aws:iam::{scope.account}:role/aws-service-role/cloudformation.amazonaws.com/LocalAws"
            self._credentials[scope.account] = sts.assume_role(RoleArn=role, RoleSessionName="localaws")[
                "Credentials"
            ]
        return self._client(service, scope.region, self._credentials[scope.account])

    def _client(self, service: str, region: str, credentials: Mapping[str, str]) -> Any:
        keys = {
            "aws_access_key_id": credentials.get("AccessKeyId", SERVICE_KEY),
            "aws_secret_access_key": credentials.get("SecretAccessKey", "local"),
            "aws_session_token": credentials.get("SessionToken"),
        }
        make: Any = self._session.client
        return make(service, region_name=region, endpoint_url=self.url, config=_CONFIG, **keys)
