"""AWS's containers: which account holds them in a region, and the llama.cpp digests this project is built on.

A tag such as `server-sagemaker-cpu-v1` moves; a digest does not. `semif dlc latest` reads TAGS and DIGESTS
from this file's text and prints what the tags mean now, so that a pin moves by a commit.
"""

from collections.abc import Mapping
from typing import Final, Literal

from stacks.mapping_reader import SettingsError

Flavour = Literal["cpu", "cuda"]

REPOSITORY: Final = "llama-cpp"
PUBLIC_REPOSITORY: Final = "public.ecr.aws/deep-learning-containers/llama-cpp"
"""The same images for `docker build` without an account. SageMaker itself refuses them."""
TAGS: Final[Mapping[str, str]] = {
    "cpu": "server-sagemaker-cpu-v1",
    "cuda": "server-sagemaker-cuda-v1",
}
DIGESTS: Final[Mapping[str, str]] = {
    "cpu": "sha256:1f19c220f5d169228f20cdddca00f4838be22a3a1ce9002bc444006adc3d6d43",
    "cuda": "sha256:9f2eb2d9cbdc3172c2046117c4a43401bc95dbabdc3e2aeaa35daa11565c8b36",
}
"""CPU: llama.cpp b10433 (2026-08). CUDA: v0.4.1 = b10964 (2026-09)."""

OtherEngine = Literal["vllm", "strands-decider"]
OTHER_TAGS: Final[Mapping[OtherEngine, str]] = {
    "vllm": "server-sagemaker-cuda-v1",
    "strands-decider": "serve-sagemaker-cuda-v1",
}
"""Containers of other engines, each in a repository of the engine's name; no digest of them is pinned."""

_MAIN_ACCOUNT: Final = "763104351884"
_CHINA_ACCOUNT: Final = "727897471807"
ACCOUNTS: Final[Mapping[str, str]] = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-1": _MAIN_ACCOUNT,
    "ap-northeast-2": _MAIN_ACCOUNT,
    "ap-northeast-3": "364406365360",
    "ap-south-1": _MAIN_ACCOUNT,
    "ap-south-2": "772153158452",
    "ap-southeast-1": _MAIN_ACCOUNT,
    "ap-southeast-2": _MAIN_ACCOUNT,
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-central-1": _MAIN_ACCOUNT,
    "ca-west-1": "204538143572",
    "cn-north-1": _CHINA_ACCOUNT,
    "cn-northwest-1": _CHINA_ACCOUNT,
    "eu-central-1": _MAIN_ACCOUNT,
    "eu-central-2": "380420809688",
    "eu-north-1": _MAIN_ACCOUNT,
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "eu-west-1": _MAIN_ACCOUNT,
    "eu-west-2": _MAIN_ACCOUNT,
    "eu-west-3": _MAIN_ACCOUNT,
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
    "sa-east-1": _MAIN_ACCOUNT,
    "us-east-1": _MAIN_ACCOUNT,
    "us-east-2": _MAIN_ACCOUNT,
    "us-west-1": _MAIN_ACCOUNT,
    "us-west-2": _MAIN_ACCOUNT,
}


def base_image_uri(region: str, flavour: Flavour, *, region_path: str, override_path: str) -> str:
    """Pinned private URI of the container in its own region, the only kind that SageMaker takes.

    Raises SettingsError at `region_path` where AWS publishes none; `override_path` is the setting that helps.
    """
    account = ACCOUNTS.get(region)
    if account is None:
        raise SettingsError(
            region_path,
            f"AWS's llama.cpp container is not known to be in {region}, only in {', '.join(ACCOUNTS)};"
            f" set {override_path} to a copy in a registry of yours, or the endpoint's image.uri",
        )
    return f"{account}.dkr.ecr.{region}.{url_suffix(region)}/{REPOSITORY}@{DIGESTS[flavour]}"


def other_image_hint(region: str, engine: OtherEngine) -> str:
    """What an `image.uri` of another engine's container looks like in a region, and where its digest is."""
    account = ACCOUNTS.get(region, "ACCOUNT")
    return (
        f"{account}.dkr.ecr.{region}.{url_suffix(region)}/{engine}@sha256:DIGEST;"
        f" semif dlc latest --tag {engine}:{OTHER_TAGS[engine]} prints the digest"
    )


def url_suffix(region: str) -> str:
    """What host names of a region's partition end in; a literal, for what must be known at synth."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def partition(region: str) -> str:
    """The partition of a region, which ARNs there begin with."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
