"""Build a child image on the stand-in base, start it as SageMaker does, and ask it one decision.

    python -m tools.image [--dockerfile Dockerfile|Dockerfile.gpu] [--bindings NAME] [--without-python]

The stand-in carries the libllama of the pinned wheel, so the bindings that fit it are those of that release.
`--bindings requirements-bindings-cpu.txt` shows a mismatch: the build must fail in its self-test.
"""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stacks.example_decision import EXAMPLE_REQUEST
from tests.standins.images import stand_ins
from tests.standins.running import DOCKER_MANIFEST, Saved, running, save, unpack
from tests.standins.storage import NOT_PROVEN, ImageError, build_image, buildah, buildah_root, has_buildah
from tools.setup import MODELS, ROOT

CONTAINER: Final = ROOT / "container"
FITTING_BINDINGS: Final = "requirements-bindings-cuda.txt"
MAX_ADDED_BYTES: Final = 80_000_000
EXPECTED_OPTION: Final = "account_access"


def say(message: str) -> None:
    """Print one line at once, also into a pipe."""
    print(f"image: {message}", flush=True)


def build(dockerfile: str, bindings: str, *, without_python: bool) -> tuple[str, str]:
    """Build and give the image's tag and its base's reference. Raises ImageError with the build's output."""
    images = stand_ins()
    base = images.base_without_python if without_python else images.base
    tag = f"semif.invalid/{dockerfile.lower().replace('.', '-')}:{'bare' if without_python else 'base'}"
    say(f"building container/{dockerfile} on {base} with {bindings}")
    output = build_image(
        CONTAINER,
        dockerfile=CONTAINER / dockerfile,
        tag=tag,
        build_args={"BASE_IMAGE": base, "PYTHON_IMAGE": images.python, "BINDINGS": bindings},
    )
    for line in output.splitlines():
        if line.startswith(("probe: ", "selftest: ")):
            say(line)
    return tag, base


def weigh(saved: Saved, base: Saved) -> None:
    """Print what the image adds to its base. Raises ImageError if it is more than an image may add."""
    packed, unpacked = saved.added_bytes(base)
    say(f"adds {packed / 1e6:.1f} MB compressed, {unpacked / 1e6:.1f} MB unpacked")
    if saved.manifest["mediaType"] != DOCKER_MANIFEST:
        raise ImageError(f"the manifest is {saved.manifest['mediaType']}, which SageMaker refuses")
    if packed > MAX_ADDED_BYTES:
        raise ImageError(f"the added layers weigh {packed:,} bytes; at most {MAX_ADDED_BYTES:,} are allowed")
    digest = hashlib.sha256((saved.folder / "manifest.json").read_bytes()).hexdigest()
    say(f"digest sha256:{digest}")


def decide(saved: Saved, root: Path, model: Path) -> None:
    """Start the image with a read-only root and check its answer. Raises ImageError."""
    unpack(saved, root)
    # What SageMaker adds to a container's variables.
    environment = {"AWS_REGION": "us-east-1", "SAGEMAKER_SAFE_PORT_RANGE": "8081-8999"}
    with running(saved, root, model=model, environment=environment) as server:
        server.wait_for_ping()
        say("started read-only with `serve`; /ping answers 200")
        status, answer = server.request("/invocations", EXAMPLE_REQUEST)
        if status != 200:
            raise ImageError(f"the example got {status}: {answer}")
        result = answer["result"]
        probability, option = max(zip(result["probabilities"], result["option_ids"], strict=True))
        if option != EXPECTED_OPTION:
            raise ImageError(f"the example's answer is {option}, not {EXPECTED_OPTION}: {answer}")
        say(f"decision {result['id']}: {option}, probability {probability:.2f}")


def reason(output: str) -> str:
    """The line of a failed build that says why, or the end of its output where none does."""
    lines = [line for line in output.splitlines() if line.startswith("error: ")]
    return lines[-1] if lines else f"error: {output[-4000:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(description="Build a child image on the stand-in base and try it.")
    parser.add_argument("--dockerfile", default="Dockerfile", choices=("Dockerfile", "Dockerfile.gpu"))
    parser.add_argument("--bindings", default=FITTING_BINDINGS)
    parser.add_argument("--without-python", action="store_true")
    chosen = parser.parse_args(arguments)
    if not has_buildah():
        say(NOT_PROVEN)
        return 1
    try:
        tag, base = build(chosen.dockerfile, chosen.bindings, without_python=chosen.without_python)
        with tempfile.TemporaryDirectory(dir=buildah_root(), ignore_cleanup_errors=True) as folder:
            place = Path(folder)
            saved = save(tag, place / "image", compress=True)
            weigh(saved, save(base, place / "base", compress=True))
            decide(saved, place / "root", MODELS)
        buildah("rmi", tag)
    except ImageError as error:
        print(f"image: {reason(str(error))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
