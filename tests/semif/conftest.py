"""A real HTTP server that keeps the decision contract, and AWS settings that reach nobody."""

import threading
from collections.abc import Iterator

import pytest

from tests.semif.contract_server import ContractServer, http_server


@pytest.fixture
def server() -> Iterator[ContractServer]:
    contract = ContractServer()

    with http_server(contract, "127.0.0.1", 0) as http:
        contract.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield contract
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def aws_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a region of nobody's; no metadata service, no profile of the machine's user."""
    for name in (
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_SESSION_TOKEN",
        "AWS_CA_BUNDLE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
