"""Write the CycloneDX bill of materials of what the image holds beyond its base, and of the base by digest.

    sbom.py PROBE_FOLDER SITE OUT      (BASE_IMAGE and PYTHON_IMAGE are read from the environment)

The same inputs give the same bytes: no time, and a serial number made from the components.
"""

from __future__ import annotations

import os
import platform
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def base_image(reference: str) -> Component:
    """The image that ours starts from, by its digest."""
    name, _, digest = reference.partition("@sha256:")
    return Component(
        type=ComponentType.CONTAINER,
        name=name,
        version=f"sha256:{digest}" if digest else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else [],
        bom_ref="base-image",
    )


def libraries(listing: Path) -> Iterator[Component]:
    """llama.cpp's shared libraries in the base: what the bindings are proven against."""
    for line in listing.read_text().splitlines():
        sha256, _, path = line.partition("  ")
        yield Component(
            type=ComponentType.LIBRARY,
            name=Path(path).name,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
            bom_ref=path,
        )


def package(distribution: Distribution) -> Component:
    """One installed Python package."""
    name, version = distribution.metadata["Name"], distribution.version
    purl = PackageURL("pypi", name=name.lower().replace("_", "-"), version=version)
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=purl.to_string()
    )


def interpreter(reference: str) -> Component:
    """The interpreter that was brought along, and the image it came from."""
    return Component(
        type=ComponentType.PLATFORM,
        name="python",
        version=platform.python_version(),
        description=f"copied from {reference}",
        bom_ref="python",
    )


def main() -> None:
    """Command line."""
    probe, site, out = (Path(argument) for argument in sys.argv[1:4])
    parts = [base_image(os.environ["BASE_IMAGE"]), *libraries(probe / "libraries")]
    parts += sorted(
        (package(found) for found in distributions(path=[str(site)])), key=lambda part: part.name.lower()
    )
    if not (probe / "python").read_text().strip():
        parts.append(interpreter(os.environ["PYTHON_IMAGE"]))
    bom = Bom(components=parts)
    bom.metadata.timestamp = None  # type: ignore[assignment]  # reproducible: the build's log has the time
    identity = "\n".join(f"{part.bom_ref.value} {part.version}" for part in parts)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, identity)
    out.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")


if __name__ == "__main__":
    main()
