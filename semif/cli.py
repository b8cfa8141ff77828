"""The `semif` command: reads the command line, wires the parts, prints, exits. It decides nothing."""

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from semif import decide as decisions
from semif.aws import INVOKE_TIMEOUT_S, open_aws
from semif.client import Server, Target
from semif.climb_cli import climb
from semif.console import ENV_NAME, Profile, Region, exits, write
from semif.deployment_api import DeploymentReader
from semif.dlc_cli import dlc
from semif.endpoint_api import Endpoint, endpoint_name
from semif.errors import ExitCode, UsageError
from semif.operator_cli import deploy, destroy, doctor
from semif.package_model import command as package_command
from semif.package_model.convert import Tools
from semif.prices_cli import prices
from semif.progress import SETTLE_S, Progress
from semif.token_cli import token
from semif.watch import Ports, follow

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_ID = "decision"

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False,
    help="Decisions from a SemIf server or a SageMaker endpoint, and the watch on a deployment.",
)  # fmt: skip

app.add_typer(dlc, name="dlc")
app.command("climb")(climb)
app.command("prices")(prices)
app.command("token")(token)
for operation in (doctor, deploy, destroy):
    app.command()(operation)


@app.command()
def decide(
    *,
    file: Annotated[
        str | None,
        typer.Argument(help="JSON: {decision}, {decisions} or one decision; - reads standard input."),
    ] = None,
    state: Annotated[
        str | None, typer.Option(help="The evidence as text; @FILE reads it, @- standard input.")
    ] = None,
    state_json: Annotated[
        str | None, typer.Option(help="The evidence as JSON instead; @FILE and @- too.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="What is to be decided.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="id=description; give two or more.")] = None,
    decision_id: Annotated[
        str | None, typer.Option("--id", help="The decision's id.  [default: decision]")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help=f"A server's base address.  [default: {DEFAULT_URL}]")
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="A SageMaker endpoint's name.")] = None,
    env: Annotated[
        str | None, typer.Option(help="An environment, such as dev: its decision endpoint.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for the answer.")
    ] = INVOKE_TIMEOUT_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the server's JSON.")] = False,
) -> None:
    """Ask for a decision, from flags or from JSON; print the probabilities.

    Exit codes: 0 decided, 2 usage, 3 request refused, 4 try again later, 5 endpoint or AWS failed.
    """
    with exits():
        flags = (state, state_json, question, option, decision_id)
        if file is not None and any(flag is not None for flag in flags):
            raise UsageError("both_sources", "flags and a file were given", next_step="give one of them")
        if state is not None and state_json is not None:
            raise UsageError(
                "both_states", "--state and --state-json were given", next_step="give one of them"
            )
        if file is not None:
            source = "standard input" if file == "-" else file
            body = decisions.request_from_json(_read(file), source)
        else:
            evidence: object = _value(state) if state is not None else None
            if state_json is not None:
                evidence = decisions.parse_json(_value(state_json), "--state-json")
            body = decisions.request_from_flags(
                decision_id=DEFAULT_ID if decision_id is None else decision_id,
                state=evidence,
                question=question,
                options=option or (),
            )
        answer = _target(
            url=url, endpoint=endpoint, env=env, region=region, profile=profile, timeout_s=timeout
        ).invoke(body)
        if as_json:
            write(answer.decode("utf-8", "replace"))
        else:
            write(decisions.table(decisions.read_answers(answer), width=shutil.get_terminal_size().columns))


@app.command()
def watch(
    *,
    env: Annotated[str, typer.Argument(help="The environment, such as dev.")],
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2,
    timeout: Annotated[float | None, typer.Option(min=0, help="Stop watching after so many seconds.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for a stack that does not exist yet.")
    ] = 300,
    settle: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for another stack to begin after one has ended.")
    ] = SETTLE_S,
    region: Region = None,
    profile: Profile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print each resource.")] = False,
) -> None:
    """Follow a deployment of an environment until it ends; print the outputs or the cause.

    Only looks: stopping it stops nothing. Exit codes: 0 deployed (or deleted), 1 failed, 2 usage,
    4 stopped by --timeout or throttled, 5 AWS cannot be read, 130 Ctrl-C.
    """
    with exits():
        if not ENV_NAME.fullmatch(env):
            raise UsageError(
                "bad_env",
                f"{env!r} is no environment's name",
                next_step="use the name of cdk.json, such as dev",
            )
        aws = open_aws(region=region, profile=profile)
        reader = DeploymentReader(aws, env)

        def renew() -> bool:
            renewed = open_aws(region=region, profile=profile)
            reader.connect(renewed)
            return not renewed.fixed_credentials

        progress = Progress(env, aws.region, wait_s=wait, settle_s=settle, verbose=verbose)
        ports = Ports(reader.read, renew, write, time.sleep, time.monotonic)
        try:
            code = follow(progress, ports, interval_s=interval, timeout_s=timeout)
        except KeyboardInterrupt:
            write(f"stopped watching; the deployment goes on (semif watch {env} follows it again)")
            code = ExitCode.INTERRUPTED
    raise typer.Exit(code)


