"""A stream of bytes into one S3 object, in parts: the object appears whole, or not at all."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from semif.aws import ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

LEAST_PART_BYTES = 8 << 20
MOST_PARTS = 10_000  # S3's limit
PARTS_IN_FLIGHT = 3


def part_bytes(size_bytes: int) -> int:
    """Size of a part: whole mebibytes, and with room to spare under S3's number of parts."""
    mebibytes = -(-size_bytes // (MOST_PARTS - 1000) // (1 << 20)) + 1
    return max(LEAST_PART_BYTES, mebibytes << 20)


def put_stream(
    s3: "S3Client",
    bucket: str,
    key: str,
    chunks: Iterable[bytes],
    *,
    size_bytes: int,
    metadata: Mapping[str, str],
    content_type: str,
) -> None:
    """Send the chunks as one object. `size_bytes` sets the size of parts and need not be exact.

    At most PARTS_IN_FLIGHT + 1 parts are in memory. After a failure the upload is aborted, so no part is
    left behind to be paid for.
    """
    parts = _parts(chunks, part_bytes(size_bytes))
    first = next(parts, b"")
    if len(first) < LEAST_PART_BYTES:
        s3.put_object(Bucket=bucket, Key=key, Body=first, Metadata=dict(metadata), ContentType=content_type)
        return
    started = s3.create_multipart_upload(
        Bucket=bucket, Key=key, Metadata=dict(metadata), ContentType=content_type
    )
    upload_id = started["UploadId"]
    try:
        sent = _send(s3, (bucket, key, upload_id), first, parts)
        s3.complete_multipart_upload(
            Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": sent}
        )
    except BaseException:
        with suppress(ClientError):
            s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
        raise


def _send(
    s3: "S3Client", upload: tuple[str, str, str], first: bytes, rest: Iterator[bytes]
) -> "list[CompletedPartTypeDef]":
    """Send the parts of an upload (bucket, key, id); returns them in order."""
    bucket, key, upload_id = upload

    def send(number: int, body: bytes) -> "CompletedPartTypeDef":
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    done: list[CompletedPartTypeDef] = []
    waiting: set[Future[CompletedPartTypeDef]] = set()
    with ThreadPoolExecutor(PARTS_IN_FLIGHT) as threads:
        try:
            body: bytes | None = first
            number = 1
            while body:
                if len(waiting) == PARTS_IN_FLIGHT:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    done += [part.result() for part in finished]
                waiting.add(threads.submit(send, number, body))
                number, body = number + 1, next(rest, None)
            done += [part.result() for part in waiting]
        except BaseException:
            for part in waiting:
                part.cancel()
            raise
    return sorted(done, key=lambda part: part["PartNumber"])


def _parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The chunks, joined into parts of at least `size` bytes; only the last one is shorter."""
    gathered: list[bytes] = []
    total = 0
    for chunk in chunks:
        gathered.append(chunk)
        total += len(chunk)
        if total >= size:
            yield b"".join(gathered)
            gathered, total = [], 0
    if gathered:
        yield b"".join(gathered)
