"""`semif prices`: writes the project's price file anew from AWS's public price list."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from semif.console import exits, write
from semif.errors import UsageError
from semif.prices import PRICES_FILE, known_usd, read_file, summary, with_region
from semif.prices_api import BASE_URL, fetch_prices

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")


def prices(
    *,
    regions: Annotated[list[str], typer.Argument(metavar="REGION...", help="Regions such as eu-central-1.")],
    file: Annotated[Path, typer.Option(help="The price file.")] = PRICES_FILE,
    base_url: Annotated[str, typer.Option(help="Where AWS's price list is, or a mirror of it.")] = BASE_URL,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for each answer.")] = 60,
) -> None:
    """Look up what real-time endpoints cost and write it into the price file, with source and day.

    Needs no account. A region's former prices are replaced; other regions stay. Exit codes: 0 written,
    2 usage, 4 try again later, 5 the price list failed (then nothing was written).
    """
    with exits():
        for region in regions:
            if not _REGION.fullmatch(region):
                raise UsageError(
                    "bad_region", f"{region!r} is no region", next_step="give one such as eu-central-1"
                )
        before = read_file(file)
        fetched = [
            fetch_prices(region, base_url=base_url.rstrip("/"), timeout_s=timeout) for region in regions
        ]
        content = before
        for listed in fetched:
            content = with_region(content, listed)
        _replace(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        write("\n".join(summary(known_usd(before, listed.region), listed) for listed in fetched))


def _replace(file: Path, text: str) -> None:
    """Write the file whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(file)
    except OSError as error:
        raise UsageError(
            "not_writable",
            f"{file}: {error.strerror}",
            next_step="give --file with one that can be written",
        ) from error
