"""`make diff BASE=ref`: what this working copy would change in the templates of `ref`.

Both sides are synthesized here, without credentials and without Docker, and compared by `cdk diff` stack by
stack: what a pull request needs to show. Plain `cdk diff` compares with what is deployed instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class DiffError(Exception):
    """The comparison is not possible; the message says why and what to do."""


@contextmanager
def checked_out(ref: str, folder: Path) -> Iterator[Path]:
    """A worktree of `ref` below `folder`, which uses this copy's environment."""
    tree = folder / "base"
    added = subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", tree, ref],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if added.returncode != 0:
        raise DiffError(f"git cannot check out {ref!r}: {added.stderr.strip()}")
    try:
        if not (tree / "cdk.json").exists():
            raise DiffError(f"{ref} has no cdk.json: name a ref that has the CDK app")
        (tree / ".venv").symlink_to(ROOT / ".venv")
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def synthesize(tree: Path, output: Path) -> dict[str, Path]:
    """Synthesize the app in `tree`; returns each stack's template by its path, such as `dev/artifacts`."""
    done = subprocess.run(
        ["cdk", "synth", "--quiet", "--output", output],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise DiffError(f"cdk synth failed in {tree}:\n{done.stderr.strip()}")
    return dict(templates(output))


def templates(assembly: Path) -> Iterator[tuple[str, Path]]:
    """Each stack's path and template in a cloud assembly and those nested in it (one per Stage)."""
    artifacts: dict[str, dict[str, Any]] = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    for artifact in artifacts.values():
        properties = artifact.get("properties", {})
        if artifact["type"] == "cdk:cloud-assembly":
            yield from templates(assembly / properties["directoryName"])
        elif artifact["type"] == "aws:cloudformation:stack":
            yield artifact["displayName"].split(" ", maxsplit=1)[0], assembly / properties["templateFile"]


def compare(base: dict[str, Path], head: dict[str, Path], assembly: Path, empty: Path) -> None:
    """Print the differences of every stack of either side."""
    for stack in sorted(base.keys() - head.keys()):
        print(
            f"Stack {stack}\nThe stack is gone; what is deployed of it stays until `cdk destroy`.", flush=True
        )
    for stack in sorted(head):
        template = base.get(stack, empty)
        subprocess.run(
            ["cdk", "diff", stack, "--exclusively", "--app", assembly, "--template", template],
            cwd=ROOT,
            check=True,
        )


def main() -> int:
    """Compare with the ref on the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make diff", description=__doc__)
    parser.add_argument("base", nargs="?", help="a git ref, such as origin/main")
    base_ref = parser.parse_args().base
    if base_ref is None:
        sys.stderr.write("diff: BASE is missing: make diff BASE=origin/main\n")
        return 2
    os.environ.setdefault("CDK_DISABLE_CLI_TELEMETRY", "true")
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            empty = folder / "empty.template.json"
            empty.write_text("{}")
            with checked_out(base_ref, folder) as tree:
                base = synthesize(tree, folder / "base.out")
            head = synthesize(ROOT, folder / "head.out")
            compare(base, head, folder / "head.out", empty)
    except DiffError as error:
        sys.stderr.write(f"diff: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
