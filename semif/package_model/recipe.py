"""A recipe says what an archive is made of; it alone decides the archive's name. Pure.

As JSON: `{"source": {"repository", "revision"} | {"uri"}, "file", "sha256", "quantize", "shard_bytes",
"license"}`; absent members are null. An unchanged GGUF lies under `models/<its SHA-256>/`, everything else
under `models/<SHA-256 of the recipe's canonical JSON>/`.
"""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from semif.errors import UsageError

QUANTIZATIONS = ("F16", "Q4_K_M", "Q5_K_M", "Q8_0")
LEAST_SHARD_BYTES = 1 << 16
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.gguf")
_MEMBERS = {"source", "file", "sha256", "quantize", "shard_bytes", "license"}


@dataclass(frozen=True)
class HubSource:
    """A repository of the hub; `revision` is a commit of 40 hexadecimal digits, or a branch or tag."""

    repository: str
    revision: str

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which can't move."""
        return _COMMIT.fullmatch(self.revision) is not None

    def to_json(self) -> dict[str, str]:
        """As in a recipe."""
        return {"repository": self.repository, "revision": self.revision}


@dataclass(frozen=True)
class UriSource:
    """An http(s):// or s3:// address of a GGUF, or a local path of a GGUF or of a checkpoint's folder."""

    uri: str

    @property
    def scheme(self) -> str:
        """`http`, `https`, `s3`, or `` for a local path."""
        return urlsplit(self.uri).scheme if "://" in self.uri else ""

    def to_json(self) -> dict[str, str]:
        """As in a recipe."""
        return {"uri": self.uri}


@dataclass(frozen=True)
class Recipe:
    """What is packaged.

    file: the GGUF's name in the source, or of the result where `quantize` makes one. sha256: of the source's
    GGUF, None if unknown. quantize: None leaves the GGUF as it is; F16 only converts a checkpoint.
    shard_bytes: most bytes of one shard, None for one file. license: an SPDX name, None to ask the hub.
    """

    source: HubSource | UriSource
    file: str
    sha256: str | None = None
    quantize: str | None = None
    shard_bytes: int | None = None
    license: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Every member, in the recipe's own order."""
        return {
            "source": self.source.to_json(),
            "file": self.file,
            "sha256": self.sha256,
            "quantize": self.quantize,
            "shard_bytes": self.shard_bytes,
            "license": self.license,
        }

    def canonical(self) -> str:
        """The text whose checksum names a changed model; the CDK app writes the same."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @property
    def keeps_gguf(self) -> bool:
        """Whether the archive holds the source's GGUF unchanged."""
        return self.quantize is None and self.shard_bytes is None

    @property
    def id(self) -> str | None:
        """What names the archive, 64 hexadecimal digits; None while that needs an unknown SHA-256."""
        return self.sha256 if self.keeps_gguf else hashlib.sha256(self.canonical().encode()).hexdigest()

    def at_commit(self, commit: str) -> "Recipe":
        """The same recipe with the hub's revision resolved."""
        if not isinstance(self.source, HubSource):
            return self
        return replace(self, source=HubSource(self.source.repository, commit))


DEFAULT = Recipe(
    HubSource("bartowski/Qwen_Qwen3.5-4B-GGUF", "4168f45a16a1290d65a4ec0fa312ae917a4c15d6"),
    "Qwen_Qwen3.5-4B-Q4_K_M.gguf",
    "13c16f426047e2de38cd075bdade4a7bcbc8c774384876f677740cda65f8a983",
)


def parse_recipe(text: str) -> Recipe:
    """Read a recipe's JSON. Raises `UsageError` that names the member."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _bad("", f"is no JSON: {error}", "give a JSON object") from None
    if not isinstance(document, dict):
        raise _bad("", "is no JSON object", "give a JSON object")
    if unknown := sorted(set(document) - _MEMBERS):
        raise _bad(unknown[0], "is not known", f"use {', '.join(sorted(_MEMBERS))}")
    return checked(
        Recipe(
            _source(document.get("source")),
            document.get("file", ""),
            document.get("sha256"),
            document.get("quantize"),
            document.get("shard_bytes"),
            document.get("license"),
        )
    )


def checked(recipe: Recipe) -> Recipe:
    """The recipe, if all its members fit. Raises `UsageError` that names the one that does not."""
    match recipe.source:
        case HubSource():
            for name, pattern in (("repository", _REPOSITORY), ("revision", _REVISION)):
                value = getattr(recipe.source, name)
                _require(isinstance(value, str) and pattern.fullmatch(value) and ".." not in value,
                         f"source.{name}", value, "write OWNER/NAME and a commit, branch or tag")  # fmt: skip
        case UriSource(uri):
            _require(isinstance(uri, str) and uri, "source.uri", uri, "give an address or a path")
            _require(recipe.source.scheme in {"http", "https", "s3", ""}, "source.uri", uri,
                     "use https://, http://, s3:// or a path")  # fmt: skip
    _require(isinstance(recipe.file, str) and _FILE.fullmatch(recipe.file), "file", recipe.file,
             "name a .gguf file without folders")  # fmt: skip
    for name, pattern in (("sha256", _SHA256),):
        value = getattr(recipe, name)
        _require(value is None or (isinstance(value, str) and pattern.fullmatch(value)), name, value,
                 "give 64 hexadecimal digits")  # fmt: skip
    _require(recipe.quantize is None or recipe.quantize in QUANTIZATIONS, "quantize", recipe.quantize,
             f"use one of {', '.join(QUANTIZATIONS)}")  # fmt: skip
    size = recipe.shard_bytes
    _require(size is None or (type(size) is int and size >= LEAST_SHARD_BYTES), "shard_bytes", size,
             f"give a whole number of bytes, {LEAST_SHARD_BYTES:,} or more")  # fmt: skip
    _require(recipe.license is None or (isinstance(recipe.license, str) and recipe.license), "license",
             recipe.license, "give an SPDX name such as apache-2.0")  # fmt: skip
    return recipe


def _source(document: object) -> HubSource | UriSource:
    match document:
        case {"repository": repository, "revision": revision, **rest} if not rest:
            return HubSource(repository, revision)
        case {"uri": uri, **rest} if not rest:
            return UriSource(uri)
    raise _bad("source", "is neither a repository nor an address", "give {repository, revision} or {uri}")


def _require(condition: object, member: str, value: object, next_step: str) -> None:
    if not condition:
        raise _bad(member, f"{value!r} can't be used", next_step)


def _bad(member: str, problem: str, next_step: str) -> UsageError:
    return UsageError("bad_recipe", f"the recipe {problem}" if not member else problem,
                      field=member, next_step=next_step)  # fmt: skip
