"""`--hf-repo` and `--hf-file`: llama-server fetches its model from the Hub before it listens."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

_TIMEOUT_S = 60.0


class DownloadError(Exception):
    """The Hub did not give the file."""


def download(repository: str, file: str, target: Path) -> Path:
    """Fetch `file` of a repository's main branch from HF_ENDPOINT into `target`; HF_TOKEN signs in.

    Raises:
        DownloadError: with the URL and the reason.
    """
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url = f"{hub}/{urllib.parse.quote(repository)}/resolve/main/{urllib.parse.quote(file)}"
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url}: not a URL of the web")
    token = os.environ.get("HF_TOKEN")
    partial = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        request = urllib.request.Request(url)  # noqa: S310 - checked above
        if token:
            # Not for the store that the Hub redirects to.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer, partial.open("wb") as output:  # noqa: S310
            shutil.copyfileobj(answer, output)
            expected = answer.headers.get("Content-Length")
        if expected is not None and partial.stat().st_size != int(expected):
            raise DownloadError(f"{url}: {partial.stat().st_size} of {expected} bytes arrived")
        partial.replace(target)
    except (urllib.error.URLError, OSError) as error:
        raise DownloadError(f"{url}: {error}") from error
    return target
