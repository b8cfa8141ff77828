"""A request's headers and body: read within limits of size and time, or refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request

from semif_server.errors import BodyError, Code, request_timeout

BODY_S: Final = 30.0
# A sender that is told "too large" while it still sends may never read the answer, so what it has on the
# way is taken and thrown away, within reason.
_DISCARD_BYTES: Final = 1_048_576
_DISCARD_S: Final = 0.5


def check_headers(headers: Headers) -> None:
    """Raises BodyError unless the body is said to be uncompressed JSON in UTF-8."""
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = [
        value.strip(' "').lower()
        for name, _, value in (parameter.partition("=") for parameter in parameters.split(";"))
        if name.strip().lower() == "charset"
    ]
    if media_type.strip().lower() != "application/json" or charset not in ([], ["utf-8"], ["utf8"]):
        raise BodyError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            "The content type must be application/json (UTF-8). Set Content-Type.",
        )
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise BodyError(
            Code.UNSUPPORTED_CONTENT_ENCODING, "Compressed bodies are not read here. Send the JSON as it is."
        )


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body.

    Raises BodyError when it is larger than the limit, UnavailableError when it does not end within BODY_S.
    """
    stream = request.stream()
    if not _is_declared_too_large(request.headers, limit_bytes):
        try:
            async with asyncio.timeout(BODY_S):
                body = await _read_up_to(stream, limit_bytes)
        except TimeoutError:
            raise request_timeout(BODY_S) from None
        if body is not None:
            return body
    if request.headers.get("expect", "").lower() != "100-continue":
        await _discard(stream)
    raise BodyError(
        Code.BODY_TOO_LARGE,
        f"The body is larger than {limit_bytes:,} bytes. Shorten it or raise SEMIF_MAX_BODY_BYTES.",
    )


def _is_declared_too_large(headers: Headers, limit_bytes: int) -> bool:
    declared = headers.get("content-length", "")
    # A number too long for int() is too large as well.
    return declared.isdecimal() and (len(declared) > 18 or int(declared) > limit_bytes)


async def _read_up_to(stream: AsyncIterator[bytes], limit_bytes: int) -> bytes | None:
    chunks: list[bytes] = []
    size_bytes = 0
    async for chunk in stream:
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


async def _discard(stream: AsyncIterator[bytes]) -> None:
    size_bytes = 0
    try:
        async with asyncio.timeout(_DISCARD_S):
            async for chunk in stream:
                size_bytes += len(chunk)
                if size_bytes > _DISCARD_BYTES:
                    return
    except TimeoutError:
        return
