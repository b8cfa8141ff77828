"""The command `climb`: options in, exit code out."""

import secrets
import time
from typing import Annotated

import typer

from semif.aws import open_aws
from semif.climb import INTERVAL_S, Climbing, Ports
from semif.climb_api import ClimbCalls, read_targets
from semif.console import ENV_NAME, Profile, Region, exits, write
from semif.errors import ExitCode, UsageError


def climb(
    *,
    env: Annotated[str, typer.Argument(metavar="ENV", help="The environment, such as dev.")],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One endpoint of it, such as decisions; else all.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two polls.")] = INTERVAL_S,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Try the instance types that the pool prefers to those that serve now; what serves stays if that fails.

    Exit codes: 0 climbed, or nothing is preferred; 1 no preferred type can be had, or it failed; 2 usage;
    4 not now (an update, an alarm or scaling is under way) or throttled; 5 AWS failed; 130 Ctrl-C.
    """
    with exits():
        if not ENV_NAME.fullmatch(env):
            raise UsageError(
                "bad_env",
                f"{env!r} is no environment's name",
                next_step="use the name of cdk.json, such as dev",
            )
        aws = open_aws(region=region, profile=profile)
        targets, now = read_targets(aws, env, name)
        calls = ClimbCalls(aws, f"climb-{secrets.token_hex(8)}", now)

        def renew() -> bool:
            renewed = open_aws(region=region, profile=profile)
            calls.connect(renewed)
            return not renewed.fixed_credentials

        ports = Ports(
            poll=calls.poll,
            look=calls.look,
            renew=renew,
            say=write,
            tell=lambda error: typer.echo(error.report(), err=True),
            sleep=time.sleep,
            monotonic=time.monotonic,
        )
        try:
            code = Climbing(targets, ports, interval_s=interval).run()
        except KeyboardInterrupt:
            write(
                "stopped asking; an update that has begun goes on,"
                f" and the next semif climb {env} or deployment tidies up after it"
            )
            code = ExitCode.INTERRUPTED
    raise typer.Exit(code)
