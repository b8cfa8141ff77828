"""A file in S3, as `download.Source`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from semif.aws import ClientError, aws_errors, describe, is_connection_error
from semif.package_model.download import Answer, BrokenError, ChangedError, Validator

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class S3Source:
    """`s3://bucket/key`."""

    s3: "S3Client"
    uri: str

    @property
    def address(self) -> str:
        """The URI."""
        return self.uri

    @contextmanager
    def open(self, start: int, validator: Validator | None) -> Iterator[Answer]:
        """See `download.Source`."""
        parts = urlsplit(self.uri)
        bucket, key = parts.netloc, parts.path.removeprefix("/")
        with aws_errors(self.uri):
            try:
                if start and validator is not None:
                    got = self.s3.get_object(
                        Bucket=bucket, Key=key, Range=f"bytes={start}-", IfMatch=validator.value
                    )
                else:
                    got = self.s3.get_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if describe(error)[2] in {412, 416}:
                    raise ChangedError("the object changed") from error
                raise
            body = got["Body"]
            size = start + got["ContentLength"]
            try:
                yield Answer(start, Validator(self.uri, got["ETag"], size), body.iter_chunks(CHUNK_BYTES))
            except Exception as error:
                if is_connection_error(error):
                    raise BrokenError(str(error)) from error
                raise
            finally:
                body.close()
