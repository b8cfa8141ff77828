"""The CDK CLI of a checkout: where it is, its versions, and its runs as child processes."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from semif.doctor_facts import Versions
from semif.errors import SemifError, UsageError

MARKER: Final = "cdk.json"
PACKAGE: Final = Path("node_modules") / "aws-cdk" / "package.json"
DEFAULT_NODE: Final = 18


class CdkError(SemifError):
    """The CDK CLI ended with an error; what it said is on the terminal."""


@dataclass(frozen=True)
class Cdk:
    """The CLI of the project in `root`; `environment` is the child processes' whole environment."""

    root: Path
    environment: Mapping[str, str]

    def versions(self) -> Versions:
        """What is installed, and what the project asks for."""
        installed, project = _json(self.root / PACKAGE), _json(self.root / "package.json")
        at_least = re.search(r"\d+", installed.get("engines", {}).get("node", ""))
        node = ""
        with contextlib.suppress(OSError):
            node = subprocess.run(
                ["node", "--version"], capture_output=True, text=True, env=dict(self.environment), check=False
            ).stdout.strip()
        return Versions(
            cdk=installed.get("version", ""),
            cdk_wanted=project.get("devDependencies", {}).get("aws-cdk", ""),
            node=node,
            node_at_least=int(at_least[0]) if at_least else DEFAULT_NODE,
        )

    def synthesize(self, env: str, output: Path) -> None:
        """Synthesize the app into a folder; its messages go to the terminal. Raises CdkError."""
        # Without a selection the CLI shows no annotation of a stage's stacks: what they cost, for one.
        self.run("synth", f"{env}/*", "--quiet", "--output", str(output))

    def run(self, *arguments: str) -> None:
        """Run a command on the terminal, and wait for it. Raises CdkError unless it ends well."""
        code = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            # The CLI writes its diff to standard error.
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
        if code != 0:
            raise CdkError(
                "cdk_failed",
                f"cdk {arguments[0]} ended with exit code {code}",
                next_step="see its messages above",
            )

    def start(self, arguments: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
        """Start a command whose output goes to a file, in a session of its own: Ctrl-C does not reach it."""
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.root,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def command(self, *arguments: str) -> list[str]:
        """The command line: the project's own CLI."""
        return [str(self.root / "node_modules" / ".bin" / "cdk"), *arguments]


def find_cdk(*, profile: str | None, region: str | None) -> Cdk:
    """The project that the working directory belongs to, else this package's checkout. Raises UsageError.

    `profile` and `region` (None: as the environment has them) are the children's too.
    """
    here = Path.cwd()
    candidates = [here, *here.parents, Path(__file__).resolve().parents[1]]
    root = next((folder for folder in candidates if (folder / MARKER).is_file()), None)
    if root is None:
        raise UsageError(
            "no_project", f"no {MARKER} in {here} or above it", next_step="run this in the project's folder"
        )
    environment = dict(os.environ)
    # The app runs on this Python, and node may lie beside it.
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
    )
    environment |= {"CDK_DISABLE_VERSION_CHECK": "true"}
    if profile is not None:
        environment["AWS_PROFILE"] = profile
    if region is not None:
        environment["AWS_REGION"] = region
    return Cdk(root, environment)


def check_installed(cdk: Cdk) -> None:
    """Raise UsageError where the project has no CLI yet, or no node."""
    if not Path(cdk.command()[0]).exists() or shutil.which("node", path=cdk.environment["PATH"]) is None:
        raise UsageError(
            "no_cdk", f"{cdk.root} has no CDK CLI, or there is no node", next_step="install both: make setup"
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
