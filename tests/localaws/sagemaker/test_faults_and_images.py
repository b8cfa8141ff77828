"""Reading the fault table and pushed images."""

from __future__ import annotations

from typing import Any

import pytest

from localaws.clients import Clients
from localaws.registry.references import parse_ecr
from localaws.registry.registry import Registry
from localaws.sagemaker.faults import FaultMode, FaultTableError, parse_faults, render_faults
from localaws.sagemaker.images import Image, ImageRegistry, ImageSpecError, parse_image
from tests.localaws.sagemaker.conftest import Server

URI = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/semif/server:cpu-1"
SPEC: dict[str, Any] = {"uri": URI, "command": ["python"], "bind": {"port": "PORT"}}


def test_faults_round_trip() -> None:
    table = {
        "ml.g6e.xlarge": {"mode": "capacity", "seconds": 3.0, "available": 1},
        "ml.g6.xlarge": {"mode": "quota", "first": 2},
    }
    assert render_faults(parse_faults(table)) == table


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("capacity", "ml.x: must be an object"),
        ({"mode": "capactiy"}, "ml.x.mode: 'capactiy' is none of: capacity, capacity-error, quota, "),
        ({}, "ml.x.mode: None is none of"),
        ({"mode": "slow", "secs": 3}, "ml.x.secs: unknown key; allowed: mode, seconds, first, available."),
        ({"mode": "slow", "seconds": -1}, "ml.x.seconds: -1 is not a number from 0 to 3600."),
        ({"mode": "slow", "seconds": True}, "ml.x.seconds: True is not a number"),
        ({"mode": "slow", "seconds": "3"}, "ml.x.seconds: '3' is not a number"),
        ({"mode": "quota", "first": -1}, "ml.x.first: -1 is not a whole number from 0 to 1000."),
        ({"mode": "slow", "available": 1}, "ml.x.available: goes with the modes capacity and"),
    ],
)
def test_wrong_faults_are_named(entry: Any, text: str) -> None:
    with pytest.raises(FaultTableError) as caught:
        parse_faults({"ml.x": entry})
    assert text in str(caught.value)


def test_a_wrong_mode_lists_every_allowed_one() -> None:
    with pytest.raises(FaultTableError) as caught:
        parse_faults({"ml.x": {"mode": "no"}})
    assert all(mode.value in str(caught.value) for mode in FaultMode)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"uri": "public.ecr.aws/x/y:1"}, "uri: 'public.ecr.aws/x/y:1' is not a private ECR URI"),
        ({"uri": None}, "uri: None"),
        ({"command": "python"}, "command: must be a list"),
        ({"command": []}, "command: must be a list"),
        ({"environment": {"A": 1}}, "environment.A: must be a string, not int"),
        ({"environment": ["A"]}, "environment: must be an object"),
        ({"bind": {"host": "H"}}, "bind.port: must name"),
        (
            {"bind": {"port": "P", "modeldir": "M"}},
            "bind.modeldir: unknown key; allowed: host, model_dir, port",
        ),
        ({"entrypoint": []}, "entrypoint: unknown key"),
    ],
)
def test_wrong_images_are_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ImageSpecError) as caught:
        parse_image(SPEC | change)
    assert text in str(caught.value)


def test_an_image_is_found_by_tag_and_by_digest_and_a_tag_moves(server: Server) -> None:
    images = ImageRegistry(Registry(Clients(server.url)))
    first, second = parse_image(SPEC), parse_image(SPEC | {"command": ["other"]})
    images.put(first)
    images.put(first)
    images.put(second)
    by_tag, by_digest = images.get(URI), images.get(first.resolved)
    assert isinstance(by_tag, Image)
    assert isinstance(by_digest, Image)
    assert (by_tag.command, by_tag.resolved) == (("other",), second.resolved)
    assert (by_digest.command, by_digest.resolved) == (first.command, first.resolved)
    assert first.resolved.startswith(URI.removesuffix(":cpu-1") + "@sha256:")
    assert images.get(URI + "x") is None


def test_a_digest_in_the_uri_is_kept() -> None:
    uri = f"{URI.removesuffix(':cpu-1')}@sha256:{'0' * 64}"
    assert parse_image(SPEC | {"uri": uri}).resolved == uri


@pytest.mark.parametrize(
    ("uri", "region"),
    [
        (URI, "eu-central-1"),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/llama-cpp@sha256:" + "a" * 64, "us-east-1"),
        ("public.ecr.aws/deep-learning-containers/llama-cpp:server", None),
        ("ubuntu", None),
        ("12345.dkr.ecr.us-east-1.amazonaws.com/x:1", None),
    ],
)
def test_regions_of_images(uri: str, region: str | None) -> None:
    reference = parse_ecr(uri)
    assert (reference.region if reference else None) == region
