"""The set-up's pure parts; the whole of it runs before any test does."""

from pathlib import Path

import pytest

from tools import setup

REQUIREMENTS = """\
uv==0.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via something
uvicorn==2.0 \\
    --hash=sha256:cc
"""


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text(REQUIREMENTS)
    return path


def test_a_pin_is_taken_with_its_hashes_and_without_its_comments(requirements: Path) -> None:
    assert setup.pinned(requirements, "uv") == (
        "uv==0.1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    )


def test_a_missing_pin_says_how_to_write_it(requirements: Path) -> None:
    with pytest.raises(setup.SetupError, match="does not pin numpy exactly once: run `make lock`"):
        setup.pinned(requirements, "numpy")


def test_the_wheels_key_follows_version_source_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    pin = "llama-cpp-python==1 \\\n    --hash=sha256:aa\n"
    key = setup.wheel_key(pin)

    assert setup.wheel_key(pin) == key
    assert setup.wheel_key(pin.replace("==1", "==2")) != key
    assert setup.wheel_key(pin.replace("aa", "ab")) != key
    monkeypatch.setattr(setup, "wheel_flags", lambda: ("-DGGML_CUDA=ON",))
    assert setup.wheel_key(pin) != key


@pytest.mark.parametrize(("machine", "portable"), [("x86_64", True), ("AMD64", True), ("aarch64", False)])
def test_a_wheel_for_x86_is_not_bound_to_this_cpu(
    monkeypatch: pytest.MonkeyPatch, machine: str, portable: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)

    assert ("-DGGML_NATIVE=OFF" in setup.wheel_flags()) is portable
    assert ("-DGGML_AVX2=ON" in setup.wheel_flags()) is portable


def test_a_model_with_another_checksum_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "MODELS", tmp_path / "models")
    monkeypatch.setattr(setup, "CACHE", tmp_path / "cache")
    cached = tmp_path / "cache" / "models" / setup.MODEL_SHA256 / setup.MODEL_FILE
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"damaged")
    fetched: list[Path] = []
    monkeypatch.setattr(setup, "download_model", fetched.append)

    setup.fetch_model()

    assert fetched == [cached]


def test_a_failing_command_shows_its_output_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(setup.SetupError, match="exit code 3"):
        setup.run("sh", "-c", "echo what went wrong; exit 3")

    assert "what went wrong" in capsys.readouterr().err
