"""Docker, through its command line only: a small set of commands that other builders can answer too.

login, image inspect, pull, build, run, push; each in exactly one form.
"""

import json
import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from image_build.errors import DockerError
from image_build.manifest import PLATFORM

LAST_LINES: Final = 20
_ATTEMPTS: Final = 3
_PAUSE_S: Final = 3.0
_STOP_TIMEOUT_S: Final = 10.0
_NAMED_ERROR: Final = re.compile(r"\berror: (?P<text>\w+: .*)")
"""An error of ours inside a build, in the same form as our last line."""


class DockerCli:
    """Docker commands. `say` prints a line, `sleep` waits between attempts of what the network can break."""

    def __init__(self, *, say: Callable[[str], None], sleep: Callable[[float], None]) -> None:
        self._say = say
        self._sleep = sleep

    def login(self, host: str, password: str) -> None:
        """Let docker read and write the ECR registry at `host`."""
        arguments = ("login", "--username", "AWS", "--password-stdin", host)
        if failed := self._attempts(lambda: self._quiet(*arguments, stdin=password)):
            raise DockerError(
                "login_failed",
                f"docker login {host} ended with {_ending(*failed)}",
                "see that the build reaches the registry",
            )

    def inspect(self, reference: str) -> Mapping[str, Any] | None:
        """Describe an image of the daemon's store; None if it is not there."""
        code, out = self._quiet("image", "inspect", "--format", "{{json .}}", reference)
        if code:
            return None
        found: Mapping[str, Any] = json.loads(out)
        return found

    def pull(self, reference: str) -> None:
        """Bring an image into the daemon's store."""
        if failed := self._attempts(lambda: self._stream("pull", "--platform", PLATFORM, reference)):
            raise DockerError(
                "base_not_pulled",
                f"docker pull {reference} ended with {_ending(*failed)}",
                "see that the digest exists, and that the build's role and network reach its registry",
            )

    def build(self, dockerfile: str, reference: str, build_args: Mapping[str, str]) -> None:
        """Build the working folder as a single-platform image without attestations; shows the output."""
        arguments = ["--platform", PLATFORM, "--provenance=false", "--sbom=false", "--output", "type=docker"]
        arguments += ["-f", dockerfile, "-t", reference]
        for name, value in build_args.items():
            arguments += ["--build-arg", f"{name}={value}"]
        code, lines = self._stream("build", *arguments, ".")
        if code:
            shown = "\n".join(f"  {line}" for line in lines)
            self._say(f"docker build failed; its last lines:\n{shown}")
            raise DockerError(
                "build_failed",
                f"docker build ended with {_ending(code, lines)}",
                "see the lines above",
            )

    def read_file(self, reference: str, path: str) -> bytes:
        """Read a file of an image, with a read-only root as on SageMaker."""
        code, out, err = self._run("run", "--rm", "--read-only", "--entrypoint", "cat", reference, path)
        if code:
            raise DockerError(
                "file_not_read",
                f"reading {path} out of the image ended with {_ending(code, err.decode().splitlines())}",
                "see the Dockerfile's step that writes it",
            )
        return out

    def push(self, reference: str, *, is_there: Callable[[], bool]) -> None:
        """Push a tag. An attempt can fail after its tag was given, and an immutable one is given once."""

        def push_once() -> tuple[int, Sequence[str]]:
            code, lines = self._stream("push", reference)
            return (0, lines) if code and is_there() else (code, lines)

        if failed := self._attempts(push_once):
            raise DockerError(
                "push_failed",
                f"docker push {reference} ended with {_ending(*failed)}",
                "run the build again; see the build role's permissions on the repository if it fails alike",
            )

    def _attempts(self, action: Callable[[], tuple[int, Any]]) -> tuple[int, Any] | None:
        """Try a few times; None once it works, else the last failure."""
        for attempt in range(1, _ATTEMPTS + 1):
            code, output = action()
            if not code:
                return None
            if attempt < _ATTEMPTS:
                self._say(f"attempt {attempt} of {_ATTEMPTS} failed; trying again")
                self._sleep(_PAUSE_S * attempt)
        return code, output

    def _quiet(self, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Return the exit code, and standard output or, after a failure, standard error."""
        code, out, err = self._run(*arguments, stdin=stdin)
        return code, (err if code else out).decode(errors="replace")

    def _run(self, *arguments: str, stdin: str = "") -> tuple[int, bytes, bytes]:
        with _started(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin.encode())
            except BaseException:
                _end(process)
                raise
        return process.returncode, out, err

    def _stream(self, *arguments: str) -> tuple[int, Sequence[str]]:
        """Show the output as it comes; return the exit code and the last lines."""
        lines: deque[str] = deque(maxlen=LAST_LINES)
        with _started(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
            try:
                for raw in process.stdout or ():
                    line = raw.decode(errors="replace").rstrip()
                    self._say(line)
                    lines.append(line)
            except BaseException:
                _end(process)
                raise
        return process.returncode, tuple(lines)


def _started(arguments: Sequence[str], *, stdin: int, stderr: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(["docker", *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)
    except OSError as error:
        raise DockerError(
            "docker_missing",
            f"docker cannot be started: {error.strerror}",
            "run the build in an environment with docker, privileged in CodeBuild",
        ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _ending(code: int, output: str | Sequence[str]) -> str:
    """The exit code, and the line that says why: the last that reads as one of our errors, or the last."""
    lines = [line.strip() for line in (output.splitlines() if isinstance(output, str) else output)]
    named = [found["text"] for line in lines if (found := _NAMED_ERROR.search(line))]
    said = named[-1:] or [line for line in lines if line][-1:]
    return f"exit code {code}" + (f": {said[0]}" if said else "")
