"""The setting `model`: an archive that the deployment makes, or one that is there already."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final, Literal

from stacks.mapping_reader import MappingReader, SettingsError

MODELS_PREFIX: Final = "models/"
Quantization = Literal["Q4_K_M", "Q5_K_M", "Q8_0"]
QUANTIZATIONS: Final[tuple[Quantization, ...]] = ("Q4_K_M", "Q5_K_M", "Q8_0")
PACKED_NAME: Final = "model.tar.gz"
MAX_BYTES: Final = 5_000_000_000_000

_BUILT_KEYS: Final = (
    "source",
    "file",
    "sha256",
    "quantize",
    "shard_bytes",
    "license",
    "token_secret",
    "bytes",
)
_READY_KEYS: Final = ("s3_uri", "file", "sha256", "bytes")
_FILE: Final = (r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.gguf", "a file name that ends in .gguf")
_SHA256: Final = (r"[0-9a-f]{64}", "64 lower-case hexadecimal digits")
_BUCKET: Final = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_REGION_IN_BUCKET: Final = re.compile(
    r"(sagemaker|jumpstart-cache-prod|jumpstart-private-cache-prod)-(?P<region>[a-z]{2}(-[a-z]+)+-[0-9])(-[0-9]{12})?"
    r"|cdk-[a-z0-9]+-assets-[0-9]{12}-(?P<last>[a-z]{2}(-[a-z]+)+-[0-9])"
)
_KEY: Final = r"[A-Za-z0-9!_.'()/=+@-]+"
_READY_URI: Final = (
    rf"s3://{_BUCKET}/({_KEY}/|({_KEY}/)?model\.tar\.gz)",
    "s3://BUCKET/PREFIX/ with a slash at its end, or s3://BUCKET/…/model.tar.gz",
)
_SOURCE_URI: Final = (
    rf"(https?://[^\s?#@\"]+|s3://{_BUCKET}/{_KEY}[^/])",
    "https://HOST/…, or s3://BUCKET/KEY, without a query",
)


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face Hub at one commit."""

    repository: str
    revision: str


@dataclass(frozen=True)
class UriSource:
    """One file at an HTTP or S3 address."""

    uri: str


@dataclass(frozen=True)
class S3Place:
    """A bucket, and a key or the prefix of several keys in it."""

    bucket: str
    key: str

    @classmethod
    def of(cls, uri: str) -> "S3Place":
        """Split s3://BUCKET/KEY."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return cls(bucket, key)


@dataclass(frozen=True)
class BuiltModel:
    """A model whose archive a build makes; `size_bytes` is the resulting GGUF's, if the settings say it.

    `sha256` is the source file's, known unless `quantize` makes the file; `file` names the result, before it
    is cut into shards of at most `shard_bytes`.
    """

    source: HubSource | UriSource
    file: str
    sha256: str | None
    quantize: Quantization | None
    shard_bytes: int | None
    license: str | None
    token_secret: str | None
    size_bytes: int | None

    @property
    def recipe(self) -> str:
        """What `semif package-model --recipe` reads: JSON with sorted keys and no spaces."""
        source = (
            {"uri": self.source.uri}
            if isinstance(self.source, UriSource)
            else {"repository": self.source.repository, "revision": self.source.revision}
        )
        recipe = {
            "source": source,
            "file": self.file,
            "sha256": self.sha256,
            "quantize": self.quantize,
            "shard_bytes": self.shard_bytes,
            "license": self.license,
        }
        return json.dumps(recipe, sort_keys=True, separators=(",", ":"))

    @property
    def unchanged(self) -> bool:
        """Whether the archive holds the source's file as it is, so that its checksum is known at synth."""
        return self.quantize is None and self.shard_bytes is None

    @property
    def content_hash(self) -> str:
        """64 hexadecimal digits that name the archive: an unchanged file's own, else the recipe's."""
        if self.sha256 is not None and self.unchanged:
            return self.sha256
        return hashlib.sha256(self.recipe.encode()).hexdigest()

    @property
    def prefix(self) -> str:
        """Where the archive lies in the bucket of the artifacts; ends with a slash."""
        return f"{MODELS_PREFIX}{self.content_hash}/"

    @property
    def revision(self) -> str:
        """The part of the source that moves, for a diff: the commit, or the address."""
        return self.source.uri if isinstance(self.source, UriSource) else self.source.revision