@app.command("package-model")
def package_model(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            help="OWNER/NAME of the hub, https://, s3:// or a path; without it the default model."
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="The repository's commit, branch or tag.  [default: main]")
    ] = None,
    file: Annotated[str | None, typer.Option(help="The GGUF's name in the repository.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The GGUF's checksum; another one is refused.")] = None,
    convert: Annotated[
        bool, typer.Option("--convert", help="The source is a checkpoint: make a GGUF.")
    ] = False,
    quantize: Annotated[str | None, typer.Option(help="F16, Q4_K_M, Q5_K_M or Q8_0.")] = None,
    shard_bytes: Annotated[int | None, typer.Option(help="Cut into shards of at most so many bytes.")] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="SPDX name; else as the hub says.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="All of the above as JSON, as a deployment's build gets it.")
    ] = None,
    bucket: Annotated[str | None, typer.Option(help="Where the archive goes.")] = None,
    prefix: Annotated[str, typer.Option(help="Refuse unless the archive's prefix is this one.")] = "",
    layout: Annotated[str, typer.Option("--format", help="prefix, or tar.gz.")] = "prefix",
    output: Annotated[Path | None, typer.Option(help="A folder instead of a bucket.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="Keeps what is fetched; in the user's cache by default.")
    ] = None,
    tools_python: Annotated[
        str, typer.Option(envvar="SEMIF_TOOLS_PYTHON", help="The Python that has the converter's packages.")
    ] = sys.executable,
    llama_cpp: Annotated[
        Path | None, typer.Option(envvar="SEMIF_LLAMA_CPP", help="llama.cpp's sources, for its converter.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Fetch, verify and describe a model, and put its archive into a bucket or a folder; prints its address.

    HF_TOKEN opens gated repositories, HF_ENDPOINT names another hub. Exit codes: 0 done (or already there),
    2 usage, 3 another checksum, 4 try again, 5 the source, the disk or AWS failed.
    """
    with exits():
        flags = (source, revision, file, sha256, quantize, shard_bytes, license_name)
        if recipe is not None and (convert or any(flag is not None for flag in flags)):
            raise UsageError("both_sources", "flags and --recipe were given", next_step="give one of them")
        wanted = recipe if recipe is not None else package_command.recipe_from_flags(
            source, revision=revision, file=file, sha256=sha256, quantize=quantize, convert=convert,
            shard_bytes=shard_bytes, license_name=license_name,
        )  # fmt: skip
        write(package_command.run(
            wanted, bucket=bucket, prefix=prefix, layout=layout, output=output, work=work, region=region,
            profile=profile, tools=Tools(tools_python, llama_cpp),
            say=lambda line: typer.echo(line, err=True),
        ))  # fmt: skip


def _target(
    *,
    url: str | None,
    endpoint: str | None,
    env: str | None,
    region: str | None,
    profile: str | None,
    timeout_s: float,
) -> Target:
    given = [
        flag
        for flag, value in (("--url", url), ("--endpoint", endpoint), ("--env", env))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError("several_targets", f"{' and '.join(given)} were given", next_step="give one of them")
    if endpoint is None and env is None:
        if region is not None or profile is not None:
            raise UsageError(
                "no_endpoint", "--region and --profile need an endpoint", next_step="add --endpoint or --env"
            )
        return Server(url if url is not None else DEFAULT_URL, timeout_s=timeout_s)
    aws = open_aws(region=region, profile=profile)
    name = endpoint if endpoint is not None else endpoint_name(aws.ssm(), str(env), aws.region)
    return Endpoint(aws.runtime(timeout_s=timeout_s), name)


def _value(typed: str) -> str:
    """A flag's text, or with a leading @ the text of the file it names."""
    if not typed.startswith("@"):
        return decisions.as_typed(typed)
    source = "standard input" if typed == "@-" else typed[1:]
    return decisions.decode_utf8(_read(typed[1:]), source)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(
            "not_readable", f"{name}: {error.strerror}", next_step="name a file that can be read"
        ) from error
