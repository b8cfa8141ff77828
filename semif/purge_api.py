"""Removes what a destruction leaves: by intent (bucket, images, keys, logs) or by accident (endpoints)."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from semif.aws import Aws, ClientError, aws_errors, describe
from semif.inventory import KEY_DAYS, Kept, Left

BATCH: Final = 1000  # what one DeleteObjects takes
ENDPOINT_WAIT_S: Final = 900.0
POLL_S: Final = 5.0


def purge(aws: Aws, kept: Iterable[Kept], say: Callable[[str], None]) -> None:
    """Remove each for good. Raises SemifError at the first that cannot be removed."""
    remove: dict[str, Callable[[Aws, str], None]] = {
        "bucket": _bucket,
        "repository": _repository,
        "log group": _log_group,
        "key": _key,
    }
    for item in kept:
        with aws_errors(f"{item.kind} {item.name}"):
            remove[item.kind](aws, item.name)
        say(f"removed {item.kind} {item.name}")


def remove_left(aws: Aws, left: Iterable[Left], say: Callable[[str], None]) -> None:
    """Delete the endpoints, configurations and models that a stack of ours left, and stop its builds."""
    sagemaker = aws.sagemaker()
    for item in left:
        if not item.owner:
            continue
        with aws_errors(item.text):
            try:
                if item.kind == "endpoint":
                    _endpoint(sagemaker, item.name)
                elif item.kind == "endpoint configuration":
                    sagemaker.delete_endpoint_config(EndpointConfigName=item.name)
                elif item.kind == "model":
                    sagemaker.delete_model(ModelName=item.name)
                elif item.kind == "build":
                    aws.codebuild().stop_build(id=item.name)
                else:
                    continue
            except ClientError as error:
                if "could not find" not in describe(error)[1].lower():
                    raise
        say(f"removed {item.kind} {item.name}, which no stack has any more")


def _endpoint(sagemaker: Any, name: str) -> None:
    """Delete an endpoint and wait until it is gone; SageMaker refuses while it is being made or updated."""
    deadline = time.monotonic() + ENDPOINT_WAIT_S
    while True:
        # Raises "Could not find endpoint" in the end, which is what we wait for.
        status = sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"]
        if status in {"InService", "Failed", "OutOfService", "UpdateRollbackFailed"}:
            sagemaker.delete_endpoint(EndpointName=name)
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _bucket(aws: Aws, name: str) -> None:
    s3: Any = aws.s3()
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=name):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_object_versions").paginate(
        Bucket=name, PaginationConfig={"PageSize": BATCH}
    ):
        objects = [
            {"Key": item["Key"], "VersionId": item["VersionId"]}
            for item in (*page.get("Versions", []), *page.get("DeleteMarkers", []))
        ]
        for start in range(0, len(objects), BATCH):
            s3.delete_objects(Bucket=name, Delete={"Objects": objects[start : start + BATCH], "Quiet": True})
    s3.delete_bucket(Bucket=name)


def _repository(aws: Aws, name: str) -> None:
    aws.client("ecr").delete_repository(repositoryName=name, force=True)


def _log_group(aws: Aws, name: str) -> None:
    aws.logs().delete_log_group(logGroupName=name)


def _key(aws: Aws, name: str) -> None:
    aws.client("kms").schedule_key_deletion(KeyId=name, PendingWindowInDays=KEY_DAYS)
