"""`python3 -m image_build`: wire the edges, build, and say in one line what failed.

Exit code 0: the image is under its tag, and the last line is `image: REPOSITORY@sha256:…`; else 1.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from image_build import documents_api, ecr_api
from image_build.build import Edges, build_image
from image_build.docker_cli import DockerCli
from image_build.errors import BuildError, Stopped
from image_build.settings import Registry, Settings, parse_settings


def main(environ: Mapping[str, str]) -> int:
    """Build what the environment describes; return the exit code."""
    try:
        settings = parse_settings(environ, now=_now())
        build_image(settings, connect(settings))
    except BuildError as error:
        return failed(error)
    except Stopped as stopped:
        return failed(
            BuildError("stopped", f"the build was told to end ({stopped})", "run it again when it may go on")
        )
    except Exception as error:  # the last line names every failure
        traceback.print_exc()
        return failed(BuildError("bug", f"{type(error).__name__}: {error}", "report it with the lines above"))
    return 0


def connect(settings: Settings) -> Edges:
    """Connect to docker and AWS as the environment says."""
    client = ecr_api.connect(settings.registry.region)

    def password(registry: Registry) -> str:
        own = registry.region == settings.registry.region
        return ecr_api.password(client if own else ecr_api.connect(registry.region))

    return Edges(
        docker=DockerCli(say=say, sleep=time.sleep),
        ecr=ecr_api.EcrApi(client, settings.registry.account, settings.repository),
        documents=documents_api.DocumentsApi(
            documents_api.connect(settings.registry.region), settings.bucket, settings.image_tag
        ),
        password=password,
        now=_now,
        sleep=time.sleep,
        say=say,
        folder=Path.cwd(),
    )


def failed(error: BuildError) -> int:
    """Print the failure as the last line; return the exit code."""
    sys.stdout.flush()
    print(error.line(), file=sys.stderr, flush=True)
    return 1


def say(line: str) -> None:
    """Print a line at once: CodeBuild's log is read while the build runs."""
    print(line, flush=True)


def _now() -> datetime:
    return datetime.now(UTC)


def _stop(number: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal must not cut the cleaning up off.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)
    raise Stopped(signal.Signals(number).name)


if __name__ == "__main__":
    for handled in (signal.SIGTERM, signal.SIGINT):
        signal.signal(handled, _stop)
    sys.exit(main(os.environ))
