"""What no linter checks: sizes, pins and texts that must not be in the repository."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 350
MAX_LINES_OF_TESTS = 500
REGISTRIES = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org")


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_names(requirements: str) -> set[str]:
    text = (ROOT / requirements).read_text()
    return {normalized(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}


def test_every_module_fits_in_one_reading() -> None:
    modules = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in modules}
    limits = {path: MAX_LINES_OF_TESTS if path.parts[0] == "tests" else MAX_LINES for path in modules}

    assert {str(path): lines for path, lines in lengths.items() if lines > limits[path]} == {}


def test_no_file_names_a_package_registry() -> None:
    texts = [p for p in tracked() if p.suffix not in {".gguf", ".png"} and p.name != Path(__file__).name]

    found = {str(p): host for p in texts for host in REGISTRIES if host in p.read_text(errors="replace")}

    assert found == {}


@pytest.mark.parametrize(
    ("group", "requirements"),
    [
        ("bench", "requirements-bench.txt"),
        ("cdk", "requirements-cdk.txt"),
        ("convert", "semif/codebuild/requirements-convert.txt"),
        ("dev", "requirements.txt"),
        ("image-build", "container/image_build/requirements.txt"),
        ("local", "requirements.txt"),
        ("models", "requirements-models.txt"),
        ("server", "requirements-server.txt"),
        ("quantize", "semif/codebuild/requirements-quantize.txt"),
        ("tools", "requirements-tools.txt"),
        ("tools", "semif/codebuild/requirements.txt"),
    ],
)
def test_every_dependency_is_pinned_with_hashes(group: str, requirements: str) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = {
        normalized(re.split(r"[\[<>=!~; ]", entry, maxsplit=1)[0])
        for entry in groups[group]
        if isinstance(entry, str)
    }

    assert wanted <= pinned_names(requirements)
    blocks = re.split(r"^(?=[A-Za-z0-9])", (ROOT / requirements).read_text(), flags=re.MULTILINE)
    assert [
        b.splitlines()[0] for b in blocks if "==" in b.split("\n", 1)[0] and "--hash=sha256:" not in b
    ] == []


def test_the_parts_pin_the_same_versions() -> None:
    everything = (ROOT / "requirements.txt").read_text()
    own = "container/image_build/requirements.txt"
    for part in ("requirements-cdk.txt", "requirements-tools.txt", "requirements-server.txt", own):
        lines = re.findall(r"^[A-Za-z0-9._-]+==[^\\]+", (ROOT / part).read_text(), re.MULTILINE)
        missing = [
            line for line in lines if line not in everything and not line.startswith("llama-cpp-python")
        ]
        assert missing == [], part
