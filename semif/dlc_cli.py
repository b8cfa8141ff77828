"""`semif dlc`: AWS's llama.cpp containers, which the images are built on and the standard endpoint runs."""

from pathlib import Path
from typing import Annotated

import typer

from semif.console import exits, write
from semif.dlc_pins import PINS_FILE, asked_tag, comparison, read_pins
from semif.registry_api import Registry

dlc = typer.Typer(no_args_is_help=True, help="AWS's llama.cpp containers, which the images are built on.")


@dlc.command("latest")
def dlc_latest(
    *,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help="[REPOSITORY:]TAG instead of the pinned ones, such as vllm:server-sagemaker-cuda-v1."
        ),
    ] = None,
    pins: Annotated[Path, typer.Option(help="The file with the pinned digests.")] = PINS_FILE,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for each answer.")] = 20,
) -> None:
    """Print what the containers' tags mean in the public registry now, beside what is pinned.

    With --tag: only the digest of that tag, for an `image.uri`. Only looks: a pin moves by a commit.
    Exit codes: 0 asked, 2 usage, 4 try again later, 5 registry failed.
    """
    with exits():
        pinned = read_pins(pins)
        host, _, repository = pinned.repository.partition("/")
        registry = Registry(host, timeout_s=timeout)
        asked = [asked_tag(text, repository) for text in tag or ()]
        try:
            if asked:
                write("\n".join(f"{host}/{name}:{tag}  {registry.digest(name, tag)}" for name, tag in asked))
                return
            latest = [registry.digest(repository, pin.tag) for pin in pinned.pins]
        finally:
            registry.close()
        write(comparison(pinned, latest, pins))
