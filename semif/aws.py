"""AWS sessions, and AWS's errors in this command's words. boto3 and botocore are imported here only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore import exceptions as boto
from botocore.config import Config
from botocore.exceptions import ClientError

from semif.errors import (
    CredentialsExpiredError,
    NotFoundError,
    RetryableError,
    SemifError,
    ServiceError,
    ThrottledError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sagemaker import SageMakerClient
    from mypy_boto3_sagemaker_runtime import SageMakerRuntimeClient
    from mypy_boto3_ssm import SSMClient

__all__ = [
    "Aws", "ClientError", "aws_errors", "describe", "is_connection_error", "open_aws", "response_text",
    "translate",
]  # fmt: skip

THROTTLES = frozenset({
    "RequestLimitExceeded", "RequestThrottled", "SlowDown", "Throttling", "ThrottledException",
    "ThrottlingException", "TooManyRequestsException",
})  # fmt: skip
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
UNKNOWN_KEYS = frozenset({
    "AuthFailure", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException",
    "SignatureDoesNotMatch", "UnrecognizedClientException",
})  # fmt: skip
EXPIRED_LOGINS = (
    boto.LoginRefreshRequired,
    boto.SSOTokenLoadError,
    boto.TokenRetrievalError,
    boto.UnauthorizedSSOTokenError,
)
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
ABSENT = frozenset({"404", "NoSuchBucket", "NoSuchKey", "ParameterNotFound", "ResourceNotFound"})

# botocore has no class for it: credentials of the environment past AWS_CREDENTIAL_EXPIRATION.
STILL_EXPIRED = "refreshed credentials are still expired"
RENEW = "renew the credentials (for example `aws sso login`) and run the command again"
INVOKE_TIMEOUT_S = 60  # SageMaker's own limit for one InvokeEndpoint


@dataclass(frozen=True)
class Aws:
    """One session in one region."""

    session: boto3.Session
    region: str

    @property
    def fixed_credentials(self) -> bool:
        """True if the credentials come from this process's environment, where nothing can renew them."""
        credentials = self.session.get_credentials()
        return credentials is not None and credentials.method == "env"

    def client(self, service: str) -> Any:
        """Any other service, by botocore's name of it."""
        make: Any = self.session.client
        return make(service, config=_config())

    def cloudformation(self) -> "CloudFormationClient":
        """Stacks and their events."""
        return self.session.client("cloudformation", config=_config())

    def sagemaker(self) -> "SageMakerClient":
        """Endpoints, configurations and tags."""
        return self.session.client("sagemaker", config=_config())

    def codebuild(self) -> Any:
        """Builds of the archive and of the images."""
        return self.session.client("codebuild", config=_config())

    def logs(self) -> Any:
        """What the builds print."""
        return self.session.client("logs", config=_config())

    def s3(self) -> "S3Client":
        """Model archives. S3 may take minutes to join the parts of a large object."""
        return self.session.client("s3", config=_config(read_timeout_s=300))

    def ssm(self) -> "SSMClient":
        """The parameters that a deployment leaves under /semif/ENV/."""
        return self.session.client("ssm", config=_config())

    def functions(self) -> Any:
        """Lambda functions; one call may take their whole time, and a lost one is the caller's to repeat."""
        config = _config(read_timeout_s=310).merge(Config(retries={"total_max_attempts": 1}))
        return self.session.client("lambda", config=config)

    def runtime(self, *, timeout_s: float = INVOKE_TIMEOUT_S) -> "SageMakerRuntimeClient":
        """Requests to an endpoint; waits a little longer than SageMaker does, so its error is seen."""
        return self.session.client("sagemaker-runtime", config=_config(read_timeout_s=timeout_s + 5))


def open_aws(*, region: str | None, profile: str | None) -> Aws:
    """Open a session. The region is the argument, else AWS_REGION, else what boto3 finds."""
    try:
        # boto3 itself reads AWS_DEFAULT_REGION and the profile, but not AWS_REGION.
        session = boto3.Session(profile_name=profile, region_name=region or os.environ.get("AWS_REGION"))
    except boto.ProfileNotFound as error:
        raise UsageError(
            "unknown_profile", str(error), next_step="name a profile of `aws configure list-profiles`"
        ) from error
    if not session.region_name:
        raise UsageError(
            "no_region", "no AWS region is known", next_step="give --region, or set AWS_REGION"
        ) from None
    return Aws(session, session.region_name)


@contextmanager
def aws_errors(doing: str) -> Iterator[None]:
    """Turn whatever boto3 raises inside into a `SemifError`; `doing` opens the message."""
    try:
        yield
    except ClientError as error:
        raise translate(error, doing) from error
    except EXPIRED_LOGINS as error:
        raise CredentialsExpiredError("credentials_expired", f"{doing}: {error}", next_step=RENEW) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError) as error:
        raise ServiceError(
            "no_credentials",
            f"{doing}: {error}",
            next_step="give --profile, or set up credentials for the AWS CLI",
        ) from error
    except (boto.HTTPClientError, boto.ConnectionError) as error:
        raise UnreachableError(
            "aws_unreachable", f"{doing}: {error}", next_step="check the network and the region's name"
        ) from error
    except boto.ParamValidationError as error:
        raise UsageError("bad_argument", f"{doing}: {error}", next_step="correct the named value") from error
    except boto.BotoCoreError as error:
        raise ServiceError("aws_error", f"{doing}: {error}", next_step="see the message of AWS") from error
    except RuntimeError as error:
        if STILL_EXPIRED not in str(error):
            raise
        raise CredentialsExpiredError("credentials_expired", f"{doing}: {error}", next_step=RENEW) from error


def translate(error: ClientError, doing: str) -> SemifError:
    """The error of this command that stands for one answer of AWS."""
    code, text, status = describe(error)
    message = f"{doing}: {text or code}"
    if code in EXPIRED:
        return CredentialsExpiredError("credentials_expired", message, next_step=RENEW)
    kinds: tuple[tuple[bool, type[SemifError], str], ...] = (
        (code in THROTTLES, ThrottledError, "wait a little and run the command again"),
        (code in UNKNOWN_KEYS, ServiceError, "check the profile and its keys"),
        (code in DENIED, ServiceError, "ask for the permission that the message names"),
        (code in ABSENT, NotFoundError, "check the name and the region"),
        (status >= 500, RetryableError, "AWS failed; run the command again"),
        (True, ServiceError, "see the message of AWS"),
    )
    return next(kind(code, message, next_step=step) for applies, kind, step in kinds if applies)


def is_connection_error(error: Exception) -> bool:
    """Whether a body that was being read broke off."""
    return isinstance(error, (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError))


def describe(error: ClientError) -> tuple[str, str, int]:
    """Code, message and HTTP status of an answer of AWS."""
    details = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return details.get("Code", "Unknown"), details.get("Message", ""), int(status)


def response_text(error: ClientError, name: str) -> str:
    """A member beside `Error` in an answer, such as ModelError's OriginalMessage, as text ("" if absent)."""
    return str(cast("dict[str, object]", error.response).get(name, ""))


def _config(*, read_timeout_s: float = 20) -> Config:
    return Config(
        retries={"mode": "standard", "total_max_attempts": 3},
        connect_timeout=10,
        read_timeout=read_timeout_s,
        user_agent_extra="semif",
    )
