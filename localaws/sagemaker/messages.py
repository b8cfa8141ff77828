"""The sentences SageMaker answers with, in one place.

Callers classify errors by these texts, so they follow the service's own wording as seen in its
documentation and in public reports.
"""

from __future__ import annotations

from collections.abc import Sequence

REASON_LIMIT = 1024
"""Characters that a FailureReason may have."""

NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    " Please retry using a different ML instance type or after some time."
)

NO_CAPACITY_BEFORE = (
    "CapacityError: Unable to provision requested ML compute capacity."
    " Please retry using a different ML instance type."
)
SERVICE_FAILED = "Request to service failed. If failure persists after retry, contact customer support."


def not_found(kind: str, arn: str) -> str:
    """A model, endpoint configuration or endpoint that is not there; `kind` is spelled with spaces."""
    return f'Could not find {kind} "{arn}".'


def already_exists(kind: str, arn: str) -> str:
    """A name that is taken."""
    return f'Cannot create already existing {kind} "{arn}".'


def in_progress(arn: str) -> str:
    """UpdateEndpoint and DeleteEndpoint during a transition."""
    return f'Cannot update in-progress endpoint "{arn}".'


def failed_endpoint(arn: str) -> str:
    """UpdateEndpoint on an endpoint whose creation failed."""
    return f'Cannot update endpoint "{arn}" in status Failed. Delete the endpoint and create it again.'


def config_in_use(endpoint_arn: str, config_arn: str) -> str:
    """UpdateEndpoint to the configuration that serves already."""
    return (
        f'Cannot update endpoint "{endpoint_arn}" with the currently in use endpoint configuration'
        f' "{config_arn}".'
    )


def no_quota(instance_type: str, count: int, *, quota: int = 0, in_use: int = 0) -> str:
    """ResourceLimitExceeded of CreateEndpoint and UpdateEndpoint."""
    return (
        f"The account-level service limit '{instance_type} for endpoint usage' is {quota} Instances, with"
        f" current utilization of {in_use} Instances and a request delta of {count} Instances."
        " Please use AWS Service Quotas"
        " to request an increase for this quota. If AWS Service Quotas is not available, contact AWS support"
        " to request an increase for this quota."
    )


def key_refused(instance_type: str) -> str:
    """CreateEndpointConfig with a KmsKeyId and a type with local disks, as older documentation has it."""
    return f"KmsKeyId is not supported for instance type {instance_type}, which has local storage."


def foreign_key_region(key: str, region: str) -> str:
    """CreateEndpointConfig with a key of another region."""
    return f"Invalid arn {key}: the KMS key must be in region {region}."


def scaled_variants(names: Sequence[str]) -> str:
    """UpdateEndpoint that removes a scaled variant or changes its instance types."""
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f'The variant(s) "[{listed}]" must be deregistered as scalable targets with AWS Auto Scaling before'
        " they can be removed or have their instance type updated."
    )


def alarms_tripped(names: Sequence[str]) -> str:
    """FailureReason of an update that alarms of its AutoRollbackConfiguration ended."""
    return (
        "The deployment was rolled back because the following CloudWatch alarms were in ALARM state:"
        f" [{', '.join(names)}]."
    )


def unknown_instance_type(value: str, member: str, allowed: Sequence[str]) -> str:
    """CreateEndpointConfig with an instance type that the region does not have."""
    return (
        f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint:"
        f" Member must satisfy enum value set: [{', '.join(allowed)}]"
    )


def foreign_image_region(image: str, region: str) -> str:
    """CreateModel with an image of another region."""
    return (
        f'Region of "{image}" does not match expected region of {region}.'
        " Cross region ECR image pulls are not allowed."
    )


def non_ecr_image(image: str) -> str:
    """CreateModel with an image from elsewhere than a private ECR registry."""
    return f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.'


def model_data_missing(url: str) -> str:
    """CreateModel with a URL under which nothing lies."""
    return f"Could not find model data at {url}."


def model_data_inaccessible(url: str, role: str, region: str) -> str:
    """CreateModel with model data in a bucket that is missing or in another region."""
    return (
        f'Could not access model data at {url}. Please ensure that the role "{role}" exists and that its'
        ' trust relationship policy allows the action "sts:AssumeRole" for the service principal'
        ' "sagemaker.amazonaws.com". Also ensure that the role has "s3:GetObject" permissions and that the'
        f" object is located in {region}. If your Model uses multiple models or uncompressed models, please"
        ' ensure that the role has "s3:ListBucket" permission.'
    )


def image_missing(model: str, role: str) -> str:
    """FailureReason: the registry does not hold the model's image."""
    return (
        f'Please make sure all images included in the model "{model}" exist, and that the execution role'
        f' "{role}" used to create the model has permissions to access them.'
    )


def image_access_denied(role: str) -> str:
    """FailureReason: the execution role may not pull the image."""
    return f"The role '{role}' does not have BatchGetImage permission for the image."


def download_failed(url: str) -> str:
    """FailureReason: the model data could not be fetched."""
    return (
        f'Failed to download model data for container "container_1" from URL: "{url}". Please ensure that'
        " there is an object located at the URL and that the role passed to CreateModel has permissions to"
        " download the object."
    )


def download_timed_out(url: str, limit_s: float) -> str:
    """FailureReason: fetching the model data took longer than the variant allows."""
    return (
        f'Failed to download model data for container "container_1" from URL: "{url}". The download exceeded'
        f" the ModelDataDownloadTimeoutInSeconds of {limit_s:g} seconds."
    )


def cannot_start(variant: str) -> str:
    """FailureReason: the container's process could not be started."""
    return (
        "CannotStartContainerError. Please ensure the model container for variant"
        f" {variant} starts correctly when invoked with 'docker run <image> serve'."
    )


def unhealthy(variant: str) -> str:
    """FailureReason: no 200 from /ping in time, or the process ended before."""
    return (
        f"The primary container for production variant {variant} did not pass the ping health check."
        " Please check CloudWatch logs for this endpoint."
    )


def endpoint_unknown(name: str, account: str) -> str:
    """InvokeEndpoint on an endpoint that does not exist."""
    return f"Endpoint {name} of account {account} not found."


def endpoint_not_in_service(name: str, account: str) -> str:
    """InvokeEndpoint on an endpoint without a configuration in service."""
    return f"Endpoint {name} of account {account} is not in service."


def variant_unknown(variant: str, name: str) -> str:
    """InvokeEndpoint with a TargetVariant that the endpoint does not have."""
    return f"Variant {variant} not found for Request on endpoint {name}."


INVOCATION_TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container {container}. Review the latency"
    " metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)


def model_error(
    status: int, container: str, message: str | None, *, endpoint: str, account: str, region: str
) -> str:
    """Text of a ModelError. `message` is the container's body, None when it could not be loaded whole."""
    side = "client" if 400 <= status < 500 else "server"
    said = "and could not load the entire response body" if message is None else f'with message "{message}"'
    return (
        f"Received {side} error ({status}) from {container} {said}."
        f" See https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
        f"#logEventViewer:group=/aws/sagemaker/Endpoints/{endpoint} in account {account}"
        " for more information."
    )
