"""`python3 -m image_build.check`: look at settings, docker and ECR before anything is built.

Ends with exit code 1 and one line for what would fail the build anyway.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from image_build import ecr_api
from image_build.__main__ import failed, say
from image_build.errors import BuildError, DockerError, SettingsError
from image_build.settings import Settings, parse_settings


def check(environ: Mapping[str, str], folder: Path) -> Settings:
    """Read the settings and look at what they name. Raises `BuildError` for the first that is not usable."""
    settings = parse_settings(environ, now=datetime.now(UTC))
    if not (folder / settings.dockerfile).is_file():
        raise SettingsError(
            "SEMIF_DOCKERFILE", f"{settings.dockerfile} is not in {folder}", "run the build in container/"
        )
    if shutil.which("docker", path=environ.get("PATH")) is None:
        raise DockerError(
            "docker_missing",
            "there is no docker on PATH",
            "run the build in an environment with docker, privileged in CodeBuild",
        )
    client = ecr_api.connect(settings.registry.region)
    ecr = ecr_api.EcrApi(client, settings.registry.account, settings.repository)
    digest = ecr.digest_of(settings.image_tag)
    say(f"{settings.repository_uri}:{settings.image_tag}: {digest or 'to be built'}")
    return settings


if __name__ == "__main__":
    try:
        check(os.environ, Path.cwd())
    except BuildError as error:
        sys.exit(failed(error))