@dataclass(frozen=True)
class ReadyModel:
    """An archive that somebody else brings; `file` is the (first) GGUF in it, `size_bytes` all of them."""

    s3_uri: str
    file: str
    sha256: str
    size_bytes: int | None

    @property
    def place(self) -> S3Place:
        """The bucket, and the prefix or the archive's key."""
        return S3Place.of(self.s3_uri)

    @property
    def packed(self) -> bool:
        """Whether SageMaker has to unpack it."""
        return self.s3_uri.endswith(PACKED_NAME)


ModelSettings = BuiltModel | ReadyModel


def read_model(parent: MappingReader, region: str) -> ModelSettings:
    """Read `model` of an endpoint in `region`. Raises SettingsError with the key's path."""
    model = parent.mapping("model", tuple(dict.fromkeys(_READY_KEYS + _BUILT_KEYS)))
    if model.has("s3_uri"):
        model = parent.mapping("model", _READY_KEYS)
        uri = model.text("s3_uri", *_READY_URI)
        other_region = bucket_region(S3Place.of(uri).bucket)
        if other_region not in {None, region}:
            raise SettingsError(
                model.at("s3_uri"),
                f"is a bucket of {other_region} by its name; SageMaker takes model data of its own region"
                f" only: {region}",
            )
        return ReadyModel(
            s3_uri=uri,
            file=model.text("file", *_FILE),
            sha256=model.text("sha256", *_SHA256),
            size_bytes=model.optional_whole("bytes", 1, MAX_BYTES),
        )
    if not model.has("source"):
        raise SettingsError(
            model.at("source"),
            'is missing: {"repository": …, "revision": …} or {"uri": …};'
            " or set s3_uri for an archive of yours",
        )
    model = parent.mapping("model", _BUILT_KEYS)
    source = _source(model)
    quantize = model.choice("quantize", QUANTIZATIONS)
    sha256 = model.optional_text("sha256", *_SHA256)
    if quantize is not None and sha256 is not None:
        raise SettingsError(
            model.at("sha256"), "is not known before the build that quantizes the model: leave it out"
        )
    if quantize is not None and isinstance(source, UriSource):
        raise SettingsError(
            model.at("quantize"), "needs a checkpoint: source.repository and source.revision instead of a uri"
        )
    if quantize is None and sha256 is None:
        raise SettingsError(model.at("sha256"), "is missing: the checksum of the source's file")
    return BuiltModel(
        source=source,
        file=model.text("file", *_FILE),
        sha256=sha256,
        quantize=quantize,
        shard_bytes=model.optional_whole("shard_bytes", 65_536, MAX_BYTES),
        license=model.optional_text(
            "license", r"[A-Za-z0-9][A-Za-z0-9.+ -]{0,63}", "a licence such as apache-2.0"
        ),
        token_secret=model.optional_text(
            "token_secret",
            r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[\w/+=.@-]{1,512}|[\w/+=.@-]{1,512}",
            "a secret's name or ARN in Secrets Manager",
        ),
        size_bytes=model.optional_whole("bytes", 1, MAX_BYTES),
    )


def bucket_region(bucket: str) -> str | None:
    """The region of a bucket that AWS's own tools name after it, or None where a name says nothing."""
    named = _REGION_IN_BUCKET.fullmatch(bucket)
    return (named["region"] or named["last"]) if named else None


def _source(model: MappingReader) -> HubSource | UriSource:
    source = model.mapping("source", ("repository", "revision", "uri"))
    if source.has("uri"):
        uri = model.mapping("source", ("uri",)).text("uri", *_SOURCE_URI)
        return UriSource(uri)
    return HubSource(
        repository=source.text(
            "repository", r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", "OWNER/NAME on the Hub"
        ),
        revision=source.text(
            "revision", r"[0-9a-f]{40}", "a commit of 40 lower-case hexadecimal digits: a branch may move"
        ),
    )
