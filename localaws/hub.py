"""A model hub on this machine: it serves a folder under the paths of the Hugging Face hub.

`OWNER/NAME/FILE` of the folder is answered under `/OWNER/NAME/resolve/REVISION/FILE`, and
`/api/models/OWNER/NAME/revision/REVISION` lists a repository; plain `/files/…` serves the folder as it is.
Ranges, ETags and If-Range work. Faults are set by file: see `Fault`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

COMMIT: Final = "c0ffee0123456789c0ffee0123456789c0ffee01"
_RANGE: Final = re.compile(r"bytes=(\d+)-")
_CHUNK_BYTES: Final = 1 << 18


@dataclass
class Fault:
    """What goes wrong with one file.

    cut_after_bytes: each answer breaks off after so many bytes of its body, `cuts` times. ignore_range:
    ranges are answered with the whole file. status: the answer instead of the file, `statuses` times; -1 is
    for ever. wrong_bytes: bytes of the same length instead of the file's. no_etag: neither ETag nor date.
    redirect: the address that the file is said to lie at. no_length: the answer ends where it ends.
    announce_bytes: the length that the file is said to have.
    """

    cut_after_bytes: int | None = None
    cuts: int = -1
    ignore_range: bool = False
    status: int | None = None
    statuses: int = -1
    wrong_bytes: bool = False
    no_etag: bool = False
    no_length: bool = False
    redirect: str | None = None
    announce_bytes: int | None = None


@dataclass
class Request:
    """One request that came in."""

    path: str
    authorization: str | None
    range: str | None
    sent_bytes: int = 0


@dataclass
class _State:
    folder: Path
    licenses: dict[str, str]
    gated: dict[str, str] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    digests: dict[Path, tuple[float, int, str]] = field(default_factory=dict)

    def sha256(self, path: Path) -> str:
        """A file's checksum, computed once for each version."""
        stat = path.stat()
        known = self.digests.get(path)
        if known is None or known[:2] != (stat.st_mtime, stat.st_size):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            known = self.digests[path] = (stat.st_mtime, stat.st_size, digest)
        return known[2]


class Hub:
    """`with Hub(folder) as hub:` serves until the end of the block, on a free port of 127.0.0.1.

    licenses: repository → licence. gated: repository → the token that opens it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        licenses: dict[str, str] | None = None,
        gated: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self._state = _State(folder, licenses or {}, gated or {})
        state = self._state

        class Handler(_Handler):
            hub = state

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """All requests so far."""
        return self._state.requests

    def put_fault(self, file: str, fault: Fault) -> None:
        """From now on this fault for `OWNER/NAME/FILE`."""
        self._state.faults[file] = fault

    def clear_faults(self) -> None:
        """No faults from now on."""
        self._state.faults.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that goes away is no fault of ours; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    hub: _State
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: tests read `requests`."""

    def do_HEAD(self) -> None:
        """The headers of do_GET."""
        self.do_GET()

    def do_GET(self) -> None:
        """One file, or what the API says of a repository."""
        path = unquote(urlsplit(self.path).path)
        request = Request(path, self.headers.get("Authorization"), self.headers.get("Range"))
        self.hub.requests.append(request)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) == 6 and parts[4] == "revision":
            self._answer_api("/".join(parts[2:4]), parts[5], request)
        elif parts[0] == "files":
            self._answer_file("/".join(parts[1:]), request)
        elif len(parts) >= 5 and parts[2] == "resolve":
            repository = "/".join(parts[:2])
            if self._is_open(repository, request):
                self._answer_file("/".join([repository, *parts[4:]]), request)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _is_open(self, repository: str, request: Request) -> bool:
        token = self.hub.gated.get(repository)
        if token is None or request.authorization == f"Bearer {token}":
            return True
        status = HTTPStatus.FORBIDDEN if request.authorization else HTTPStatus.UNAUTHORIZED
        self._refuse(status)
        return False

    def _answer_api(self, repository: str, revision: str, request: Request) -> None:
        folder = self.hub.folder / repository
        if not folder.is_dir() or ".." in repository:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        files = sorted(path for path in folder.iterdir() if path.is_file())
        document = {
            "id": repository,
            "sha": revision if re.fullmatch(r"[0-9a-f]{40}", revision) else COMMIT,
            "gated": repository in self.hub.gated,
            "cardData": {"license": self.hub.licenses[repository]} if repository in self.hub.licenses else {},
            "siblings": [
                {
                    "rfilename": path.name,
                    "size": path.stat().st_size,
                    "lfs": {"sha256": self.hub.sha256(path)},
                }
                if path.suffix in {".gguf", ".safetensors"}
                else {"rfilename": path.name, "size": path.stat().st_size}
                for path in files
            ],
        }
        body = json.dumps(document).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        request.sent_bytes = len(body)

    def _answer_file(self, name: str, request: Request) -> None:
        path = self.hub.folder / name
        fault = self.hub.faults.get(name, Fault())
        if fault.status is not None and fault.statuses != 0:
            fault.statuses -= 1
            self._refuse(fault.status)
            return
        if fault.redirect is not None:
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", fault.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if not path.is_file() or ".." in name:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._send(path, fault, request)

    def _send(self, path: Path, fault: Fault, request: Request) -> None:
        size, etag = path.stat().st_size, f'"{self.hub.sha256(path)}"'
        start = self._start(etag, fault)
        if start >= size > 0:
            self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        if not fault.no_length:
            self.send_header("Content-Length", str(fault.announce_bytes or size - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if not fault.no_etag:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", formatdate(path.stat().st_mtime, usegmt=True))
        cut = fault.cut_after_bytes if fault.cut_after_bytes is not None and fault.cuts != 0 else None
        if cut is not None or fault.no_length or fault.announce_bytes is not None:
            fault.cuts -= 1
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        self._copy(path, start, size if cut is None else min(size, start + cut), fault, request)

    def _copy(self, path: Path, start: int, stop: int, fault: Fault, request: Request) -> None:
        with path.open("rb") as file:
            file.seek(start)
            left = stop - start
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                left -= len(chunk)
                try:
                    self.wfile.write(bytes(len(chunk)) if fault.wrong_bytes else chunk)
                except ConnectionError:
                    self.close_connection = True
                    return
                request.sent_bytes += len(chunk)

    def _start(self, etag: str, fault: Fault) -> int:
        """Where the answer begins: at the asked place only if the caller's version is this one."""
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        if not found or fault.ignore_range or (condition is not None and condition != etag):
            return 0
        return int(found[1])

    def _refuse(self, status: int) -> None:
        body = b'{"error": "refused"}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
