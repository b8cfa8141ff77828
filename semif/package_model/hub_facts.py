"""What the hub's API says about a revision of a repository: its commit, licence and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from semif.errors import NotReadableError
from semif.package_model.http_source import Hub, get_json, shown
from semif.package_model.recipe import HubSource


@dataclass(frozen=True)
class Revision:
    """One commit. files: name → SHA-256 as the hub states it, "" for small files kept in git itself."""

    commit: str
    license: str | None
    files: Mapping[str, str]


def read_revision(http: httpx.Client, hub: Hub, source: HubSource) -> Revision:
    """Ask the hub. Raises SemifError; `not_a_hub` if the answer has another shape."""
    url = f"{hub.url}/api/models/{source.repository}/revision/{quote(source.revision, safe='')}?blobs=true"
    document = get_json(http, hub, url)
    try:
        commit = str(document["sha"])
        card = document.get("cardData") or {}
        license_name = card.get("license") or _tagged(document.get("tags") or [])
        files = {
            str(entry["rfilename"]): str((entry.get("lfs") or {}).get("sha256", ""))
            for entry in document.get("siblings") or []
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise NotReadableError(
            "not_a_hub", f"{shown(url)} is no answer of a hub: {error!r}", next_step="check the hub's address"
        ) from error
    if not HubSource(source.repository, commit).is_pinned:
        raise NotReadableError(
            "not_a_hub", f"{shown(url)} names no commit", next_step="give the revision as a commit"
        )
    return Revision(commit, license_name if isinstance(license_name, str) else None, files)


def _tagged(tags: list[object]) -> str | None:
    found = [
        tag.removeprefix("license:") for tag in tags if isinstance(tag, str) and tag.startswith("license:")
    ]
    return found[0] if found else None
