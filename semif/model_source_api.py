"""Asks whether a model's source is there: one HEAD, or one look at a bucket. Nothing is fetched."""

from typing import Final

import httpx

from semif.assembly import ModelPlan
from semif.aws import Aws, ClientError, aws_errors, describe
from semif.doctor_facts import Source
from semif.errors import SemifError
from semif.findings import Unknown

TIMEOUT_S: Final = 20
S3: Final = "s3://"


def look_at_source(aws: Aws, model: ModelPlan, region: str) -> Source | Unknown:
    """Look once. A ready archive has to lie in the endpoint's region; what a build fetches need not."""
    if not model.address.startswith(S3):
        return _head(model.address)
    bucket, _, key = model.address.removeprefix(S3).partition("/")
    try:
        with aws_errors("s3"):
            return _bucket(aws, bucket, key, region=region if model.ready else None)
    except SemifError as error:
        return Unknown(
            f"s3:ListBucket on {bucket}", error.message, denied=error.code in {"403", "AccessDenied"}
        )


def _head(url: str) -> Source:
    try:
        # The Hub answers with a redirect to where the bytes are: that is enough.
        status = httpx.head(url, timeout=TIMEOUT_S, follow_redirects=False).status_code
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return Source("unreachable", str(error) or type(error).__name__)
    if status < 400:
        return Source("reachable")
    if status in {401, 403}:
        return Source("closed", f"HTTP {status}")
    if status in {404, 410}:
        return Source("missing", f"HTTP {status}")
    return Source("unreachable", f"HTTP {status}")


def _bucket(aws: Aws, bucket: str, key: str, *, region: str | None) -> Source:
    s3 = aws.s3()
    try:
        found = s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if describe(error)[0] in {"404", "NoSuchBucket"}:
            return Source("missing", f"no bucket {bucket}")
        raise
    there = found.get("BucketRegion") or found["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
    if region is not None and there and there != region:
        return Source("elsewhere", there)
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return (
        Source("reachable", there or "") if listed.get("KeyCount") else Source("missing", f"nothing at {key}")
    )
