"""`python3 -m image_build.install`: bring boto3 where it lacks, at the pinned versions with hashes.

Imports the standard library alone. pip reads PIP_INDEX_URL by itself.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from image_build.errors import BuildError

REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")


def pip_command(python: str) -> Sequence[str]:
    """Return the command that installs the pins."""
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:")
    return (python, "-m", "pip", "install", *options, "--requirement", str(REQUIREMENTS))


def main() -> int:
    """Install if boto3 is not importable; return the exit code."""
    if importlib.util.find_spec("boto3"):
        print("boto3 is there")
        return 0
    code = subprocess.run(pip_command(sys.executable), check=False).returncode
    if code:
        error = BuildError(
            "pip_failed",
            f"pip ended with exit code {code}",
            "see that the build reaches a package index: PIP_INDEX_URL names a mirror",
        )
        print(error.line(), file=sys.stderr)
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
