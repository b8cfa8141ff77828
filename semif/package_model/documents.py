"""The papers of an archive: an ML-BOM (CycloneDX 1.6) and a provenance statement (in-toto, SLSA v1). Pure."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semif.package_model.facts import SourceFile
from semif.package_model.recipe import Recipe

BUILD_TYPE: Final = "urn:semif-sagemaker:package-model:v1"
_SPDX: Final = {
    name.lower(): name
    for name in (
        "Apache-2.0",
        "BSD-3-Clause",
        "CC-BY-4.0",
        "CC-BY-NC-4.0",
        "CC-BY-SA-4.0",
        "GPL-3.0-only",
        "MIT",
    )
}


@dataclass(frozen=True)
class Product:
    """A file that was made: its name, size and checksum."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Run:
    """Who packaged and when. invocation: the build's id, "" by hand. Times: RFC 3339, UTC."""

    builder: str
    invocation: str
    started: str
    finished: str


def sbom(
    archive_id: str, products: Sequence[Product], sources: Sequence[SourceFile], manifest: Mapping[str, Any]
) -> bytes:
    """A bill of materials with the model as its component; the same for the same inputs."""
    model = manifest["model"]
    name = model["name"] or products[0].name
    licenses = [{"license": _license(manifest["license"])}] if manifest["license"] else []
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, archive_id)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "data",
                "bom-ref": archive_id,
                "name": "model archive",
                "version": archive_id,
            }
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": f"model:{archive_id}",
                "name": name,
                "version": (sources[0].revision if sources else "") or products[0].sha256,
                "hashes": [{"alg": "SHA-256", "content": products[0].sha256}],
                "licenses": licenses,
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": source.address,
                        "hashes": [{"alg": "SHA-256", "content": source.sha256}],
                    }
                    for source in sources
                ],
                "modelCard": {
                    "modelParameters": {
                        "task": "text-generation",
                        "architectureFamily": "llama.cpp",
                        "modelArchitecture": model["architecture"],
                    }
                },
                "properties": [
                    {"name": f"semif:{key}", "value": str(value)}
                    for key, value in sorted(model.items())
                    if value is not None
                ],
                "components": [
                    {
                        "type": "file",
                        "name": product.name,
                        "hashes": [{"alg": "SHA-256", "content": product.sha256}],
                    }
                    for product in products
                ],
            }
        ],
    }
    return _json(document)


def provenance(
    recipe: Recipe,
    products: Sequence[Product],
    sources: Sequence[SourceFile],
    tools: Mapping[str, str],
    run: Run,
) -> bytes:
    """An in-toto statement: which files were made of which sources, by what. tools: name → version."""
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": product.name, "digest": {"sha256": product.sha256}} for product in products],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"recipe": recipe.to_json()},
                "internalParameters": {},
                "resolvedDependencies": [
                    {"uri": source.address, "digest": {"sha256": source.sha256}}
                    | ({"annotations": {"revision": source.revision}} if source.revision else {})
                    for source in sources
                ],
            },
            "runDetails": {
                "builder": {"id": run.builder, "version": dict(tools)},
                "metadata": {
                    "invocationId": run.invocation,
                    "startedOn": run.started,
                    "finishedOn": run.finished,
                },
            },
        },
    }
    return _json(document)


def _license(name: str) -> dict[str, str]:
    """Hubs write SPDX's names in small letters, and CycloneDX's `id` takes SPDX's own spelling alone."""
    return {"id": _SPDX[name.lower()]} if name.lower() in _SPDX else {"name": name}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
