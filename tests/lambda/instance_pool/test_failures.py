"""SageMaker's own texts and codes, and what the walk makes of them."""

import pytest

from instance_pool.attempts import tag_value
from instance_pool.failures import (
    ADVICE,
    Cause,
    classify_error,
    classify_failure_reason,
    enum_refused_type,
    quota_refused_type,
)

REASONS = [
    (
        "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
        "Please retry using a different ML instance type or after some time.",
        Cause.CAPACITY,
    ),
    ("CapacityError: Unable to provision requested ML compute capacity. Please retry.", Cause.CAPACITY),
    (
        "ResourceLimitExceeded: The account-level service limit 'ml.g6.xlarge for endpoint usage' is 0",
        Cause.QUOTA,
    ),
    (
        "The primary container for production variant AllTraffic did not pass the ping health check. "
        "Please check CloudWatch logs for this endpoint.",
        Cause.HEALTH_CHECK,
    ),
    (
        "CannotStartContainerError. Please ensure the model container for variant AllTraffic starts "
        "correctly when invoked with 'docker run <image> serve'.",
        Cause.CONTAINER_START,
    ),
    ("Failed to download model data for container container_1 of variant AllTraffic.", Cause.MODEL_DOWNLOAD),
    (
        "Please make sure all images included in the model for the production variant AllTraffic exist, "
        "and that the execution role used to create the model has permissions to access them.",
        Cause.IMAGE_ACCESS,
    ),
    (
        "The role 'arn:aws:iam::1:role/r' does not have BatchGetImage permission for the image",
        Cause.IMAGE_ACCESS,
    ),
    (
        "Request to service failed. If failure persists after retry, contact customer support.",
        Cause.SERVICE_FAILED,
    ),
    ("", Cause.UNKNOWN),
    ("The update was rolled back and SageMaker gave no reason.", Cause.SILENT_ROLLBACK),
    (
        "The deployment was rolled back because the following CloudWatch alarms were in ALARM state: [a].",
        Cause.ALARM_ROLLBACK,
    ),
]


@pytest.mark.parametrize(("text", "cause"), REASONS)
def test_reasons_of_failed_endpoints(text: str, cause: Cause) -> None:
    assert classify_failure_reason(text) is cause


@pytest.mark.parametrize(("text", "cause"), REASONS)
def test_a_reason_that_went_through_a_tag_classifies_the_same(text: str, cause: Cause) -> None:
    assert classify_failure_reason(tag_value(text)) is cause


@pytest.mark.parametrize(
    ("code", "message", "status", "cause"),
    [
        ("ResourceLimitExceeded", "The account-level service limit 'ml.g6.xlarge …' is 0", 400, Cause.QUOTA),
        (
            "ValidationException",
            "1 validation error detected: Value 'ml.x9.large' at 'productionVariants.1.member.instanceType' "
            "failed to satisfy constraint: Member must satisfy enum value set: [ml.m5.large]",
            400,
            Cause.UNKNOWN_TYPE,
        ),
        ("ValidationException", 'Cannot update in-progress endpoint "arn:e".', 400, Cause.IN_PROGRESS),
        (
            "ValidationException",
            "Cannot update endpoint e with the currently in use endpoint configuration",
            400,
            Cause.ALREADY_CURRENT,
        ),
        (
            "ValidationException",
            'Cannot create already existing endpoint "arn:e".',
            400,
            Cause.ALREADY_EXISTS,
        ),
        ("ValidationException", 'Could not find endpoint "arn:e".', 400, Cause.NOT_FOUND),
        ("ValidationException", "Could not assume role arn:r. Please ensure …", 400, Cause.ROLE_NOT_READY),
        ("ThrottlingException", "Rate exceeded", 400, Cause.TRANSIENT),
        ("TooManyRequestsException", "Too Many Requests", 429, Cause.TRANSIENT),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            400,
            Cause.TRANSIENT,
        ),
        ("SomethingNew", "", 503, Cause.TRANSIENT),
        ("SomethingNew", "", 429, Cause.TRANSIENT),
        ("ResourceNotFound", "Resource being accessed is not found.", 400, Cause.NOT_FOUND),
        ("AccessDeniedException", "User … is not authorized to perform: …", 400, Cause.ACCESS_DENIED),
        ("ValidationException", "Something else is wrong", 400, Cause.UNKNOWN),
    ],
)
def test_refused_calls(code: str, message: str, status: int, cause: Cause) -> None:
    assert classify_error(code, message, status) is cause


def test_every_cause_has_one_thing_to_do() -> None:
    assert set(ADVICE) == set(Cause)


QUOTA = (
    "The account-level service limit '{} for endpoint usage' is 0 Instances, with current utilization of "
    "0 Instances and a request delta of 1 Instances."
)
ENUM = (
    "1 validation error detected: Value '{}' at 'productionVariants.1.member.{}' failed to satisfy "
    "constraint: Member must satisfy enum value set: [ml.g6.xlarge, ml.g6.2xlarge]"
)


def test_a_quota_refusal_names_its_type() -> None:
    assert quota_refused_type(QUOTA.format("ml.g6e.xlarge")) == "ml.g6e.xlarge"
    assert quota_refused_type(QUOTA.format("ml.p4d-24xl.x")) == "ml.p4d-24xl.x"
    assert quota_refused_type("The account-level service limit is 0 Instances") == ""


@pytest.mark.parametrize(
    ("text", "types", "named"),
    [
        (ENUM.format("ml.x9.large", "instanceType"), ["ml.x9.large"], "ml.x9.large"),
        (ENUM.format("ml.g6.2xlarge", "instanceType"), ["ml.g6.2xlarg", "ml.g6.2xlarge"], "ml.g6.2xlarge"),
        (ENUM.format("[a]", "instancePools"), ["ml.g6.xlarge", "ml.g6.2xlarge"], ""),
        (ENUM.format("[a]", "instancePools"), ["ml.x9.large"], "ml.x9.large"),
    ],
)
def test_an_enum_refusal_names_one_of_the_types(text: str, types: list[str], named: str) -> None:
    assert enum_refused_type(text, types) == named
