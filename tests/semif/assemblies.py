"""Cloud assemblies of a few small stacks, written by hand: the CDK CLI reads them as its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.semif.plans import endpoint, environment

SCHEMA = "48.0.0"


def parameter(name: str, value: str = "v", kind: str = "String") -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": kind, "Name": name, "Value": value}}


def artifacts_template(env: str) -> dict[str, Any]:
    """What the artifacts' stack keeps: a versioned bucket and a repository."""
    bucket = {"VersioningConfiguration": {"Status": "Enabled"}}
    stays = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    return {
        "Resources": {
            "ModelBucket": {"Type": "AWS::S3::Bucket", "Properties": bucket, **stays},
            "ImageRepository": {"Type": "AWS::ECR::Repository", "Properties": {}, **stays},
            "Parameter": parameter(f"/semif/{env}/artifacts/bucket-name"),
        }
    }


def decisions_template(env: str, *, key: str = "decisions", spare_kind: str = "") -> dict[str, Any]:
    """A parameter and an output; a second parameter of a kind that SSM may not know."""
    resources = {"Parameter": parameter(f"/semif/{env}/{key}/endpoint-name")}
    if spare_kind:
        resources["Spare"] = parameter(f"/semif/{env}/{key}/spare", kind=spare_kind)
    return {"Resources": resources, "Outputs": {"TheValue": {"Value": "v"}}}


def write_assembly(
    folder: Path, env: str, region: str, templates: Mapping[str, Mapping[str, Any]], **changes: Any
) -> Path:
    """An assembly of environment `env` whose stacks `semif-ENV-KEY` have these templates, in this order."""
    inner = folder / f"assembly-{env}"
    inner.mkdir(parents=True)
    artifacts: dict[str, Any] = {}
    for key, template in templates.items():
        file = f"{key}.template.json"
        (inner / file).write_text(json.dumps(template))
        artifacts[f"{env}{key}"] = {
            "type": "aws:cloudformation:stack",
            "environment": f"aws://unknown-account/{region}",
            "displayName": f"{env}/{key}",
            "dependencies": list(artifacts),
            "properties": {
                "templateFile": file,
                "stackName": f"semif-{env}-{key}",
                "terminationProtection": bool(changes.get("protect")),
            },
        }
    _write(inner / "manifest.json", {"version": SCHEMA, "artifacts": artifacts})
    stage = {"directoryName": inner.name, "displayName": env}
    outer = {inner.name: {"type": "cdk:cloud-assembly", "properties": stage}}
    _write(folder / "manifest.json", {"version": SCHEMA, "artifacts": outer})
    planned = environment(
        {"decisions": endpoint("decisions", name=f"semif-{env}-decisions", stack=f"semif-{env}-decisions")},
        region=region,
        stacks=[f"semif-{env}-{key}" for key in templates],
        **{"builds": [], **changes},
    )
    _write(folder / "semif.json", {"version": 1, "environments": {env: planned}})
    return folder


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document))
