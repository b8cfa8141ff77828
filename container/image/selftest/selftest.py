"""Last step of the image build: prove that the bindings fit the base's libllama, and that the server decides.

1. The structs that the library returns by value hold the documented defaults, field by field.
2. A tiny hybrid model gives known tokens exactly and known logits within TOLERANCE.
3. The image's own entry point serves that model and answers one decision as expected.

A difference, a crash or a library that can't be loaded ends the build with one line that names the bindings'
version and the library's. A step runs in a process of its own, so that a crash is seen too.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from semif_server.bindings import LIBRARY_FOLDER_VARIABLE, package_version

HERE: Final = Path(__file__).resolve().parent
TOLERANCE: Final = 0.02
STEP_S: Final = 120.0
DECISION: Final = {
    "decision": {
        "id": "support-route",
        "state": "The customer cannot receive a password reset email.",
        "question": "Which queue should handle this request?",
        "options": [
            {"id": "account_access", "description": "Account access support."},
            {"id": "billing", "description": "Billing support."},
        ],
    }
}


class MismatchError(Exception):
    """The bindings and the library don't fit, or the image doesn't serve. The message says what was seen."""


def library_facts(folder: Path) -> str:
    """The library as a message names it: release, commit, file and checksum."""
    file = (folder / "libllama.so").resolve()
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    try:
        library = ctypes.CDLL(str(folder / "libllama.so"))
        texts = []
        for name in ("ggml_version", "ggml_commit"):
            function = getattr(library, name)
            function.restype = ctypes.c_char_p
            texts.append((function() or b"?").decode())
    except (OSError, AttributeError) as error:
        return f"{file.name} (sha256 {sha256}; {error})"
    return f"{file.name} of ggml {texts[0]} (commit {texts[1]}, sha256 {sha256})"


def run_probe(name: str) -> dict[str, Any]:
    """What a probe found. Raises MismatchError if it crashed, hung or raised."""
    command = [sys.executable, str(HERE / "probes.py"), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_S, check=False)
    except subprocess.TimeoutExpired:
        raise MismatchError(f"the probe `{name}` did not end within {STEP_S:.0f} s") from None
    if done.returncode < 0:
        raise MismatchError(f"the probe `{name}` was ended by {signal.Signals(-done.returncode).name}")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["nothing"]
        raise MismatchError(f"the probe `{name}` ended with {done.returncode} and said: {said[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare_scores(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise MismatchError unless the tokens are equal and the logits lie within TOLERANCE."""
    if found["tokens"] != expected["tokens"]:
        raise MismatchError(f"the tiny model's tokens are {found['tokens']}, not {expected['tokens']}")
    for row, (seen, wanted) in enumerate(zip(found["logits"], expected["logits"], strict=True)):
        compare_logits(f"the tiny model's logits, decode {row + 1}", seen, wanted)


def compare_logits(what: str, seen: Sequence[float], wanted: Sequence[float]) -> None:
    """Raise MismatchError unless both rows are equally long and close; NaN is not close."""
    if len(seen) != len(wanted):
        raise MismatchError(f"{what}: {len(seen)} values, not {len(wanted)}")
    worst = max(range(len(seen)), key=lambda index: _distance(seen[index], wanted[index]))
    if _distance(seen[worst], wanted[worst]) > TOLERANCE:
        raise MismatchError(
            f"{what}: value {worst} is {seen[worst]}, not {wanted[worst]} (tolerance {TOLERANCE})"
        )


def _distance(left: float, right: float) -> float:
    difference = abs(left - right)
    return difference if difference == difference else float("inf")  # noqa: PLR0124  NaN


def decide_once() -> dict[str, Any]:
    """Start the server as the image does, ask one decision, stop it; the answer's result."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "SEMIF_GGUF_PATH": str(HERE / "tiny-hybrid.gguf"),
        "SEMIF_HOST": "127.0.0.1",
        "SEMIF_PORT": str(port),
        "SEMIF_MAX_TOKENS": "1024",
    }
    server = subprocess.Popen(
        [sys.executable, "-s", "-P", "-m", "semif_server", "serve"],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_for_ping(port, server)
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            data=json.dumps(DECISION).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=STEP_S) as response:  # noqa: S310
            result: dict[str, Any] = json.load(response)["result"]
            return result
    except (OSError, ValueError, KeyError) as error:
        server.kill()
        said = (server.communicate()[0] or "").strip().splitlines() or ["nothing"]
        raise MismatchError(f"the server gave no decision ({error}); its last line: {said[-1]}") from None
    finally:
        server.terminate()
        server.wait(30)


def _wait_for_ping(port: int, server: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + STEP_S
    while server.poll() is None and time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    code = server.poll()
    raise OSError("no answer from /ping" if code is None else f"it ended with {code}")


def check() -> str:
    """All three proofs; what was proven, in words. Raises MismatchError."""
    expected = json.loads((HERE / "expected.json").read_text())
    defaults = run_probe("defaults")
    if defaults["wrong"]:
        shown = "; ".join(defaults["wrong"][:5])
        more = len(defaults["wrong"]) - 5
        raise MismatchError(shown + (f"; and {more} more" if more > 0 else ""))
    compare_scores(run_probe("scores"), expected)
    result = decide_once()
    compare_logits("the decision's option_logits", result["option_logits"], expected["option_logits"])
    missing = ", ".join(defaults["missing"]) or "none"
    return (
        f"{defaults['checked']} defaults, tokens, logits and one decision as expected;"
        f" functions lacking: {missing}"
    )


def main() -> int:
    """The exit code: 0, or 1 with one line on stderr."""
    folder = Path(os.environ.get(LIBRARY_FOLDER_VARIABLE, "/opt/llama.cpp/bin"))
    pair = f"llama-cpp-python {package_version()} and {library_facts(folder)}"
    try:
        proven = check()
    except MismatchError as error:
        print(
            f"error: IMAGE_SELFTEST_FAILED: {pair} do not fit: {error}; give the build argument BINDINGS the"
            " requirements file of the bindings released with this llama.cpp, or set BASE_IMAGE back",
            file=sys.stderr,
        )
        return 1
    print(f"selftest: {pair} fit: {proven}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
