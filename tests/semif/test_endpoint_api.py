"""The transport to an endpoint; botocore's own model checks what is sent and answered."""

import io
from collections.abc import Iterator

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber
from moto import mock_aws
from mypy_boto3_sagemaker_runtime import SageMakerRuntimeClient

from semif.aws import open_aws
from semif.endpoint_api import Endpoint, endpoint_name
from semif.errors import CredentialsExpiredError, ExitCode, NotFoundError, SemifError
from tests.semif.contract_server import error_body

BODY = b'{"decision": {}}'


@pytest.fixture(scope="module")
def runtime() -> SageMakerRuntimeClient:
    """One client for all: botocore takes long to make one."""
    return boto3.client(
        "sagemaker-runtime",
        region_name="eu-central-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def stub(runtime: SageMakerRuntimeClient) -> Iterator[Stubber]:
    with Stubber(runtime) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def refused(runtime: SageMakerRuntimeClient) -> SemifError:
    with pytest.raises(SemifError) as raised:
        Endpoint(runtime, "e").invoke(BODY)
    return raised.value


def test_bytes_go_in_and_come_out(runtime: SageMakerRuntimeClient, stub: Stubber) -> None:
    answer = b'{"result": {}}'
    stub.add_response(
        "invoke_endpoint",
        {"Body": StreamingBody(io.BytesIO(answer), len(answer)), "ContentType": "application/json"},
        {"EndpointName": "e", "Body": BODY, "ContentType": "application/json", "Accept": "application/json"},
    )
    assert Endpoint(runtime, "e").invoke(BODY) == answer


@pytest.mark.parametrize(
    ("status", "retryable", "exit_code"),
    [(422, False, ExitCode.REFUSED), (503, True, ExitCode.RETRYABLE), (500, False, ExitCode.SERVICE)],
)
def test_model_error_is_unwrapped(
    runtime: SageMakerRuntimeClient, stub: Stubber, status: int, retryable: bool, exit_code: ExitCode
) -> None:
    original = error_body("prompt_too_long", "4200 tokens, 4096 allowed", "decision", retryable=retryable)
    stub.add_client_error(
        "invoke_endpoint",
        service_error_code="ModelError",
        service_message="Received client error",
        http_status_code=424,
        modeled_fields={"OriginalStatusCode": status, "OriginalMessage": original.decode()},
    )
    error = refused(runtime)
    assert (error.code, error.field, error.exit_code) == ("prompt_too_long", "decision", exit_code)


def test_model_error_without_our_shape_shows_the_text(runtime: SageMakerRuntimeClient, stub: Stubber) -> None:
    stub.add_client_error(
        "invoke_endpoint",
        service_error_code="ModelError",
        http_status_code=424,
        modeled_fields={"OriginalStatusCode": 502, "OriginalMessage": "upstream died"},
    )
    error = refused(runtime)
    assert "upstream died" in error.message
    assert error.exit_code == ExitCode.SERVICE


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("ThrottlingException", 400, ExitCode.RETRYABLE),
        ("ServiceUnavailable", 503, ExitCode.RETRYABLE),
        ("ModelNotReadyException", 429, ExitCode.RETRYABLE),
        ("InternalFailure", 500, ExitCode.RETRYABLE),
        ("ValidationError", 400, ExitCode.SERVICE),
        ("AccessDeniedException", 403, ExitCode.SERVICE),
        ("ExpiredTokenException", 403, ExitCode.SERVICE),
        ("UnrecognizedClientException", 403, ExitCode.SERVICE),
    ],
)
def test_errors_of_aws(
    runtime: SageMakerRuntimeClient, stub: Stubber, code: str, status: int, exit_code: ExitCode
) -> None:
    stub.add_client_error("invoke_endpoint", code, "Endpoint e of account 1 not found.", status)
    error = refused(runtime)
    assert error.exit_code == exit_code
    assert "Endpoint e of account 1 not found." in error.message
    assert error.next_step


def test_expired_credentials_say_so(runtime: SageMakerRuntimeClient, stub: Stubber) -> None:
    stub.add_client_error("invoke_endpoint", "ExpiredTokenException", "expired", 403)
    error = refused(runtime)
    assert isinstance(error, CredentialsExpiredError)
    assert "aws sso login" in error.next_step


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused(open_aws(region="eu-central-1", profile=None).runtime())
    assert (error.code, error.exit_code) == ("no_credentials", ExitCode.SERVICE)


def test_endpoint_name_of_an_environment() -> None:
    with mock_aws():
        boto3.client("ssm", region_name="eu-central-1").put_parameter(
            Name="/semif/dev/decisions/endpoint-name", Value="mine", Type="String"
        )
        ssm = open_aws(region=None, profile=None).ssm()
        assert endpoint_name(ssm, "dev", "eu-central-1") == "mine"
        with pytest.raises(NotFoundError, match="environment prod has no decision endpoint") as raised:
            endpoint_name(ssm, "prod", "eu-central-1")
    assert "cdk deploy 'prod/*'" in raised.value.next_step
