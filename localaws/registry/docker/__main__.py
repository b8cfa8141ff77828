"""`docker`, by the local AWS's variables of this program; see docs/local-aws.md for what it answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from localaws.registry.buildah import Storage
from localaws.registry.docker import arguments
from localaws.registry.docker.arguments import Flags, Parsed, UsageError, parse
from localaws.registry.docker.buildah_engine import BuildahEngine
from localaws.registry.docker.fallback_engine import FallbackEngine
from localaws.registry.docker.local_aws import DockerError, LocalRegistry

_COMMANDS: Mapping[str, tuple[Flags, tuple[int, int]]] = {
    "build": (arguments.BUILD, (1, 1)),
    "buildx build": (arguments.BUILD, (1, 1)),
    "image inspect": (arguments.INSPECT, (1, 1)),
    "login": (arguments.LOGIN, (1, 1)),
    "pull": (arguments.PULL, (1, 1)),
    "push": (arguments.PUSH, (1, 1)),
    "rmi": (arguments.RMI, (1, 100)),
    "run": (arguments.RUN, (1, 1000)),
    "tag": (arguments.TAG, (2, 2)),
}
"""Flags, and the least and most arguments, of what is answered."""


def main(words: Sequence[str]) -> int:
    """Run one command; return docker's exit code."""
    registry = LocalRegistry(os.environ["LOCALAWS_URL"])
    storage = Storage(Path(os.environ["LOCALAWS_STORAGE"]), Path(os.environ["LOCALAWS_SHARED"]))
    by_buildah = os.environ["LOCALAWS_BUILDER"] == "buildah"
    engine = BuildahEngine(storage, registry) if by_buildah else FallbackEngine(storage.folder, registry)
    try:
        command, rest = _command(words)
        flags, positional = _COMMANDS[command]
        parsed = parse(command, flags, rest, positional=positional)
        if command == "run":
            return engine.run(parsed)
        _do(command, parsed, engine, registry)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 125
    except DockerError as error:
        sys.stdout.flush()
        print(f"Error response from daemon: {error}", file=sys.stderr)
        return 1
    return 0


def _command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in _COMMANDS:
            return name, words[length:]
    raise UsageError(f"docker {' '.join(words[:2])}: the local AWS answers {', '.join(_COMMANDS)}")


def _do(
    command: str, parsed: Parsed, engine: BuildahEngine | FallbackEngine, registry: LocalRegistry
) -> None:
    match command:
        case "build" | "buildx build":
            engine.build(parsed)
        case "image inspect":
            print(json.dumps(engine.inspect(*parsed.positional)))
        case "login":
            _log_in(registry, parsed)
        case "pull":
            engine.pull(*parsed.positional)
        case "push":
            engine.push(*parsed.positional)
        case "tag":
            engine.tag(*parsed.positional)
        case "rmi":
            for reference in parsed.positional:
                engine.remove(reference)


def _log_in(registry: LocalRegistry, parsed: Parsed) -> None:
    if "--password-stdin" not in parsed.switches or "user" not in parsed.values:
        raise UsageError("docker login: the local AWS takes --username and --password-stdin only")
    (host,) = parsed.positional
    registry.log_in(host, parsed.values["user"], sys.stdin.read().strip())
    print("Login Succeeded")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
