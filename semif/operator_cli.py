"""The commands `doctor`, `deploy` and `destroy`: options in, exit code out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from semif.console import ENV_NAME, Profile, Region, exits, write
from semif.deploy import deploy as run_deploy
from semif.destroy import destroy as run_destroy
from semif.doctor import examine, prepare
from semif.errors import UsageError

Environment = Annotated[str, typer.Argument(metavar="ENV", help="The environment, such as dev.")]
Assembly = Annotated[
    Path | None,
    typer.Option(help="A cloud assembly that is synthesized already; else cdk.out is made anew."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def doctor(
    *, env: Environment, assembly: Assembly = None, region: Region = None, profile: Profile = None
) -> None:
    """Look for what would stop a deployment: account, bootstrap, quotas, stacks, the model's source.

    Only looks. Exit codes: 0 nothing stops it, 1 something does, 2 usage, 5 the CDK CLI failed.
    """
    with exits():
        _check_name(env)
        prepared = prepare(env, assembly=assembly, region=region, profile=profile, say=write)
        _, code = examine(prepared, write)
    raise typer.Exit(code)


def deploy(
    *,
    env: Environment,
    yes: Yes = False,
    despite_errors: Annotated[
        bool, typer.Option("--despite-errors", help="Go on although doctor found errors.")
    ] = False,
    assembly: Assembly = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Deploy an environment: doctor, one diff, one question, then cdk deploy with the watch inside.

    Exit codes: 0 deployed, 1 doctor, you or the deployment said no, 2 usage, 5 the CDK CLI failed before,
    130 Ctrl-C (the deployment goes on).
    """
    with exits():
        _check_name(env)
        _check_terminal(yes=yes)
        prepared = prepare(env, assembly=assembly, region=region, profile=profile, say=write)
        code = run_deploy(
            prepared, ask=lambda text: yes or _asked(text), say=write, despite_errors=despite_errors
        )
    raise typer.Exit(code)


def destroy(
    *,
    env: Environment,
    yes: Yes = False,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge", help="Also remove what stays: asks for the environment's name, --yes or not."
        ),
    ] = False,
    assembly: Assembly = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Destroy an environment: say what goes and what stays, ask, run cdk destroy, check that nothing is left.

    Exit codes: 0 gone, 1 something is left, is protected or you said no, 2 usage, 130 Ctrl-C.
    """
    with exits():
        _check_name(env)
        if not purge:
            _check_terminal(yes=yes)
        prepared = prepare(env, assembly=assembly, region=region, profile=profile, say=write)
        code = run_destroy(
            prepared,
            purge=purge,
            ask=lambda text: yes or _asked(text),
            typed=lambda text: _typed(text) == env,
            say=write,
        )
    raise typer.Exit(code)


def _check_name(env: str) -> None:
    if not ENV_NAME.fullmatch(env):
        raise UsageError(
            "bad_env", f"{env!r} is no environment's name", next_step="use the name of cdk.json, such as dev"
        )


def _check_terminal(*, yes: bool) -> None:
    """Ask before anything slow begins whether the question can be answered at all."""
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "no_terminal", "there is nobody to ask: standard input is no terminal", next_step="add --yes"
        )


def _asked(question: str) -> bool:
    return _typed(f"{question} [y/N] ").lower() in {"y", "yes"}


def _typed(prompt: str) -> str:
    sys.stdout.write(prompt)
    sys.stdout.flush()
    typed = sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        sys.stdout.write("\n")
        sys.stdout.flush()
    return typed
