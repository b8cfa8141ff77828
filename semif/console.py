"""What all commands share: how they print, how their errors become exit codes, and common options."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from semif.errors import ExitCode, SemifError

ENV_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")

Region = Annotated[str | None, typer.Option(help="AWS region; else AWS_REGION or the profile's.")]
Profile = Annotated[str | None, typer.Option(help="AWS profile.")]


def write(text: str) -> None:
    """Print at once, in UTF-8 whatever the locale."""
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.buffer.flush()


@contextmanager
def exits() -> Iterator[None]:
    """Turn errors into their report on standard error and their exit code."""
    try:
        yield
    except SemifError as error:
        typer.echo(error.report(), err=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(ExitCode.OK) from None
