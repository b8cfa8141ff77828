"""What SageMaker's failure texts and error codes mean for the walk.

Sources: the FailureReason of DescribeEndpoint and the errors of the endpoint operations. Texts are matched in
lower case with everything but letters and digits read as spaces, so that a reason that went through a tag
(where many characters are not allowed) classifies as the original did.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Cause(StrEnum):
    """Why a call was refused or an endpoint failed; the value is the stable code that users see."""

    CAPACITY = "no_capacity"
    QUOTA = "no_quota"
    UNKNOWN_TYPE = "unknown_instance_type"
    SERVICE_FAILED = "service_failed"
    HEALTH_CHECK = "health_check_failed"
    CONTAINER_START = "container_start_failed"
    MODEL_DOWNLOAD = "model_download_failed"
    IMAGE_ACCESS = "image_access_failed"
    VOLUME_KEY = "volume_key_unsupported"
    ROLE_NOT_READY = "role_not_assumable"
    IN_PROGRESS = "endpoint_in_progress"
    ALREADY_CURRENT = "configuration_in_use"
    ALREADY_EXISTS = "already_exists"
    NOT_FOUND = "not_found"
    ACCESS_DENIED = "access_denied"
    SILENT_ROLLBACK = "update_rolled_back"
    ALARM_ROLLBACK = "alarm_rolled_back"
    TRANSIENT = "service_unavailable"
    UNKNOWN = "unclassified_failure"

    @property
    def moves_on(self) -> bool:
        """Whether another instance type may do what this one could not."""
        return self in {Cause.CAPACITY, Cause.QUOTA}


ADVICE: Final = MappingProxyType(
    {
        Cause.CAPACITY: "Try again later, or add instance types to the endpoint's pool in cdk.json.",
        Cause.QUOTA: "Ask for the named quota in Service Quotas (service sagemaker), or change the pool.",
        Cause.UNKNOWN_TYPE: "Remove this type from the endpoint's pool in cdk.json.",
        Cause.SERVICE_FAILED: "SageMaker failed twice on its own; deploy again, or ask AWS support.",
        Cause.HEALTH_CHECK: "Read the endpoint's log group for why /ping did not answer 200 in time.",
        Cause.CONTAINER_START: "Check that image and driver (inference_ami_version) fit this instance type.",
        Cause.MODEL_DOWNLOAD: "Check that the model archive is complete and the execution role may read it.",
        Cause.IMAGE_ACCESS: "Check that the image exists in this region and SageMaker may pull it.",
        Cause.VOLUME_KEY: "Leave volume_key out of cdk.json, or types with local disks out of the pool.",
        Cause.ROLE_NOT_READY: "Check that the model's execution role trusts sagemaker.amazonaws.com.",
        Cause.IN_PROGRESS: "Wait until the endpoint's current change has ended, then deploy again.",
        Cause.ALREADY_CURRENT: "Deploy again.",
        Cause.ALREADY_EXISTS: "Delete what has this name, or choose another endpoint name in cdk.json.",
        Cause.NOT_FOUND: "Deploy again; if it comes back, something else deletes this stack's resources.",
        Cause.ACCESS_DENIED: "Check the policies and boundaries of the function's role.",
        Cause.SILENT_ROLLBACK: "Read the endpoint's log group for why the new fleet failed.",
        Cause.ALARM_ROLLBACK: "Look at the named alarm and the endpoint's log group, then deploy again.",
        Cause.TRANSIENT: "Deploy again.",
        Cause.UNKNOWN: "Read the reason and the endpoint's log group, mend the cause, deploy again.",
    }
)

_TRANSIENT_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestExpired",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "UnrecognizedClientException",
    }
)
_ACCESS_CODES: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})

# The first row that matches wins.
_REASONS: Final[tuple[tuple[str, Cause], ...]] = (
    ("insufficientinstancecapacity", Cause.CAPACITY),
    ("capacityerror", Cause.CAPACITY),
    ("unable to provision requested ml compute capacity", Cause.CAPACITY),
    ("resourcelimitexceeded", Cause.QUOTA),
    ("account level service limit", Cause.QUOTA),
    ("request to service failed", Cause.SERVICE_FAILED),
    ("ping health check", Cause.HEALTH_CHECK),
    ("cannotstartcontainererror", Cause.CONTAINER_START),
    ("failed to download model data", Cause.MODEL_DOWNLOAD),
    ("make sure all images included in the model", Cause.IMAGE_ACCESS),
    ("permission for the image", Cause.IMAGE_ACCESS),
    ("the repository of your image", Cause.IMAGE_ACCESS),
    ("could not assume role", Cause.ROLE_NOT_READY),
    ("accessdenied", Cause.ACCESS_DENIED),
    ("rolled back and sagemaker gave no reason", Cause.SILENT_ROLLBACK),
    ("rolled back because the following cloudwatch alarms", Cause.ALARM_ROLLBACK),
)
_REFUSALS: Final[tuple[tuple[str, Cause], ...]] = (
    ("cannot update in progress endpoint", Cause.IN_PROGRESS),
    ("currently in use endpoint configuration", Cause.ALREADY_CURRENT),
    ("cannot create already existing", Cause.ALREADY_EXISTS),
    ("could not find", Cause.NOT_FOUND),
    ("could not assume role", Cause.ROLE_NOT_READY),
    ("kmskeyid is not supported", Cause.VOLUME_KEY),
)
_QUOTA_TYPE: Final = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+ for endpoint usage")


def classify_failure_reason(text: str) -> Cause:
    """Classify an endpoint's FailureReason, as SageMaker wrote it or as a tag kept it."""
    return _first_match(_REASONS, _plain(text)) or Cause.UNKNOWN


def classify_error(code: str, message: str, status: int = 400) -> Cause:
    """Classify an error answer: its code, its message and its HTTP status."""
    if code in _TRANSIENT_CODES or status >= 500 or status == 429:
        return Cause.TRANSIENT
    if code in _ACCESS_CODES:
        return Cause.ACCESS_DENIED
    if code in {"ResourceNotFound", "ResourceNotFoundException"}:
        return Cause.NOT_FOUND
    plain = _plain(message)
    if code == "ResourceLimitExceeded" or "account level service limit" in plain:
        return Cause.QUOTA
    if code == "ValidationException" and "instance" in plain and "enum value set" in plain:
        return Cause.UNKNOWN_TYPE
    return _first_match(_REFUSALS, plain) or Cause.UNKNOWN


def quota_refused_type(message: str) -> str:
    """The instance type whose quota a refusal names; "" if it names none. It may be one nobody asked for."""
    found = _QUOTA_TYPE.search(message)
    return found[0].removesuffix(" for endpoint usage") if found else ""


def enum_refused_type(message: str, types: Sequence[str]) -> str:
    """Which of `types` a ValidationException refuses as no type of the region; "" if it says none."""
    value = message.lower().partition("enum value set")[0]
    named = [name for name in types if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", value)]
    return named[0] if named else types[0] if len(types) == 1 else ""


def shortened(text: str, limit_bytes: int = 700) -> str:
    """Text of at most `limit_bytes` in UTF-8: CloudFormation refuses an answer over 4,096 bytes."""
    encoded = text.encode()
    if len(encoded) <= limit_bytes:
        return text
    return f"{encoded[: limit_bytes - 3].decode(errors='ignore')}…"


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def _first_match(rows: tuple[tuple[str, Cause], ...], plain: str) -> Cause | None:
    return next((cause for needle, cause in rows if needle in plain), None)
