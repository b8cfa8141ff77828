"""Who may administer the local AWS, and whose configuration it reads: nobody's but its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from localaws.__main__ import forget_users_aws
from localaws.session import LocalAws


def put_image(aws: LocalAws, **headers: str) -> int:
    image = {
        "uri": f"123456789012.dkr.ecr.{aws.region}.amazonaws.com/page:1",
        "command": ["true"],
        "bind": {"port": "PORT"},
    }
    return httpx.put(f"{aws.url}/_localaws/images", json=image, headers=headers, timeout=10).status_code


def test_a_program_on_this_machine_may_push_an_image(aws: LocalAws) -> None:
    assert put_image(aws) == 200
    assert put_image(aws, Host=f"localhost:{aws.port}") == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://example.com"}, {"Origin": "null"}, {"Host": "rebound.example.com"}],
    ids=["page", "sandboxed page", "rebound name"],
)
def test_a_web_page_may_not(aws: LocalAws, headers: dict[str, str]) -> None:
    assert put_image(aws, **headers) == 403


def test_every_aws_variable_is_forgotten() -> None:
    environment = {"AWS_PROFILE": "x", "AWS_ENDPOINT_URL_STS": "http://other", "PATH": "/bin"}

    forget_users_aws(environment)

    assert environment == {
        "PATH": "/bin",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def test_it_starts_beside_a_broken_aws_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nregion = nowhere-1\nca_bundle = /no/such/file\n")
    program = (
        "from localaws.session import LocalAws\n"
        "with LocalAws() as aws:\n"
        "    print(aws.client('sts').get_caller_identity()['Account'])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HOME": str(tmp_path), "AWS_PROFILE": "absent", "AWS_CONFIG_FILE": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "123456789012"
