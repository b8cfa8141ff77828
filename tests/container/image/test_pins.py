"""What the two Dockerfiles pin, and that they differ in nothing else."""

import re
import tomllib

import pytest

from stacks import build_settings, dlc
from stacks.dlc import Flavour
from tests.container.image.conftest import CONTAINER
from tools.setup import ROOT

FILES = ("Dockerfile", "Dockerfile.gpu")


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ \\]+)", (CONTAINER / name).read_text(), re.MULTILINE))


def test_the_dockerfiles_differ_in_arg_lines_only() -> None:
    lines = [(CONTAINER / name).read_text().splitlines() for name in FILES]

    different = [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]]
    assert different
    assert {line.split("=", 1)[0] for pair in different for line in pair} == {
        "ARG BASE_IMAGE",
        "ARG BINDINGS",
    }


@pytest.mark.parametrize("name", FILES)
def test_every_image_is_pinned_by_digest_and_the_entry_point_is_in_exec_form(name: str) -> None:
    text = (CONTAINER / name).read_text()
    arguments = dict(re.findall(r"^ARG (\w+_IMAGE)=(.+)$", text, re.MULTILINE))

    for reference in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", arguments[reference.strip("${}")])
    assert re.search(r'^ENTRYPOINT \["/opt/semif/bin/python", .+"semif_server"\]$', text, re.MULTILINE)


@pytest.mark.parametrize(("name", "flavour"), [("Dockerfile", "cpu"), ("Dockerfile.gpu", "cuda")])
def test_a_build_by_hand_starts_from_what_a_deployment_starts_from(name: str, flavour: Flavour) -> None:
    arguments = dict(re.findall(r"^ARG (\w+)=(.+)$", (CONTAINER / name).read_text(), re.MULTILINE))

    assert arguments["BASE_IMAGE"] == f"{dlc.PUBLIC_REPOSITORY}@{dlc.DIGESTS[flavour]}"
    assert arguments["PYTHON_IMAGE"] == build_settings.PYTHON_IMAGE
    assert arguments["BINDINGS"] == build_settings.BINDINGS[flavour]


def test_each_flavour_has_the_bindings_of_its_base() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]

    for flavour in ("cpu", "cuda"):
        found = pins(f"requirements-bindings-{flavour}.txt")
        assert [f"{name}=={version}" for name, version in found.items()] == groups[f"bindings-{flavour}"]


def test_the_image_runs_the_versions_that_are_tested_here() -> None:
    tested = dict(
        re.findall(
            r"^([A-Za-z0-9._-]+)==([^ \\]+)(?: \\| ; python_full_version < '3.12' \\)$",
            (ROOT / "requirements-server.txt").read_text(),
            re.MULTILINE,
        )
    )

    in_image = pins("requirements-server.txt")
    assert in_image == {name: version for name, version in tested.items() if name in in_image}
    assert set(tested) - set(in_image) == {"llama-cpp-python", "diskcache"}


@pytest.mark.parametrize("name", sorted(path.name for path in CONTAINER.glob("requirements-*.txt")))
def test_every_pin_has_hashes(name: str) -> None:
    blocks = re.split(r"^(?=[A-Za-z0-9])", (CONTAINER / name).read_text(), flags=re.MULTILINE)

    pinned = [block for block in blocks if "==" in block.split("\n", 1)[0]]
    assert pinned
    assert [block.split()[0] for block in pinned if "--hash=sha256:" not in block] == []
