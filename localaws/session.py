"""A local AWS for the length of a `with` block: its process, its environment, and the CDK CLI against it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from localaws.access.source_vpce import SOURCE_VPCE_HEADER
from localaws.node import search_path

_ROOT = Path(__file__).parents[1]
_KEYS = {
    "AccessKeyId": "aws_access_key_id",
    "SecretAccessKey": "aws_secret_access_key",
    "SessionToken": "aws_session_token",
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}
"""boto3's names of what STS and the environment call credentials."""
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 40.0


def environment_of(url: str, region: str) -> dict[str, str]:
    """Return the variables that point the CDK CLI, the AWS CLI and the SDKs at a local AWS."""
    return {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }


@dataclass(frozen=True)
class CdkResult:
    """What one run of the CDK CLI came to; `output` is standard output and error together."""

    returncode: int
    output: str


class LocalAwsError(Exception):
    """The local AWS did not start, or refused a request of its administration."""


class LocalAws:
    """`with LocalAws() as aws:` starts `python -m localaws` on a free port and stops it at the end."""

    def __init__(
        self,
        *,
        region: str = "us-east-1",
        ready_s: float = 1.0,
        poll_s: float = 1.0,
        log: Path | None = None,
    ) -> None:
        self.region = region
        self._ready_s, self._poll_s, self._log = ready_s, poll_s, log
        self.port = 0
        self._clients: dict[tuple[str, str, str | None], Any] = {}
        self._making = threading.Lock()
        self._session: boto3.Session | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL of every service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return a whole environment for a subprocess: this process's, pointed at the local AWS."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("AWS_") and name not in {"PYTEST_CURRENT_TEST", "CDK_DEFAULT_ACCOUNT"}
        }
        return {**inherited, **environment_of(self.url, self.region), "PATH": search_path()}

    def __enter__(self) -> LocalAws:
        self.port = _free_port()
        self._clients.clear()
        command = [sys.executable, "-m", "localaws", "--port", str(self.port), "--region", self.region]
        command += ["--ready-s", str(self._ready_s), "--poll-s", str(self._poll_s)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        with (self._log or Path(os.devnull)).open("ab") as log:
            # A group of its own: Ctrl-C is for the program that uses it, which may need it once more.
            self._process = subprocess.Popen(
                command, cwd=_ROOT, env=inherited, stdout=subprocess.DEVNULL, stderr=log, process_group=0
            )
        try:
            self._wait_until_healthy(self._process)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the process; it stops every function and endpoint first."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def client(self, service: str, *, region: str | None = None, account: str | None = None) -> Any:
        """Return a boto3 client, in the default account (123456789012) or in another one.

        A client is made once: botocore takes long to load its models.
        """
        key = (service, region or self.region, account)
        if key not in self._clients:
            self._clients[key] = self._make_client(*key)
        return self._clients[key]

    def _make_client(self, service: str, region: str, account: str | None) -> Any:
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        if account is not None:
            keys = {name.lower(): value for name, value in self.credentials(account).items()}
        return self._new_client(service, region, keys)

    def _new_client(self, service: str, region: str, keys: Mapping[str, str]) -> Any:
        config = Config(connect_timeout=5, retries={"total_max_attempts": 1})
        with self._making:
            if self._session is None:
                self._session = boto3.Session(botocore_session=_session_without_user())
            make: Any = self._session.client
            return make(service, region_name=region, endpoint_url=self.url, config=config, **keys)

    def credentials(self, account: str) -> dict[str, str]:
        """Return the variables of credentials in an account; any 12 digits are an account here."""
        role = f"arn:aws:iam::{account}:role/administrator"
        found = self.client("sts").assume_role(RoleArn=role, RoleSessionName="local")["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["SessionToken"],
        }

    def client_as(
        self,
        credentials: Mapping[str, str],
        service: str,
        *,
        region: str | None = None,
        source_vpce: str | None = None,
    ) -> Any:
        """Return a new boto3 client with credentials as STS and `self.credentials` give them.

        With `source_vpce`, its requests are taken to come through this VPC endpoint.
        """
        keys = {_KEYS[name]: value for name, value in credentials.items() if name in _KEYS}
        client = self._new_client(service, region or self.region, keys)
        if source_vpce is not None:

            def come_through(request: Any, **_: Any) -> None:
                request.headers[SOURCE_VPCE_HEADER] = source_vpce

            client.meta.events.register("before-sign", come_through)
        return client

    def run_cdk(
        self,
        *arguments: str,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> CdkResult:
        """Run the CDK CLI of this project; `on_line` sees each line of its output as it comes."""
        command = [str(_ROOT / "node_modules" / ".bin" / "cdk"), *arguments]
        lines = []
        with subprocess.Popen(
            command,
            cwd=cwd or _ROOT,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            if process.stdout is not None:
                for line in process.stdout:
                    lines.append(line)
                    if on_line is not None:
                        on_line(line.rstrip("\n"))
        return CdkResult(process.returncode, "".join(lines))

    def put_faults(self, faults: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the faults, such as {"ml.g6e.xlarge": {"mode": "capacity", "seconds": 3}}.

        Those of builds: {"codebuild:PROJECT": {"mode": "fail", "phase": "PROVISIONING"}}; those of calls:
        {"api:DescribeEndpoint": {"mode": "throttle", "first": 3}}.
        """
        self._administer("PUT", "faults", faults)

    def put_builds(self, *, concurrent_builds: int = 2, minute_s: float = 60.0) -> None:
        """Set how many builds run at once, and how many seconds a minute of their time limits has."""
        self._administer("PUT", "builds", {"concurrent_builds": concurrent_builds, "minute_s": minute_s})

    def put_quotas(self, quotas: Mapping[str, int | None]) -> None:
        """Replace the quotas of instances for endpoint usage; None: the region does not offer the type."""
        self._administer("PUT", "quotas", quotas)

    def put_endpoint_times(self, **seconds: float) -> None:
        """Set `ready_s` (finding instances) or `longest_wait_s` (each wait of a DeploymentConfig)."""
        self._administer("PUT", "endpoints", seconds)

    def put_organizations(self, accounts: Mapping[str, Sequence[str]]) -> None:
        """Replace the organizations, such as {"o-a1b2c3d4e5": ["111122223333"]}, for aws:PrincipalOrgID."""
        self._administer("PUT", "organizations", {name: list(those) for name, those in accounts.items()})

    def push_llama_cpp_container(self, uri: str) -> str:
        """Push the stand-in for AWS's llama.cpp container; `uri` names the real one by its digest."""
        return self.push_image(
            uri,
            command=[sys.executable, "-m", "localaws.llama_cpp_container"],
            environment={"OMP_WAIT_POLICY": "passive"},
            bind={"port": "SM_LLAMA_CPP_PORT", "model_dir": "SM_LLAMA_CPP_MODEL_DIR"},
        )

    def push_image(
        self,
        uri: str,
        *,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        bind: Mapping[str, str] | None = None,
    ) -> str:
        """Push a container image: the command that stands for its entrypoint. Return its URI by digest."""
        document = {"uri": uri, "command": list(command), "environment": dict(environment or {})}
        answer = self._administer("PUT", "images", {**document, **({"bind": dict(bind)} if bind else {})})
        return str(answer["uri"])

    def _administer(self, method: str, path: str, document: object) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - our own URL
            f"{self.url}/_localaws/{path}", json.dumps(document).encode(), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answered:  # noqa: S310
                answer: dict[str, Any] = json.load(answered)
                return answer
        except urllib.error.HTTPError as error:
            raise LocalAwsError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def _wait_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise LocalAwsError(f"The local AWS ended with exit code {process.returncode} as it started")
            try:
                with urllib.request.urlopen(f"{self.url}/_localaws/health", timeout=5):  # noqa: S310
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise LocalAwsError(f"The local AWS did not answer within {_START_TIMEOUT_S:.0f} s")


def _session_without_user() -> botocore.session.Session:
    """A session that reads no profile and no file of the user's, which could lead elsewhere or not exist."""
    nothing = (None, None, None, None)
    no_file = (None, None, os.devnull, None)
    return botocore.session.Session(
        session_vars={"profile": nothing, "config_file": no_file, "credentials_file": no_file}
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
