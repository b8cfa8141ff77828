"""The server as a process, for tests: one that runs, and one that is expected to refuse its start."""

import subprocess
import sys

from tools.server_process import START_S, ServerProcess, environment


def run_to_exit(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Start a server that is expected to refuse, and wait for it."""
    return subprocess.run(
        [sys.executable, "-m", "semif_server", *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


__all__ = ["START_S", "ServerProcess", "environment", "run_to_exit"]
