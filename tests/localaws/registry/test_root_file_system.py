"""Layers unpacked over one another."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from localaws.registry.root_file_system import LayerError, entry_point, unpack, variables


def layer(folder: Path, name: str, entries: Sequence[tuple[str, str]]) -> Path:
    """Write a gzipped tar file of `(path, content)`; `→ x` is a link, `= x` a hard link, `/` a folder."""
    path = folder / name
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            member = tarfile.TarInfo(entry.rstrip("/"))
            if entry.endswith("/"):
                member.type, member.mode = tarfile.DIRTYPE, 0o555
            elif content.startswith(("→ ", "= ")):
                member.type = tarfile.SYMTYPE if content[0] == "→" else tarfile.LNKTYPE
                member.linkname = content[2:]
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()) if member.isreg() else None)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def files(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): path.read_text() for path in found}


def test_upper_layers_replace_hide_and_add(tmp_path: Path, root: Path) -> None:
    lower = layer(
        tmp_path,
        "lower",
        [("a/", ""), ("a/kept", "1"), ("a/gone", "1"), ("b/", ""), ("b/old", "1"), ("c", "file"), ("d", "1")],
    )
    upper = layer(
        tmp_path,
        "upper",
        [("a/.wh.gone", ""), ("b/.wh..wh..opq", ""), ("b/new", "2"), ("c/", ""), ("c/in", "2"), ("d", "2")],
    )
    unpack([lower, upper], root)
    assert files(root) == {"a/kept": "1", "b/new": "2", "c/in": "2", "d": "2"}


def test_links_stay_links_and_lead_inside_the_image_only(tmp_path: Path, root: Path) -> None:
    one = layer(
        tmp_path,
        "one",
        [("usr/lib/", ""), ("lib", "→ /usr/lib"), ("usr/lib/x", "1"), ("usr/lib/y", "= usr/lib/x")],
    )
    unpack([one, layer(tmp_path, "two", [("lib/z", "2")])], root)
    assert files(root) == {"usr/lib/x": "1", "usr/lib/y": "1", "usr/lib/z": "2"}
    assert (root / "lib").is_symlink()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/../out"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, root: Path, name: str) -> None:
    with pytest.raises(LayerError, match="leads out of the image"):
        unpack([layer(tmp_path, "one", [(name, "1")])], root)
    assert not (tmp_path / "out").exists()


def test_what_is_no_layer_is_refused(tmp_path: Path, root: Path) -> None:
    (tmp_path / "text").write_text("no tar file")
    with pytest.raises(LayerError, match="text: "):
        unpack([tmp_path / "text"], root)


def test_arguments_take_the_place_of_the_default_ones() -> None:
    config = {"config": {"Entrypoint": ["run"], "Cmd": ["--help"], "Env": ["A=b=c", "PATH=/x"]}}
    assert entry_point(config, ["serve"]) == ["run", "serve"]
    assert entry_point(config, []) == ["run", "--help"]
    assert variables(config) == {"A": "b=c", "PATH": "/x", "HOME": "/root"}
    assert entry_point({"config": {"Cmd": ["sh"]}}, ["serve"]) == ["serve"]
